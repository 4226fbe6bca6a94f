# SPDX-License-Identifier: MIT
"""Reason why a run ended, for its log: it was closed, the user interrupted it, or an exception did."""

from __future__ import annotations

import sys

from pliant import _native


def on_its_way(known: BaseException | None) -> BaseException | None:
    """The exception that is being handled now, unless it is `known`: the averager was made inside
    an `except` block."""
    error = sys.exc_info()[1]
    return None if error is known else error


def close(
    engine: _native.Engine, *, at_exit: bool = False, known: BaseException | None = None
) -> None:
    """Closes the engine; its log ends with the exception that is on its way, if there is one.
    at_exit: or that has ended the script. known: an exception that user code had handled before."""
    error = on_its_way(known)
    if error is None and at_exit and not hasattr(sys, "ps1"):
        error = getattr(sys, "last_value", None)
    if error is None or isinstance(error, SystemExit):
        engine.close()
    elif isinstance(error, KeyboardInterrupt):
        engine.close(interrupted=True)
    else:
        engine.close(error=f"{type(error).__name__}: {error}")
