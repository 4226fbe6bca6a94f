# SPDX-License-Identifier: MIT
"""Charts of training: the values that the job noted, and where the time of its steps went."""

from __future__ import annotations

from collections.abc import Sequence

from pliant.report.chart import (
    LEGEND,
    Chart,
    Section,
    Trace,
    axis,
    drawn,
    escaped,
    finite,
    layout,
    log_axis,
    look,
    raw_and_calm,
    run_name,
    running_mean,
    seconds_axis,
    thinned,
)
from pliant.report.figures import is_pause, usual_compute
from pliant.runlog import RunLog, Step, dense_time, plan_text
from pliant.tools import formatting

# Values beyond these are named in words.
MOST_VALUES = 4


def noted_names(logs: Sequence[RunLog]) -> list[str]:
    """Losses first."""
    names = {name: None for log in logs for note in log.notes for name in note.values}
    return sorted(names, key=lambda name: (name != "loss", "loss" not in name.lower()))


def noted(logs: Sequence[RunLog]) -> Section:
    names = noted_names(logs)
    charts = [
        _against(logs, name, number, what)
        for number, name in enumerate((names or ["loss"])[:MOST_VALUES])
        for what in ("time", "steps")
    ]
    text = "What the job noted (averager.note(...))."
    if len(names) > MOST_VALUES:
        text += (
            " Not drawn: "
            + ", ".join(formatting.short(formatting.plain(name)) for name in names[MOST_VALUES:])
            + "."
        )
    return Section("Training", text, charts)


def _against(logs: Sequence[RunLog], name: str, number: int, what: str) -> Chart:
    shown = formatting.short(formatting.plain(name))
    chart = Chart(
        id=f"noted-{number}-{what}",
        title=f"{shown[:1].upper()}{shown[1:]} against {what}",
        caption="What counts in the end: how soon the model gets there."
        if what == "time"
        else "What compression costs per step: curves that lie on each other cost nothing.",
        empty=f"No {shown} was noted. Call averager.note({shown}=...) in the training loop, and it will be here.",
    )
    for index, log in enumerate(logs):
        points = [
            (note.t if what == "time" else note.step, note.values[name])
            for note in log.notes
            if name in note.values
        ]
        if points:
            chart.traces += raw_and_calm(
                run_name(log),
                [x for x, _ in points],
                [y for _, y in points],
                index,
                calmed=running_mean,
            )
    x = (
        axis("time (s)", rangemode="tozero")
        if what == "time"
        else axis("steps", rangemode="tozero")
    )
    chart.layout = layout(x, axis(escaped(shown)))
    return chart


def step_times(logs: Sequence[RunLog]) -> Section:
    parts = [_parts(log, index, len(logs)) for index, log in enumerate(logs)]
    top = max((chart_top for _, chart_top in parts), default=0.0)
    for chart, _ in parts:
        if top > 0:
            chart.layout["yaxis"]["range"] = [0, top]
    text = "A step lasts from its begin to the next one's."
    return Section("Step time", text, [_against_dense(logs), *(chart for chart, _ in parts)])


def hover(step: Step) -> str:
    return f"step {step.step}, {formatting.duration(step.whole)}<br>{escaped(plan_text.label(step.plan))}"


def _against_dense(logs: Sequence[RunLog]) -> Chart:
    chart = Chart(
        "step-time",
        "Step time, and what dense would have taken",
        "Dots are steps, lines their running median. The dotted line is what a step of plain dense "
        "all-reduce would have taken, where the log knows enough to say it. The scale is "
        "logarithmic.",
        empty="No step in these logs says how long it took.",
        wide=len(logs) > 1,
    )
    for index, log in enumerate(logs):
        steps = thinned([step for step in log.steps if step.whole])
        chart.traces += (
            raw_and_calm(
                run_name(log),
                [step.t for step in steps],
                [step.whole for step in steps],
                index,
                [hover(step) for step in steps],
            )
            if steps
            else []
        )
        known = dense_time.ranges(log.header, log.steps)
        dense = [known[step.step].middle if step.step in known else None for step in steps]
        if any(value is not None for value in dense):
            line = {
                "color": "#444444" if len(logs) == 1 else look(index)[0],
                "width": 1.4,
                "dash": "dot",
            }
            legend = {
                "legendgroup": "dense",
                "showlegend": not any(
                    trace.get("legendgroup") == "dense" for trace in chart.traces
                ),
            }
            chart.traces.append(
                legend
                | {
                    "type": "scatter",
                    "name": "dense would take",
                    "x": [step.t for step in steps],
                    "y": finite(dense),
                    "mode": "lines",
                    "line": line,
                    "hovertemplate": "%{y:.3~s}s<extra>%{fullData.name}</extra>",
                }
            )
    chart.layout = layout(
        axis("time (s)", rangemode="tozero"),
        log_axis("step time", drawn(chart.traces), formatting.duration),
    )
    return chart


def _parts(log: RunLog, index: int, runs: int) -> tuple[Chart, float]:
    title = "Step time by parts" + (
        f": {formatting.short(formatting.plain(log.header.name))}" if runs > 1 else ""
    )
    chart = Chart(
        f"parts-{index}",
        title,
        "Compute is this rank's own time; exposed is the time that the step waited for exchanges; coding is "
        "select, encode and decode.",
        _part_traces(log),
        layout(
            axis("time (s)", rangemode="tozero"),
            seconds_axis("step time"),
            hovermode="x unified",
            legend=LEGEND | {"traceorder": "normal"},
        ),
        empty="No step in this log says what its time went into.",
    )
    return chart, _top(log)


def _part_traces(log: RunLog) -> list[Trace]:
    """The parts add up to the step. Codec work in a lane, beside compute, is a line of its own."""
    steps = thinned([step for step in log.steps if step.whole is not None])
    inside = [step.coding if plan_text.is_updates(step.plan) else 0.0 for step in steps]
    beside = [None if plan_text.is_updates(step.plan) else step.coding for step in steps]
    x = [step.t for step in steps]
    layers = [
        ("compute", [step.compute for step in steps], "#56B4E9"),
        ("exposed exchange", [step.exposed for step in steps], "#D55E00"),
        ("coding", inside, "#CC79A7"),
    ]
    traces: list[Trace] = [
        {
            "type": "scatter",
            "name": name,
            "x": x,
            "y": finite(values),
            "mode": "lines",
            "stackgroup": "parts",
            "line": {"width": 0.5, "color": colour},
            "hovertemplate": "%{y:.3~s}s<extra>" + name + "</extra>",
        }
        for name, values, colour in layers
        if any(values)
    ]
    if any(beside):
        traces.append(
            {
                "type": "scatter",
                "name": "coding, beside compute",
                "x": x,
                "y": finite(beside),
                "mode": "lines",
                "line": {"color": "#8a3a6d", "width": 1.2, "dash": "dot"},
                "hovertemplate": "%{y:.3~s}s<extra>coding, in a lane</extra>",
            }
        )
    return traces


def _top(log: RunLog) -> float:
    """High enough for all but one step in a hundred; pauses would flatten the rest."""
    usual = usual_compute(log.steps)
    wholes = sorted(
        step.whole for step in log.steps if step.whole is not None and not is_pause(step, usual)
    )
    return 1.15 * wholes[min(len(wholes) - 1, int(0.99 * len(wholes)))] if wholes else 0.0
