# SPDX-License-Identifier: MIT
"""Kind gradients: every way of writing a training loop, and of coming and going."""

from __future__ import annotations

import pytest

import checks


@pytest.mark.parametrize("file", ["loops", "comings"])
def test_gradients(file: str) -> None:
    checks.run(file)
