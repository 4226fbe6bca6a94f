# SPDX-License-Identifier: MIT
"""Charts of the results as SVG, written by hand so that they look the same everywhere."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evidence.curves import Curve
from evidence.judge import Judge

WIDTH, HEIGHT = 860, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 210, 40, 52
# Distinguishable by people who see colours differently.
COLOURS = {
    "ddp": "#7f7f7f",
    "peer": "#d55e00",
    "paper": "#cc79a7",
    "static": "#56b4e9",
    "auto": "#0072b2",
}
NAMES = {
    "peer": "best other method",
    "paper": "published system",
    "static": "best fixed plan",
    "auto": "Pliant, auto",
}


def loss_over_time(judge: Judge, title: str) -> str:
    """Test loss of the first seed, both axes logarithmic: plain DDP, the best of each family of
    methods, and `auto`."""
    seed = judge.seeds[0]
    shown = {"ddp": ("ddp", "plain DDP")}
    for family in ("peer", "paper", "static"):
        if names := judge.methods(family):
            best = judge.best(names)
            shown[family] = (best, f"best other: {best}" if family == "peer" else NAMES[family])
    shown["auto"] = ("auto", NAMES["auto"])
    curves = {key: (judge.curves[method, seed], words) for key, (method, words) in shown.items()}
    longest = max(curve.times[-1] for curve, _ in curves.values())
    shortest = longest / 100  # the first hundredth says nothing
    highest = max(curve.losses[0] for curve, _ in curves.values())
    lowest = min(min(curve.losses) for curve, _ in curves.values())

    def x(seconds: float) -> float:
        share = math.log(seconds / shortest) / math.log(longest / shortest)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(loss: float) -> float:
        share = (math.log(loss) - math.log(lowest)) / (math.log(highest) - math.log(lowest))
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def line(curve: Curve) -> str:
        return " ".join(
            f"{x(t):.1f},{y(loss):.1f}"
            for t, loss in zip(curve.times, curve.losses, strict=True)
            if t >= shortest
        )

    parts = _opening(HEIGHT, f"Test loss over time: {title}")
    for seconds in (digit * 10**power for power in range(-1, 5) for digit in (1, 2, 5)):
        if shortest <= seconds <= longest:
            parts.append(_text(x(seconds), HEIGHT - BOTTOM + 20, f"{seconds:g} s", "middle"))
            parts.append(_line(x(seconds), TOP, x(seconds), HEIGHT - BOTTOM, "#eee"))
    for i in range(6):
        loss = lowest * (highest / lowest) ** (i / 5)
        parts.append(_text(LEFT - 8, y(loss) + 4, f"{loss:.2f}", "end"))
        parts.append(_line(LEFT, y(loss), WIDTH - RIGHT, y(loss), "#eee"))
    for row, (key, (curve, words)) in enumerate(curves.items()):
        place = TOP + 16 + 24 * row
        parts.append(
            f'<polyline points="{line(curve)}" fill="none" stroke="{COLOURS[key]}" stroke-width="2"/>'
        )
        start = WIDTH - RIGHT + 14
        parts.append(_line(start, place - 4, start + 24, place - 4, COLOURS[key], 3))
        parts.append(_text(start + 30, place, words))
    return "\n".join([*parts, "</svg>"]) + "\n"


@dataclass(frozen=True)
class Range:
    """A median with its spread."""

    value: float
    low: float
    high: float


def dots(
    title: str,
    axis: str,
    rows: Sequence[tuple[str, Mapping[str, Range]]],
    ticks: Sequence[float],
    show: Callable[[float], str],
    *,
    log: bool,
) -> str:
    """One row a study, one dot a family of methods, with a bar from low to high. Values beyond the
    ticks are drawn at the edge."""
    families = [key for key in COLOURS if any(key in values for _, values in rows)]
    left, pitch = 170, 14 * len(families) + 12
    height = TOP + 24 + pitch * len(rows) + BOTTOM
    scale = math.log if log else float
    first, last = scale(ticks[0]), scale(ticks[-1])

    def x(value: float) -> float:
        inside = min(max(value, ticks[0]), ticks[-1])
        return left + (scale(inside) - first) / (last - first) * (WIDTH - left - 30)

    parts = _opening(height, title)
    for column, key in enumerate(families):
        parts.append(_dot(left + 150 * column, TOP + 6, key))
        parts.append(_text(left + 150 * column + 12, TOP + 10, NAMES[key]))
    top, bottom = TOP + 22, height - BOTTOM
    for tick in ticks:
        parts.append(_line(x(tick), top, x(tick), bottom, "#ddd"))
        parts.append(_text(x(tick), bottom + 18, show(tick), "middle"))
    parts.append(_text((left + WIDTH) / 2, bottom + 38, axis, "middle"))
    for row, (label, values) in enumerate(rows):
        place = top + pitch * row
        parts.append(_text(left - 10, place + pitch / 2 + 5, label, "end"))
        parts.append(_line(8, place + pitch, WIDTH - 8, place + pitch, "#eee"))
        for i, key in enumerate(families):
            if key in values:
                one, y = values[key], place + 13 + 14 * i
                parts.append(_line(x(one.low), y, x(one.high), y, COLOURS[key], 2))
                parts.append(_dot(x(one.value), y, key))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _opening(height: float, title: str) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="8" y="24" font-size="16">{html.escape(title)}</text>',
    ]


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: int = 1) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"/>'


def _dot(x: float, y: float, family: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{COLOURS[family]}"/>'
