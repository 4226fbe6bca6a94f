# SPDX-License-Identifier: MIT
"""Checks of the arguments of public functions. Each refusal is one sentence that names the
argument, its value and what is allowed: a TypeError for a wrong type, else a ValueError."""

from __future__ import annotations

import operator
import reprlib

_REPR = reprlib.Repr()
_REPR.maxstring, _REPR.maxother = 80, 60


def refusal(error: type[Exception], name: str, value: object, allowed: str) -> Exception:
    """The exception to raise."""
    return error(f"{name}={shown(value)}: allowed is {allowed}")


def shown(value: object) -> str:
    """The value on one short line."""
    return " ".join(_REPR.repr(value).split())


def check_text(name: str, value: object, allowed: str) -> None:
    if not isinstance(value, str):
        raise refusal(TypeError, name, value, allowed)


def check_word(name: str, value: object, words: tuple[str, ...]) -> None:
    *most, last = (repr(word) for word in words)
    allowed = f"{', '.join(most)} or {last}" if most else last
    check_text(name, value, allowed)
    if value not in words:
        raise refusal(ValueError, name, value, allowed)


def check_flag(name: str, value: object, allowed: str = "True or False") -> None:
    if not isinstance(value, bool):
        raise refusal(TypeError, name, value, allowed)


def check_whole(name: str, value: object, least: int, most: int) -> None:
    allowed = f"a whole number from {least} to {most}"
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise refusal(TypeError, name, value, allowed) from None
    if isinstance(value, bool):
        raise refusal(TypeError, name, value, allowed)
    if not least <= number <= most:
        raise refusal(ValueError, name, value, allowed)


def number_of(name: str, value: object, allowed: str) -> float:
    """The value as a float: a Python number, or one of numpy or torch. A text is no number."""
    if isinstance(value, (bool, str, bytes)):
        raise refusal(TypeError, name, value, allowed)
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise refusal(TypeError, name, value, allowed) from None
