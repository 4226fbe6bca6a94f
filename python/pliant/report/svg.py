# SPDX-License-Identifier: MIT
"""Headline chart as SVG: one small file that needs nothing, legible on light and dark pages."""

from __future__ import annotations

import html
from collections.abc import Sequence

from pliant.report.headline import Area, Dot, Headline, Line, Point, Shape, Text

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"

# By role: on a light page, and on a dark one. Runs have the colours of chart.py.
LIGHT = {
    "card": "#ffffff",
    "ink": "#1f2a37",
    "quiet": "#52606d",
    "grid": "#e8ecf0",
    "run0": "#0072B2",
    "run1": "#C24E00",
    "run2": "#007F5C",
    "run3": "#A8487C",
}
DARK = {
    "card": "#0d1117",
    "ink": "#e6edf3",
    "quiet": "#9da7b3",
    "grid": "#262c36",
    "run0": "#58b5ee",
    "run1": "#ff9147",
    "run2": "#2fc79c",
    "run3": "#e08fbb",
}


def text(chart: Headline, *, dark: bool = True) -> str:
    """dark: follows the reader's colour scheme; otherwise always light."""
    style = _style(LIGHT)
    if dark:
        style += f"@media (prefers-color-scheme: dark){{{_style(DARK)}}}"
    size = f"{chart.width:g} {chart.height:g}"
    body = "\n".join(_drawn(shape) for shape in chart.shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{chart.width:g}" '
        f'role="img" aria-label="{html.escape(chart.title)}" class="headline" '
        f'font-family="{FONT}">\n'
        f"<style>{style}</style>\n"
        f'<rect width="{chart.width:g}" height="{chart.height:g}" rx="8" class="f-card"/>\n'
        f"{body}\n</svg>\n"
    )


def _style(colours: dict[str, str]) -> str:
    return "".join(
        f".headline .f-{role}{{fill:{colour}}}.headline .s-{role}{{stroke:{colour}}}"
        for role, colour in colours.items()
    )


def _drawn(shape: Shape) -> str:
    match shape:
        case Text():
            x, y = shape.at
            weight = ' font-weight="600"' if shape.bold else ""
            anchor = f' text-anchor="{shape.anchor}"' if shape.anchor != "start" else ""
            return (
                f'<text x="{_n(x)}" y="{_n(y)}" font-size="{shape.size:g}" '
                f'class="f-{shape.role}"{anchor}{weight}>{html.escape(shape.text, quote=False)}</text>'
            )
        case Line():
            dash = f' stroke-dasharray="{shape.dash}"' if shape.dash else ""
            return (
                f'<polyline points="{_points(shape.points)}" fill="none" class="s-{shape.role}" '
                f'stroke-width="{shape.width:g}" stroke-linejoin="round"{dash}/>'
            )
        case Area():
            tip = f"<title>{html.escape(shape.tip, quote=False)}</title>" if shape.tip else ""
            return (
                f'<polygon points="{_points(shape.points)}" class="f-{shape.role}" '
                f'fill-opacity="{shape.opacity:.2g}">{tip}</polygon>'
            )
        case Dot():
            x, y = shape.at
            return f'<circle cx="{_n(x)}" cy="{_n(y)}" r="5" class="f-{shape.role}"/>'


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
