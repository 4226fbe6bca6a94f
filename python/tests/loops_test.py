# SPDX-License-Identifier: MIT
"""All of loops.py, in one world of two ranks: starting processes costs more than running the checks."""

from __future__ import annotations

import os

import world


def run_checks(rank: int, size: int, only: str) -> None:
    import loops

    for check in loops.CHECKS:
        if only in check.__name__:
            try:
                check(rank)
            except BaseException as error:
                error.add_note(f"in the check {check.__name__}")
                raise


def test_every_kind_of_loop() -> None:
    world.run(run_checks, os.environ.get("PLIANT_CHECK", ""), ranks=2)
