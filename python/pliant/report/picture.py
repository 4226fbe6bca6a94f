# SPDX-License-Identifier: MIT
"""Picture of the headline chart as PNG: noted values over time, and step times below, with the
network's phases behind.

Drawn by matplotlib, which needs no browser and no display."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pliant.report import files, verdict
from pliant.report.chart import (
    TRUTH,
    Calm,
    finite,
    look,
    running_mean,
    running_median,
    thinned,
    window_of,
)
from pliant.report.figures import Comparison, Figures, phases
from pliant.report.network_charts import true_points
from pliant.report.training_charts import noted_names
from pliant.report.truth import Truth
from pliant.runlog import RunLog
from pliant.tools import formatting

DASHES = ("-", "--", ":", "-.")


class NoMatplotlib(RuntimeError):
    """The package `matplotlib` is not installed here."""


def check() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise NoMatplotlib(
            "--png needs the Python package matplotlib, which is not here: pip install matplotlib"
        ) from None


def write(
    path: Path,
    logs: Sequence[RunLog],
    figures: Sequence[Figures],
    comparison: Comparison,
    truth: Truth | None,
) -> None:
    """1400 pixels wide."""
    data = png(logs, figures, comparison, truth)
    with files.whole_file(path) as temporary:
        temporary.write_bytes(data)


def png(
    logs: Sequence[RunLog], figures: Sequence[Figures], comparison: Comparison, truth: Truth | None
) -> bytes:
    check()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    name = next(iter(noted_names(logs)), None)
    style: Any = {
        "font.family": "DejaVu Sans",
        "font.size": 10.5,
        "text.parse_math": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": "#9aa5b1",
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(10, 6.4 if name else 4.2), dpi=140, layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(2 if name else 1, 1, sharex=True, squeeze=False)[:, 0]
        if name:
            _noted(panels[0], logs, name)
        _step_times(panels[-1], logs, named=name is None)
        for panel in panels:
            _behind(panel, logs, truth, labelled=panel is panels[0])
            if panel.get_legend_handles_labels()[0]:
                panel.legend(loc="best", framealpha=0.9, edgecolor="none")
        figure.suptitle(
            _headline(figures, comparison),
            x=0.01,
            ha="left",
            fontsize=13,
            fontweight="bold",
            wrap=True,
        )
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", facecolor="white")
    return buffer.getvalue()


def _headline(figures: Sequence[Figures], comparison: Comparison) -> str:
    sentences = verdict.of_comparison(comparison, figures)
    text = (
        sentences[0]
        if sentences
        else verdict.against_dense(figures[0])
        if figures[0].steps
        else "No step was logged"
    )
    return formatting.short(text, 180)


def _line(
    panel: Any,
    index: int,
    name: str | None,
    x: Sequence[float],
    y: Sequence[float | None],
    calmed: Calm = running_median,
) -> None:
    colour, _, _ = look(index)
    values = [float("nan") if value is None else value for value in finite(y)]
    dash = DASHES[index % len(DASHES)]
    if len(values) <= 60:
        panel.plot(
            x, values, dash, color=colour, linewidth=2, marker="o", markersize=3.5, label=name
        )
        return
    panel.plot(x, values, ".", color=colour, alpha=0.18, markersize=3, rasterized=True)
    calm = [
        float("nan") if value is None else value
        for value in calmed(finite(y), window_of(len(values)))
    ]
    panel.plot(x, calm, dash, color=colour, linewidth=2, label=name)


def _noted(panel: Any, logs: Sequence[RunLog], name: str) -> None:
    for index, log in enumerate(logs):
        points = [(note.t, note.values[name]) for note in log.notes if name in note.values]
        _line(
            panel,
            index,
            formatting.short(formatting.plain(log.header.name)),
            [x for x, _ in points],
            [y for _, y in points],
            running_mean,
        )
    panel.set_ylabel(formatting.short(formatting.plain(name)))
    panel.grid(color="#e8ecf0")


def _step_times(panel: Any, logs: Sequence[RunLog], named: bool) -> None:
    for index, log in enumerate(logs):
        steps = thinned([step for step in log.steps if step.whole])
        if not steps:
            continue
        _line(
            panel,
            index,
            formatting.short(formatting.plain(log.header.name)) if named else None,
            [step.t for step in steps],
            [step.whole for step in steps],
        )
        dense = [float("nan") if step.dense_step is None else step.dense_step for step in steps]
        if any(value == value for value in dense):
            panel.plot(
                [step.t for step in steps],
                dense,
                ":",
                color="#444444",
                linewidth=1.2,
                label="dense would take" if index == 0 else None,
            )
    if panel.lines:
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(lambda value, _: formatting.duration(value))
        panel.yaxis.set_minor_formatter(lambda value, _: "")
    else:
        panel.text(
            0.5,
            0.5,
            "no step in these logs says how long it took",
            ha="center",
            transform=panel.transAxes,
            color="#52606d",
        )
    panel.set_ylabel("step time")
    panel.set_xlabel("time (s)")
    panel.grid(color="#e8ecf0")


def _behind(panel: Any, logs: Sequence[RunLog], truth: Truth | None, labelled: bool) -> None:
    """The network's truth under the longest run, on a logarithmic scale, and the names of its
    phases."""
    log = max(logs, key=lambda each: each.seconds)
    for t, name in phases(log, truth):
        panel.axvline(t, color="#7b8794", linewidth=0.8, linestyle=":")
        if labelled and name:
            panel.annotate(
                formatting.short(name, 18),
                (t, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(3, 1),
                textcoords="offset points",
                fontsize=8.5,
                color="#52606d",
            )
    x, y = true_points(log, truth, lambda state: state.rate)
    known = [value for value in y if value is not None]
    if known:
        low, high = math.log(min(known) / 2), math.log(max(known) * 1.1)
        heights = [0.0 if value is None else (math.log(value) - low) / (high - low) for value in y]
        label = "network's true rate" if labelled else None
        panel.fill_between(
            x,
            0,
            heights,
            step="post",
            transform=panel.get_xaxis_transform(),
            color=TRUTH,
            alpha=0.2,
            linewidth=0,
            zorder=0,
            label=label,
        )
