# SPDX-License-Identifier: MIT
"""Headline chart as PNG, drawn by matplotlib, which needs no browser and no display."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from pliant.report import files
from pliant.report.headline import Area, Dot, Headline, Line, Shape, Text
from pliant.report.svg import LIGHT

DPI = 140
SCALE = 72 / 76  # points of a pixel: 760 pixels are ten inches
WIDTH_INCHES = 10


class NoMatplotlib(RuntimeError):
    """The package `matplotlib` is not installed here."""


def check() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise NoMatplotlib(
            "--png needs the Python package matplotlib, which is not here: pip install matplotlib"
        ) from None


def write(path: Path, chart: Headline) -> None:
    """1400 pixels wide."""
    data = png(chart)
    with files.whole_file(path) as temporary:
        temporary.write_bytes(data)


def png(chart: Headline) -> bytes:
    check()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    style: Any = {"font.family": "DejaVu Sans", "text.parse_math": False}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(WIDTH_INCHES, WIDTH_INCHES * chart.height / chart.width), dpi=DPI)
        FigureCanvasAgg(figure)
        panel = figure.add_axes((0, 0, 1, 1))
        panel.set_axis_off()
        panel.set_xlim(0, chart.width)
        panel.set_ylim(chart.height, 0)
        for order, shape in enumerate(chart.shapes):
            _draw(panel, shape, order)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", facecolor=LIGHT["card"])
    return buffer.getvalue()


def _draw(panel: Any, shape: Shape, order: int) -> None:
    colour = LIGHT[shape.role]
    match shape:
        case Text():
            panel.text(
                *shape.at,
                shape.text,
                color=colour,
                fontsize=0.93 * SCALE * shape.size,  # DejaVu is wider than most
                ha={"start": "left", "middle": "center", "end": "right"}[shape.anchor],
                va="baseline",
                fontweight="bold" if shape.bold else "normal",
                zorder=order,
            )
        case Line():
            dash = tuple(float(each) for each in shape.dash.split())
            panel.plot(
                [x for x, _ in shape.points],
                [y for _, y in shape.points],
                color=colour,
                linewidth=SCALE * shape.width,
                linestyle=(0, dash) if dash else "-",
                zorder=order,
            )
        case Area():
            panel.fill(
                [x for x, _ in shape.points],
                [y for _, y in shape.points],
                color=colour,
                alpha=shape.opacity,
                linewidth=0,
                zorder=order,
            )
        case Dot():
            panel.plot(*shape.at, "o", color=colour, markersize=SCALE * 10, zorder=order)
