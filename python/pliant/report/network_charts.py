# SPDX-License-Identifier: MIT
"""Charts of the network: its true state, the estimates, and the plan in force."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pliant.report.chart import (
    TRUTH,
    Chart,
    Section,
    Trace,
    axis,
    drawn,
    finite,
    layout,
    log_axis,
    phase_marks,
    scheme_look,
    seconds_axis,
    see_through,
    thinned,
)
from pliant.report.figures import phases
from pliant.report.truth import State, Truth
from pliant.runlog import Link, RunLog, Step, plan_text
from pliant.tools import formatting

MARKS = (0.001, 0.01, 0.1, 0.3, 1, 3, 10, 30, 100)  # densities in percent


def plans(logs: Sequence[RunLog], truth: Truth | None) -> Section:
    behind = (
        "the network's true rate" if truth else "the estimated rate (give --truth for the true one)"
    )
    text = f"How much was sent, by which scheme; dense keeps 100 %. Behind it, in grey, {behind}: the density should fall only where the network is slow."
    return Section(
        "Plan and density",
        text,
        [_plan(log, truth, index, len(logs)) for index, log in enumerate(logs)],
    )


def links(logs: Sequence[RunLog], truth: Truth | None) -> Section:
    text = "Estimated from the run's own traffic, with one standard deviation to either side."
    if truth is None:
        text += " The truth is not known here: give --truth, from the lab."
    latency = [_link(log, truth, index, len(logs), "latency") for index, log in enumerate(logs)]
    rate = [_link(log, truth, index, len(logs), "rate") for index, log in enumerate(logs)]
    return Section(
        "Link", text, [chart for pair in zip(latency, rate, strict=True) for chart in pair]
    )


def _of(log: RunLog, runs: int) -> str:
    return f": {formatting.short(formatting.plain(log.header.name))}" if runs > 1 else ""


def true_points(
    log: RunLog, truth: Truth | None, value: Callable[[State], float | None]
) -> tuple[list[float], list[float | None]]:
    """Over the time of the log, as a staircase."""
    if truth is None or not log.seconds:
        return [], []
    states = [
        (max(0.0, state.mono - log.header.mono), state)
        for state in truth.states
        if state.mono - log.header.mono <= log.seconds
    ]
    before = [pair for pair in states if pair[0] == 0.0][-1:]
    states = before + [pair for pair in states if pair[0] > 0.0]
    if not states:
        return [], []
    x = [t for t, _ in states] + [log.seconds]
    return x, [None if state.down else value(state) for _, state in states] + [
        None if states[-1][1].down else value(states[-1][1])
    ]


def _background(log: RunLog, truth: Truth | None, steps: Sequence[Step]) -> Trace:
    if truth is not None:
        x, y = true_points(log, truth, lambda state: state.rate)
        name = "true rate"
    else:
        known = [step for step in steps if step.link]
        x = [step.t for step in known]
        y = [step.link.known_rate if step.link else None for step in known]
        name = "estimated rate"
    return {
        "type": "scatter",
        "name": name,
        "x": x,
        "y": finite(y),
        "mode": "lines",
        "line": {"shape": "hv", "color": TRUTH, "width": 1},
        "fill": "tozeroy",
        "fillcolor": see_through(TRUTH, 0.22),
        "hovertemplate": "%{y:.3~s}bit/s<extra>" + name + "</extra>",
    }


def _plan(log: RunLog, truth: Truth | None, index: int, runs: int) -> Chart:
    chart = Chart(
        f"plan-{index}",
        "Plan and density" + _of(log, runs),
        "Each colour and symbol is a scheme; point at one for the whole plan.",
        empty="There is no step in this log.",
    )
    steps = thinned(log.steps)
    if not steps:
        return chart
    background = _background(log, truth, steps)
    traces = []
    for name in dict.fromkeys(plan_text.scheme(step.plan) for step in steps):
        traces.append(_scheme(name, steps))
    densities = [value for trace in traces for value in trace["y"] if value is not None]
    low = math.log10(min(densities, default=1.0)) - 0.35
    # The later axis is drawn above the first: the network first, densities over it, each on its own
    # side.
    chart.traces = ([background] if background["x"] else []) + [
        trace | {"yaxis": "y2"} for trace in traces
    ]
    density = axis(
        "density",
        type="log",
        range=[low, 2.2],
        tickvals=MARKS,
        ticktext=[f"{mark:g} %" for mark in MARKS],
        overlaying="y",
        side="left",
    )
    rate = log_axis(
        "rate", background["y"], formatting.rate, side="right", showgrid=False, color="#7b8794"
    )
    rate["range"][0] -= 0.3  # the slowest has some height, too
    chart.layout = layout(
        axis("time (s)", range=[0, log.seconds or 1]),
        rate,
        yaxis2=density,
        **phase_marks(phases(log, truth)),
    )
    return chart


def _scheme(name: str, steps: Sequence[Step]) -> Trace:
    colour, symbol = scheme_look(name)
    mine = [plan_text.scheme(step.plan) == name for step in steps]
    return {
        "type": "scatter",
        "name": name,
        "x": [step.t for step in steps],
        "y": [
            plan_text.density(step.plan) if own else None
            for step, own in zip(steps, mine, strict=True)
        ],
        "mode": "lines+markers",
        "line": {"color": colour, "width": 2, "shape": "hv"},
        "marker": {"color": colour, "symbol": symbol, "size": 6},
        "connectgaps": False,
        "text": [f"step {step.step}<br>{_folded(step.plan)}" for step in steps],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _folded(plan: str) -> str:
    """In lines that fit a small screen."""
    lines, line = [], ""
    for word in formatting.plain(plan).split(" "):
        if len(line) + len(word) > 36:
            lines.append(line)
            line = ""
        line += ("" if not line else " ") + word
    return "<br>".join(each.replace("&", "&amp;").replace("<", "&lt;") for each in [*lines, line])


def _link(log: RunLog, truth: Truth | None, index: int, runs: int, what: str) -> Chart:
    is_rate = what == "rate"
    chart = Chart(
        f"{what}-{index}",
        ("Bandwidth" if is_rate else "Latency")
        + (", estimated and true" if truth else ", estimated")
        + _of(log, runs),
        "Bits per second of the slowest link, effective: TCP's slow start is part of it."
        if is_rate
        else "Seconds per message, one way.",
        empty="This log has no estimate of the link: too few exchanges were timed, or the plan is fixed.",
    )
    steps = thinned([step for step in log.steps if step.link])
    if steps:
        chart.traces += _estimate(steps, is_rate)
    x, y = true_points(
        log, truth, (lambda state: state.rate) if is_rate else (lambda state: state.latency)
    )
    if x and steps:
        chart.traces.append(
            {
                "type": "scatter",
                "name": "true",
                "x": x,
                "y": finite(y),
                "mode": "lines",
                "line": {"shape": "hv", "color": "#111111", "width": 2, "dash": "dash"},
                "hovertemplate": "%{y:.3~s}"
                + ("bit/s" if is_rate else "s")
                + "<extra>true</extra>",
            }
        )
    y_axis = (
        log_axis("bandwidth", drawn(chart.traces), formatting.rate)
        if is_rate
        else seconds_axis("latency", rangemode="tozero")
    )
    chart.layout = layout(
        axis("time (s)", range=[0, log.seconds or 1]), y_axis, **phase_marks(phases(log, truth))
    )
    return chart


def _estimate(steps: Sequence[Step], is_rate: bool) -> list[Trace]:
    def value(link: Link) -> float:
        return link.rate if is_rate else link.latency

    def deviation(link: Link) -> float:
        return (link.rate_sd if is_rate else link.latency_sd) or 0.0

    known = [
        (step.t, step.link)
        for step in steps
        if step.link and not (is_rate and step.link.known_rate is None)
    ]
    x = [t for t, _ in known]
    low = [max(value(link) - deviation(link), value(link) / 100) for _, link in known]
    high = [value(link) + deviation(link) for _, link in known]
    colour = "#0072B2"
    edge: Trace = {
        "type": "scatter",
        "x": x,
        "mode": "lines",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": "estimate",
    }
    line: Trace = {
        "type": "scatter",
        "name": "estimated",
        "x": x,
        "y": [value(link) for _, link in known],
        "mode": "lines",
        "line": {"color": colour, "width": 2},
        "legendgroup": "estimate",
    }
    unit = "bit/s" if is_rate else "s"
    return [
        edge | {"name": "one deviation below", "y": low},
        edge
        | {
            "name": "one deviation above",
            "y": high,
            "fill": "tonexty",
            "fillcolor": see_through(colour, 0.18),
        },
        line | {"hovertemplate": "%{y:.3~s}" + unit + "<extra>estimated</extra>"},
    ]
