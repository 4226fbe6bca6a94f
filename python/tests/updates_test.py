# SPDX-License-Identifier: MIT
"""All of updates_cases.py, in one world of two ranks."""

from __future__ import annotations

import os

import world


def run_checks(rank: int, size: int, only: str) -> None:
    import updates_cases

    for check in updates_cases.CHECKS:
        if only in check.__name__:
            try:
                check(rank)
            except BaseException as error:
                error.add_note(f"in the check {check.__name__}")
                raise


def test_updates() -> None:
    world.run(run_checks, os.environ.get("PLIANT_CHECK", ""), ranks=2)
