# SPDX-License-Identifier: MIT
"""Charts of exchanges: predicted and measured times, bytes, gain, residual."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from pliant.report.chart import (
    Chart,
    Section,
    Trace,
    axis,
    drawn,
    layout,
    log_axis,
    look,
    raw_and_calm,
    run_name,
    scheme_look,
    size_axis,
    thinned,
)
from pliant.report.training_charts import hover
from pliant.runlog import RunLog, Step, plan_text
from pliant.tools import formatting


def predictions(logs: Sequence[RunLog]) -> Section:
    charts = [
        chart(log, index, len(logs))
        for index, log in enumerate(logs)
        for chart in (_prediction, _over_time)
    ]
    text = "Time on the wire of a step's exchanges: what the model said beforehand, and what was seen. On the line it was right; above it, the network was slower than thought."
    return Section("Predicted against seen", text, charts)


def _prediction(log: RunLog, index: int, runs: int) -> Chart:
    chart = Chart(
        f"prediction-{index}",
        "Predicted against seen"
        + (f": {formatting.short(formatting.plain(log.header.name))}" if runs > 1 else ""),
        "A point is a step; both scales are logarithmic.",
        empty="No step of this log has both a predicted and a seen time of its exchanges.",
    )
    steps = thinned([step for step in log.steps if step.predicted and step.seen])
    for name in dict.fromkeys(plan_text.scheme(step.plan) for step in steps):
        colour, symbol = scheme_look(name)
        mine = [step for step in steps if plan_text.scheme(step.plan) == name]
        chart.traces.append(
            {
                "type": "scatter",
                "name": name,
                "x": [step.predicted for step in mine],
                "y": [step.seen for step in mine],
                "mode": "markers",
                "marker": {"color": colour, "symbol": symbol, "size": 6, "opacity": 0.55},
                "text": [hover(step) for step in mine],
                "hovertemplate": "predicted %{x:.3~s}s, seen %{y:.3~s}s<br>%{text}<extra></extra>",
            }
        )
    if steps:
        times = [time for step in steps for time in (step.predicted, step.seen) if time]
        ends = [min(times) * 0.8, max(times) * 1.25]
        chart.traces.append(
            {
                "type": "scatter",
                "name": "as predicted",
                "x": ends,
                "y": ends,
                "mode": "lines",
                "line": {"color": "#111111", "width": 1, "dash": "dash"},
                "hoverinfo": "skip",
            }
        )
    chart.layout = layout(
        log_axis("predicted", drawn(chart.traces, "x"), formatting.duration),
        log_axis("seen", drawn(chart.traces), formatting.duration),
    )
    return chart


def _over_time(log: RunLog, index: int, runs: int) -> Chart:
    chart = Chart(
        f"prediction-over-time-{index}",
        "Predicted and seen over time"
        + (f": {formatting.short(formatting.plain(log.header.name))}" if runs > 1 else ""),
        "Where the two part, the network has changed and the model has not noticed yet.",
        empty="No step of this log has both a predicted and a seen time of its exchanges.",
    )
    steps = thinned([step for step in log.steps if step.predicted and step.seen])
    if steps:
        x, texts = [step.t for step in steps], [hover(step) for step in steps]
        dots: Trace = {
            "type": "scatter",
            "name": "seen",
            "x": x,
            "y": [step.seen for step in steps],
            "mode": "markers",
            "marker": {"color": "#D55E00", "size": 4, "opacity": 0.5},
            "text": texts,
        }
        line: Trace = {
            "type": "scatter",
            "name": "predicted",
            "x": x,
            "y": [step.predicted for step in steps],
            "mode": "lines",
            "line": {"color": "#0072B2", "width": 2},
        }
        chart.traces = [
            dots | {"hovertemplate": "seen %{y:.3~s}s<br>%{text}<extra></extra>"},
            line | {"hovertemplate": "predicted %{y:.3~s}s<extra></extra>"},
        ]
    chart.layout = layout(
        axis("time (s)", rangemode="tozero"),
        log_axis("time on the wire", drawn(chart.traces), formatting.duration),
    )
    return chart


def traffic(logs: Sequence[RunLog]) -> Section:
    return Section(
        "Bytes", "Sent by this rank, control records apart.", [_bytes(logs), _bytes_so_far(logs)]
    )


def _bytes(logs: Sequence[RunLog]) -> Chart:
    chart = Chart(
        "bytes",
        "Bytes a step",
        "Steps that send nothing (updates with every above 1) have no point: the scale is "
        "logarithmic.",
        empty="Nothing was sent in these logs.",
    )
    sizes: list[float] = []
    for index, log in enumerate(logs):
        steps = [step for step in thinned(log.steps) if step.bytes]
        sizes += [step.bytes for step in steps]
        if steps:
            texts = [f"{formatting.size(step.bytes)}<br>{hover(step)}" for step in steps]
            chart.traces += raw_and_calm(
                run_name(log),
                [step.t for step in steps],
                [float(step.bytes) for step in steps],
                index,
                texts,
            )
    chart.layout = layout(axis("time (s)", rangemode="tozero"), size_axis("bytes a step", sizes))
    return chart


def _bytes_so_far(logs: Sequence[RunLog]) -> Chart:
    chart = Chart(
        "bytes-so-far",
        "Bytes so far",
        "What the run has put on the network since it began.",
        empty="Nothing was sent in these logs.",
    )
    most = 0.0
    for index, log in enumerate(logs):
        sums = dict(
            zip(
                (step.step for step in log.steps),
                accumulate(step.bytes for step in log.steps),
                strict=True,
            )
        )
        steps = thinned(log.steps)
        if not any(step.bytes for step in steps):
            continue
        colour, dash, _ = look(index)
        y = [sums[step.step] for step in steps]
        most = max(most, y[-1])
        trace: Trace = {
            "type": "scatter",
            "name": run_name(log),
            "x": [step.t for step in steps],
            "y": y,
            "mode": "lines",
            "line": {"color": colour, "dash": dash, "width": 2},
        }
        chart.traces.append(
            trace
            | {
                "text": [formatting.size(value) for value in y],
                "hovertemplate": "%{text}<extra>%{fullData.name}</extra>",
            }
        )
    marks = [most * part / 4 for part in range(5)]
    chart.layout = layout(
        axis("time (s)", rangemode="tozero"),
        axis(
            "bytes so far",
            rangemode="tozero",
            tickvals=marks,
            ticktext=[formatting.size(mark) for mark in marks],
        ),
    )
    return chart


def compression(logs: Sequence[RunLog]) -> Section:
    gain = _curve(
        logs,
        "gain",
        "Gain",
        "Energy sent / energy accumulated: 1 is everything. Not comparable between schemes.",
        lambda step: step.gain,
        "no step of these logs has a gain: nothing was compressed.",
    )
    gain.layout["yaxis"]["range"] = [0, 1.05]
    residual = _curve(
        logs,
        "residual",
        "Residual",
        "Norm of what has not been sent yet / norm of the contribution, on this rank. Level is "
        "healthy; growing without end means too sparse.",
        lambda step: step.residual_ratio,
        "no step of these logs has a residual: nothing was held back.",
    )
    residual.layout["yaxis"]["rangemode"] = "tozero"
    return Section(
        "Compression",
        "How much of what was learnt travels at once, and how much waits.",
        [gain, residual],
    )


def _curve(
    logs: Sequence[RunLog],
    id: str,
    title: str,
    caption: str,
    value: Callable[[Step], float | None],
    empty: str,
) -> Chart:
    chart = Chart(id, title, caption, empty=empty[:1].upper() + empty[1:])
    for index, log in enumerate(logs):
        steps = [step for step in thinned(log.steps) if value(step) is not None]
        if steps:
            chart.traces += raw_and_calm(
                run_name(log), [step.t for step in steps], [value(step) for step in steps], index
            )
    chart.layout = layout(axis("time (s)", rangemode="tozero"), axis(title.lower()))
    return chart
