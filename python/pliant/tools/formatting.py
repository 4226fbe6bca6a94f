# SPDX-License-Identifier: MIT
"""Text forms of durations, sizes, rates and other numbers for people: three significant digits,
and the same units in every tool."""

from __future__ import annotations

import math
import unicodedata


def _three_digits(value: float, unit: str) -> str:
    number = f"{value:.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
    return f"{number} {unit}"


def duration(seconds: float | None) -> str:
    if seconds is None or not math.isfinite(seconds):
        return "-"
    size = abs(seconds)
    if size >= 600:
        return f"{seconds / 60:.0f} min"
    if size >= 1 or size == 0:
        return _three_digits(seconds, "s")
    if size >= 1e-3:
        return _three_digits(seconds * 1e3, "ms")
    return _three_digits(seconds * 1e6, "us")


def size(count: float | None) -> str:
    if count is None:
        return "-"
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 2**power:
            return _three_digits(count / 2**power, unit)
    return _three_digits(count, "B")


def rate(bits_per_second: float | None) -> str:
    if bits_per_second is None:
        return "-"
    for scale, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s")):
        if bits_per_second >= scale:
            return _three_digits(bits_per_second / scale, unit)
    return _three_digits(bits_per_second / 1e3, "kbit/s")


def link(rate_of_it: float | None, latency: float) -> str:
    """rate_of_it: None if it is too fast to tell."""
    return f"{'too fast to tell' if rate_of_it is None else rate(rate_of_it)}, {duration(latency)}"


def percent(fraction: float | None) -> str:
    """Two digits are enough for a share; small ones keep them behind the point."""
    if fraction is None:
        return "-"
    value = 100 * fraction
    return f"{value:.0f} %" if abs(value) >= 9.95 or value == 0 else f"{value:.2g} %"


def number(value: float | None) -> str:
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "not finite"
    return f"{value:.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def times(factor: float) -> str:
    return f"{factor:.1f}x" if factor < 9.95 else f"{factor:.0f}x"


def times_range(low: float, high: float) -> str:
    """ "3.4x" where both ends read alike, else "3.1 to 3.6x"."""
    if times(low) == times(high):
        return times(low)
    return f"{times(low).removesuffix('x')} to {times(high)}"


def count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def plain(text: str) -> str:
    """A text of somebody else's on one line, without what steers a terminal or turns the direction
    of writing."""
    safe = "".join(
        " "
        if each in "\n\r\t"
        else "\N{REPLACEMENT CHARACTER}"
        if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Co")
        else each
        for each in text
    )
    return safe.strip()


def short(text: str, length: int = 40) -> str:
    return text if len(text) <= length else text[: length - 1] + "\N{HORIZONTAL ELLIPSIS}"
