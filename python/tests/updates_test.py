# SPDX-License-Identifier: MIT
"""All checks of kind updates."""

from __future__ import annotations

import pytest

import checks


@pytest.mark.parametrize("file", ["updates_optimizers", "updates_loops", "updates_people"])
def test_updates(file: str) -> None:
    checks.run(file)


@pytest.mark.parametrize(
    "ranks", [pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(4, marks=pytest.mark.slow)]
)
def test_the_arithmetic_of_updates(ranks: int) -> None:
    checks.run("updates_arithmetic", ranks)
