# SPDX-License-Identifier: MIT
"""Exit codes of every command-line tool, the same as those of the C++ tools."""

from __future__ import annotations

FINE = 0
FAILED = 1
BAD_INPUT = 2
WRONG_RESULT = 5
SOMETHING_MISSING = 6
TIMEOUT = 124


def ended_by(signal: int) -> int:
    return 128 + signal
