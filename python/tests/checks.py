# SPDX-License-Identifier: MIT
"""Runs all checks of a file in one world of ranks: starting processes costs more than most of them.
PLIANT_CHECK=name runs those with that name."""

from __future__ import annotations

import importlib
import os

import world


def _run(rank: int, size: int, file: str, only: str) -> None:
    for check in importlib.import_module(file).CHECKS:
        if only in check.__name__:
            try:
                check(rank)
            except BaseException as error:
                error.add_note(f"in the check {check.__name__}")
                raise


def run(file: str, ranks: int = 2) -> None:
    world.run(_run, file, os.environ.get("PLIANT_CHECK", ""), ranks=ranks)
