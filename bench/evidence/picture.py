# SPDX-License-Identifier: MIT
"""Loss over time as an SVG, drawn by hand: it must look the same everywhere and need nothing."""

from __future__ import annotations

import html
import math

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


def of(judge: Judge, title: str) -> str:
    seed = judge.seeds[0]
    shown = {"ddp": ("ddp", "plain DDP")}
    for family, words in (
        ("peer", "best peer: {}"),
        ("paper", "published system"),
        ("static", "best fixed plan"),
    ):
        if names := judge.methods(family):
            best = judge.best(names)
            shown[family] = (best, words.format(best))
    shown["auto"] = ("auto", "Pliant, auto")
    curves = {key: (judge.curves[method, seed], words) for key, (method, words) in shown.items()}
    longest = max(curve.times[-1] for curve, _ in curves.values())
    highest = max(curve.losses[0] for curve, _ in curves.values())
    lowest = min(min(curve.losses) for curve, _ in curves.values())

    def x(seconds: float) -> float:
        return LEFT + seconds / longest * (WIDTH - LEFT - RIGHT)

    def y(loss: float) -> float:
        share = (math.log(loss) - math.log(lowest)) / (math.log(highest) - math.log(lowest))
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def line(curve: Curve) -> str:
        return " ".join(
            f"{x(t):.1f},{y(loss):.1f}" for t, loss in zip(curve.times, curve.losses, strict=True)
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="16">Test loss over time ({html.escape(title)})</text>',
    ]
    for i in range(6):
        seconds = longest * i / 5
        parts.append(
            f'<text x="{x(seconds):.0f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{seconds:.0f} s</text>'
        )
        parts.append(
            f'<line x1="{x(seconds):.0f}" y1="{TOP}" x2="{x(seconds):.0f}" y2="{HEIGHT - BOTTOM}" stroke="#eee"/>'
        )
        loss = lowest * (highest / lowest) ** (i / 5)
        parts.append(
            f'<text x="{LEFT - 8}" y="{y(loss) + 4:.0f}" text-anchor="end">{loss:.2f}</text>'
        )
        parts.append(
            f'<line x1="{LEFT}" y1="{y(loss):.0f}" x2="{WIDTH - RIGHT}" y2="{y(loss):.0f}" stroke="#eee"/>'
        )
    for row, (key, (curve, words)) in enumerate(curves.items()):
        place = TOP + 16 + 24 * row
        parts.append(
            f'<polyline points="{line(curve)}" fill="none" stroke="{COLOURS[key]}" stroke-width="2"/>'
        )
        parts.append(
            f'<line x1="{WIDTH - RIGHT + 14}" y1="{place - 4}" x2="{WIDTH - RIGHT + 38}" y2="{place - 4}" stroke="{COLOURS[key]}" stroke-width="3"/>'
        )
        parts.append(f'<text x="{WIDTH - RIGHT + 44}" y="{place}">{html.escape(words)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
