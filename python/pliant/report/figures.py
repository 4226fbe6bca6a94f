# SPDX-License-Identifier: MIT
"""Figures of a run: `--json` prints them, and all sentences and tables are made of them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from pliant.report.truth import Truth
from pliant.runlog import Note, RunLog, Step, dense_time, plan_text
from pliant.runlog.dense_time import Range
from pliant.tools import formatting

# A step that computes for more than this many times the median is a pause: an evaluation, a
# checkpoint, the first step's set-up. Only this rank's own time counts, so a slow network never
# makes one.
PAUSE = 5.0


@dataclass(frozen=True)
class PlanShare:
    plan: str  # in a few words
    steps: int
    share: float


@dataclass(frozen=True)
class Noted:
    """A value that the job noted."""

    count: int
    first: float | None
    last: float | None
    smallest: float | None
    largest: float | None
    not_finite: int


@dataclass(frozen=True)
class Stretch:
    """The steps of a phase."""

    phase: str
    begin: float
    steps: int
    step_time: float | None
    dense_step_time: float | None
    plan: str | None  # the one of most steps
    latency_true: float | None
    rate_true: float | None


@dataclass(frozen=True)
class Figures:
    name: str
    file: str
    rank: int
    world: int
    parameters: int
    optimizer: str | None
    status: str  # "closed", "interrupted", "failed", or "unfinished" where the log has no end
    error: str | None
    steps: int
    seconds: float
    pauses: int
    pause_seconds: float
    step_time: float | None  # means, pauses not counted
    step_time_median: float | None
    compute: float | None
    exposed: float | None
    coding: float | None
    dense_step_time: float | None  # over the steps for which it is known well (dense_time.py)
    dense_known: float  # their share of the steps
    # Time of a dense step / time of a step, over the same steps: the two ends of a range. None if
    # that is known for less than half of the steps.
    speed_up: tuple[float, float] | None
    worth: float | None  # of a step, in steps of plain DDP: the mean. None: older logs have none
    plans: list[PlanShare]
    prediction_error: float | None  # median of |predicted - seen| / seen
    predicted_steps: int
    bytes: int
    control_bytes: int
    bytes_per_step: float | None
    dense_bytes_per_step: (
        float | None
    )  # of an all-reduce that moves no byte twice: 2(N-1)/N of the gradient
    gain: float | None
    updated: float | None
    residual_ratio: float | None
    latency: float | None  # the last estimate
    rate: float | None  # None if there is no estimate, or if the link is too fast to tell
    latency_error: float | None  # median of |estimate - truth| / truth
    rate_error: float | None
    decisions: int
    changes: int
    trials: int
    voids: int
    warnings: int
    notes: dict[str, Noted] = field(default_factory=dict)
    phases: list[Stretch] = field(default_factory=list)


@dataclass(frozen=True)
class Goal:
    """When a run reached what every run reached."""

    run: str
    seconds: float | None
    step: int | None


@dataclass(frozen=True)
class Comparison:
    """Comparison of all runs with the first."""

    value: str | None  # the name of the noted value; None if there is none that all have
    target: float | None
    goals: list[Goal]
    sooner: list[float | None]  # the first run's seconds / this run's
    faster: list[float | None]  # the first run's step time / this run's


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def is_pause(step: Step, usual: float | None) -> bool:
    return usual is not None and step.compute is not None and step.compute > PAUSE * usual


def usual_compute(steps: Sequence[Step]) -> float | None:
    computes = [step.compute for step in steps if step.compute is not None]
    return median(computes) if computes else None


def of(log: RunLog, truth: Truth | None = None) -> Figures:
    header, steps, end = log.header, log.steps, log.end
    usual = usual_compute(steps)
    timed = [step for step in steps if step.whole is not None and not is_pause(step, usual)]
    pauses = [step for step in steps if is_pause(step, usual)]
    known = dense_time.ranges(header, steps)
    both = [step for step in timed if step.step in known]
    errors = [
        abs(step.predicted - step.seen) / step.seen
        for step in steps
        if step.predicted is not None and step.seen
    ]
    links = [step.link for step in steps if step.link]
    latency_error, rate_error = _link_errors(log, truth)
    sent = sum(step.bytes for step in steps)
    return Figures(
        name=formatting.plain(header.name),
        file=str(log.path),
        rank=header.rank,
        world=header.world,
        parameters=header.parameters,
        optimizer=header.optimizer,
        status=end.status if end else "unfinished",
        error=end.error if end else None,
        steps=len(steps),
        seconds=log.seconds,
        pauses=len(pauses),
        pause_seconds=sum(step.whole or 0.0 for step in pauses),
        step_time=mean([step.whole for step in timed]),
        step_time_median=median([step.whole for step in timed if step.whole is not None])
        if timed
        else None,
        compute=mean([step.compute for step in timed]),
        exposed=mean([step.exposed for step in timed]),
        coding=mean([step.coding for step in timed]),
        dense_step_time=mean([known[step.step].middle for step in both]),
        dense_known=len(both) / len(timed) if timed else 0.0,
        speed_up=_speed_up(timed, known),
        worth=mean([step.worth for step in steps]),
        plans=shares(steps),
        prediction_error=median(errors) if errors else None,
        predicted_steps=len(errors),
        bytes=sent,
        control_bytes=sum(step.control_bytes for step in steps),
        bytes_per_step=sent / len(steps) if steps else None,
        dense_bytes_per_step=8 * header.parameters * (header.world - 1) / header.world
        if header.world
        else None,
        gain=mean([step.gain for step in steps]),
        updated=mean([step.updated for step in steps]),
        residual_ratio=next(
            (step.residual_ratio for step in reversed(steps) if step.residual_ratio is not None),
            None,
        ),
        latency=links[-1].latency if links else None,
        rate=links[-1].known_rate if links else None,
        latency_error=latency_error,
        rate_error=rate_error,
        decisions=len(log.decisions),
        changes=log.moves().count("changed"),
        trials=log.moves().count("trial"),
        voids=sum(step.void for step in steps),
        warnings=sum(message.level == "warning" for message in log.messages),
        notes=noted(log.notes),
        phases=_stretches(log, truth, usual, known),
    )


def _speed_up(steps: Sequence[Step], dense: dict[int, Range]) -> tuple[float, float] | None:
    """Over all steps that were timed. Of a step without an estimate, the nearest one counts: the
    first steps of a run are slow, and leaving them out would flatter it."""
    whole = sum(step.whole or 0.0 for step in steps)
    known = [place for place, step in enumerate(steps) if step.step in dense]
    if not whole or 2 * len(known) < len(steps):
        return None
    low = high = 0.0
    for place in range(len(steps)):
        at = bisect_left(known, place)
        nearest = min(known[max(0, at - 1) : at + 1], key=lambda other: abs(other - place))
        estimate = dense[steps[nearest].step]
        low, high = low + estimate.low, high + estimate.high
    return low / whole, high / whole


def shares(steps: Sequence[Step]) -> list[PlanShare]:
    """Plans by falling share of the steps."""
    counts = Counter(plan_text.label(step.plan) for step in steps)
    return [PlanShare(plan, count, count / len(steps)) for plan, count in counts.most_common()]


def noted(notes: Sequence[Note]) -> dict[str, Noted]:
    series: dict[str, list[float]] = {}
    for note in notes:
        for name, value in note.values.items():
            series.setdefault(formatting.plain(name), []).append(value)
    return {name: _noted(values) for name, values in series.items()}


def _noted(values: list[float]) -> Noted:
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return Noted(len(values), None, None, None, None, len(values))
    return Noted(
        len(values), finite[0], finite[-1], min(finite), max(finite), len(values) - len(finite)
    )


def phases(log: RunLog, truth: Truth | None) -> list[tuple[float, str]]:
    """Moments of the log and the phase that begins there: as the job noted them, else as the lab
    did."""
    if log.phases or truth is None:
        return [(phase.t, formatting.plain(phase.name)) for phase in log.phases]
    moments = [
        (max(0.0, mono - log.header.mono), formatting.plain(name))
        for mono, name in truth.phases
        if mono - log.header.mono <= log.seconds
    ]
    begin = max(
        (index for index, (t, _) in enumerate(moments) if t == 0.0), default=0
    )  # of those before the run only the last
    return moments[begin:]


def _stretches(
    log: RunLog, truth: Truth | None, usual: float | None, known: dict[int, Range]
) -> list[Stretch]:
    begins = phases(log, truth)
    ends = [*(t for t, _ in begins), math.inf][1:]
    stretches = []
    for (begin, name), end in zip(begins, ends, strict=True):
        steps = [step for step in log.steps if begin <= step.t < end]
        timed = [step for step in steps if step.whole is not None and not is_pause(step, usual)]
        state = (
            truth.at(log.header.mono + (begin + min(end, log.seconds)) / 2) if truth else None
        )  # in its middle: the two clocks may differ by a step
        plans = shares(steps)
        stretches.append(
            Stretch(
                phase=name,
                begin=begin,
                steps=len(steps),
                step_time=mean([step.whole for step in timed]),
                dense_step_time=mean(
                    [known[step.step].middle for step in timed if step.step in known]
                ),
                plan=plans[0].plan if plans else None,
                latency_true=state.latency if state else None,
                rate_true=state.rate if state else None,
            )
        )
    return stretches


def _link_errors(log: RunLog, truth: Truth | None) -> tuple[float | None, float | None]:
    latencies: list[float] = []
    rates: list[float] = []
    for step in log.steps if truth else []:
        state = truth.at(log.header.mono + step.t) if truth else None
        if state is None or step.link is None or state.down:
            continue
        if state.latency > 0:
            latencies.append(abs(step.link.latency - state.latency) / state.latency)
        if state.rate:
            rates.append(abs(step.link.rate - state.rate) / state.rate)
    return median(latencies) if latencies else None, median(rates) if rates else None


def falls(name: str) -> bool | None:
    """Whether the value is the better the smaller; None where its name does not tell."""
    lowered = name.lower()
    if any(word in lowered for word in ("loss", "error", "perplexity")):
        return True
    return False if "acc" in lowered else None


def compare(logs: Sequence[RunLog], figures: Sequence[Figures]) -> Comparison:
    first = figures[0].step_time
    faster = [first / each.step_time if first and each.step_time else None for each in figures]
    name = _common_value(figures)
    if name is None:
        return Comparison(None, None, [], [None] * len(logs), faster)
    sign = 1.0 if falls(name) else -1.0
    curves = [_smooth(log.notes, name, sign) for log in logs]
    if any(not curve for curve in curves):
        return Comparison(name, None, [], [None] * len(logs), faster)
    target = max(min(value for _, _, value in curve) for curve in curves)
    goals = []
    for log, curve in zip(logs, curves, strict=True):
        t, step, _ = next(point for point in curve if point[2] <= target)
        goals.append(Goal(formatting.plain(log.header.name), t, step))
    base = goals[0].seconds
    return Comparison(
        name,
        sign * target,
        goals,
        [base / goal.seconds if base and goal.seconds else None for goal in goals],
        faster,
    )


def _common_value(figures: Sequence[Figures]) -> str | None:
    common = [
        name
        for name in figures[0].notes
        if all(name in each.notes for each in figures) and falls(name) is not None
    ]
    return min(common, key=lambda name: (name != "loss", falls(name) is not True), default=None)


def _smooth(notes: Sequence[Note], name: str, sign: float) -> list[tuple[float, int, float]]:
    """Time, step and the mean of the last few values: a twentieth of all, at most 20, so that one
    lucky batch is no goal."""
    points = [
        (note.t, note.step, sign * note.values[key])
        for note in notes
        for key in note.values
        if formatting.plain(key) == name
    ]
    points = [point for point in points if math.isfinite(point[2])]
    window = max(1, min(20, len(points) // 20))
    return [
        (t, step, fmean(point[2] for point in points[i - window + 1 : i + 1]))
        for i, (t, step, _) in enumerate(points)
        if i >= window - 1
    ]
