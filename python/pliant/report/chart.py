# SPDX-License-Identifier: MIT
"""Parts that all charts share: a figure for plotly as plain data, axes, and colours that
colour-blind people can tell apart."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pliant.runlog import RunLog, Step
from pliant.tools import formatting

Trace = dict[str, Any]
Calm = Callable[[Sequence[float | None], int], list[float | None]]

# Okabe and Ito's palette without its yellow, which is too light on white. Runs differ in dash and
# symbol as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star")
SCHEMES = {
    "dense": ("#444444", "square"),
    "union": ("#0072B2", "circle"),
    "shared/star": ("#D55E00", "diamond"),
    "shared/var": ("#CC79A7", "triangle-up"),
    "srs": ("#009E73", "cross"),
}
TRUTH = "#9aa5b1"
LEGEND = {
    "orientation": "h",
    "x": 0,
    "y": 1.03,
    "xanchor": "left",
    "yanchor": "bottom",
    "font": {"size": 12},
}  # above the chart

# More points than a screen has pixels only make the page slow.
MOST_STEPS = 4000


@dataclass
class Chart:
    id: str
    title: str
    caption: str
    traces: list[Trace] = field(default_factory=list)
    layout: dict[str, Any] = field(default_factory=dict)
    empty: str = "There is nothing to draw here."
    height: int = 320
    wide: bool = False  # all columns

    @property
    def has_points(self) -> bool:
        return any(value is not None for trace in self.traces for value in trace.get("y", ()))


@dataclass
class Section:
    title: str
    text: str
    charts: list[Chart]


def escaped(text: str) -> str:
    """Plotly reads a little HTML in names and labels: none of it may come from a log."""
    return html.escape(formatting.plain(text), quote=False)


def run_name(log: RunLog) -> str:
    return escaped(formatting.short(formatting.plain(log.header.name)))


def look(index: int) -> tuple[str, str, str]:
    """Colour, dash and symbol of a run."""
    return COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)], SYMBOLS[index % len(SYMBOLS)]


def scheme_look(name: str) -> tuple[str, str]:
    return SCHEMES.get(name, (COLOURS[4], "star"))


def see_through(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def finite(values: Iterable[float | None]) -> list[float | None]:
    return [value if value is not None and math.isfinite(value) else None for value in values]


def thinned(steps: Sequence[Step]) -> list[Step]:
    """At most about MOST_STEPS of them: of every few neighbours the fastest and the slowest, so
    that no spike is lost."""
    if len(steps) <= MOST_STEPS:
        return list(steps)
    width = math.ceil(2 * len(steps) / MOST_STEPS)
    kept: list[Step] = []
    for begin in range(0, len(steps), width):
        group = range(begin, min(begin + width, len(steps)))
        pair = {
            min(group, key=lambda i: steps[i].whole or 0.0),
            max(group, key=lambda i: steps[i].whole or 0.0),
        }
        kept.extend(steps[i] for i in sorted(pair))
    return kept


def running_median(values: Sequence[float | None], window: int) -> list[float | None]:
    """Median of the values around each one."""
    half = window // 2
    out: list[float | None] = []
    for i in range(len(values)):
        near = sorted(
            value for value in values[max(0, i - half) : i + half + 1] if value is not None
        )
        out.append(near[len(near) // 2] if near else None)
    return out


def running_mean(values: Sequence[float | None], window: int) -> list[float | None]:
    """Mean of the values around each one; as many on either side, so that a falling curve is not
    bent at its ends."""
    out: list[float | None] = []
    for i in range(len(values)):
        half = min(window // 2, i, len(values) - 1 - i)
        near = [value for value in values[i - half : i + half + 1] if value is not None]
        out.append(sum(near) / len(near) if near else None)
    return out


def window_of(count: int) -> int:
    """Wide enough to calm a curve, narrow enough to show a change: a fortieth of it."""
    return max(5, count // 40) | 1


def axis(title: str, **more: Any) -> dict[str, Any]:
    base = {
        "title": {"text": title, "standoff": 8},
        "gridcolor": "#e8ecf0",
        "zeroline": False,
        "linecolor": "#c5ced6",
        "ticks": "outside",
        "tickcolor": "#c5ced6",
        "automargin": True,
    }
    return base | more


def seconds_axis(title: str, **more: Any) -> dict[str, Any]:
    return axis(title, **{"tickformat": "~s", "ticksuffix": "s", "nticks": 7} | more)


def log_axis(
    title: str, values: Iterable[float | None], text: Callable[[float], str], **more: Any
) -> dict[str, Any]:
    """Logarithmic over at least a third of a decade, so that what stands still looks still; marked
    at 1, 2 and 5, or at decades where there are many."""
    known = [value for value in values if value]
    low, high = math.log10(min(known, default=1.0)), math.log10(max(known, default=1.0))
    spare = max(0.06 * (high - low), (0.34 - (high - low)) / 2, 0.03)
    low, high = low - spare, high + spare
    digits = (1, 2, 5) if high - low < 2.2 else (1, 3) if high - low < 4 else (1,)
    marks = [
        digit * 10.0**decade
        for decade in range(math.floor(low), math.ceil(high) + 1)
        for digit in digits
    ]
    return axis(
        title,
        type="log",
        range=[low, high],
        tickvals=marks,
        ticktext=[text(mark) for mark in marks],
        **more,
    )


def size_axis(title: str, values: Sequence[float]) -> dict[str, Any]:
    """Logarithmic, marked at powers of two, since sizes are written in KiB and MiB."""
    low, high = (
        math.floor(math.log2(max(1.0, min(values, default=1.0)))),
        math.ceil(math.log2(max(2.0, max(values, default=1.0)))),
    )
    high = max(high, low + 1)
    stride = max(1, math.ceil((high - low) / 6))
    marks = list(range(low, high + stride, stride))
    spare = 0.02 * (high - low)  # so that what lies on the edge is not cut
    return axis(
        title,
        type="log",
        range=[(low - spare) * math.log10(2), (high + spare) * math.log10(2)],
        tickvals=[2**mark for mark in marks],
        ticktext=[formatting.size(2**mark) for mark in marks],
    )


def drawn(traces: Iterable[Trace], key: str = "y") -> list[float]:
    return [value for trace in traces for value in trace[key] if value is not None]


def layout(x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    base = {
        "font": {
            "family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
            "size": 13,
            "color": "#1f2a37",
        },
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "#ffffff",
        "margin": {"l": 52, "r": 18, "t": 8, "b": 44},
        "legend": LEGEND,
        "showlegend": True,
        "hovermode": "closest",
        "hoverlabel": {"namelength": -1},
        "xaxis": x,
        "yaxis": y,
    }
    return base | more


def phase_marks(phases: Sequence[tuple[float, str]]) -> dict[str, Any]:
    """A line where a phase begins, with its name."""
    shapes = [
        {
            "type": "line",
            "xref": "x",
            "yref": "paper",
            "x0": t,
            "x1": t,
            "y0": 0,
            "y1": 1,
            "line": {"color": "#7b8794", "width": 1, "dash": "dot"},
        }
        for t, _ in phases
    ]
    labels = [
        {
            "xref": "x",
            "yref": "paper",
            "x": t,
            "y": 1,
            "yanchor": "bottom",
            "xanchor": "left",
            "text": escaped(formatting.short(name, 18)),
            "showarrow": False,
            "font": {"size": 11, "color": "#52606d"},
        }
        for t, name in phases
        if name
    ]
    return {
        "shapes": shapes,
        "annotations": labels,
        "legend": LEGEND | {"y": 1.09 if labels else 1.03},
    }


def raw_and_calm(
    name: str,
    x: Sequence[float],
    y: Sequence[float | None],
    index: int,
    hover: Sequence[str] | None = None,
    calmed: Calm = running_median,
) -> list[Trace]:
    """Every point, faint, and a calm line through them; few points are joined as they are."""
    colour, dash, symbol = look(index)
    values = finite(y)
    line = {"color": colour, "width": 2, "dash": dash}
    text: Trace = {"text": list(hover), "hovertemplate": "%{text}<extra></extra>"} if hover else {}
    if len(values) <= 60:
        return [
            {
                "type": "scatter",
                "name": name,
                "x": list(x),
                "y": values,
                "mode": "lines+markers",
                "line": line,
                "marker": {"color": colour, "symbol": symbol, "size": 6},
            }
            | text
        ]
    dots: Trace = {
        "type": "scatter",
        "name": name,
        "x": list(x),
        "y": values,
        "mode": "markers",
        "marker": {"color": colour, "symbol": symbol, "size": 4, "opacity": 0.28},
    }
    calm: Trace = {
        "type": "scatter",
        "name": name,
        "x": list(x),
        "y": calmed(values, window_of(len(values))),
        "mode": "lines",
        "line": line,
        "hoverinfo": "skip",
    }
    return [dots | text | {"legendgroup": name, "showlegend": False}, calm | {"legendgroup": name}]
