# SPDX-License-Identifier: MIT
"""Trace of a run for Perfetto or chrome://tracing: a rank is a process, its training thread and its
lanes are threads.

A log says how long a step took and when its exchanges began, but not when the step did. Steps
follow each other without a gap, so one moment places them all: the latest at which no step ends
after its line was written and none begins after its first exchange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pliant.runlog import RunLog, Step, plan_text
from pliant.tools import formatting

Event = dict[str, Any]
TRAINING = 0  # the thread's number; lane n is n + 1


def events(logs: Sequence[RunLog]) -> dict[str, Any]:
    offsets = shifts(logs)
    out: list[Event] = []
    for pid, (log, shift) in zip(processes(logs), zip(logs, offsets, strict=True), strict=True):
        out += (
            _names(log, pid)
            + _steps(log, pid, shift)
            + _exchanges(log, pid, shift)
            + _moments(log, pid, shift)
        )
    return {"traceEvents": out, "displayTimeUnit": "ms"}


def processes(logs: Sequence[RunLog]) -> list[int]:
    """The rank, where no two logs have the same; else ranks of the second run follow those of the
    first, and so on."""
    used: set[int] = set()
    numbers = []
    for log in logs:
        pid = log.header.rank
        while pid in used:
            pid += max(1, log.header.world)
        used.add(pid)
        numbers.append(pid)
    return numbers


def same_job(a: RunLog, b: RunLog) -> bool:
    """Two ranks of one job: the same model, and both were there at the same time."""
    first, second = a.header, b.header
    alike = (first.layout, first.world) == (
        second.layout,
        second.world,
    ) and first.rank != second.rank
    return (
        alike
        and first.started < second.started + b.seconds
        and second.started < first.started + a.seconds
    )


def shifts(logs: Sequence[RunLog]) -> list[float]:
    """Offset to add to each log's `t`: ranks of one job keep their distance in time, other runs all
    begin at 0. On one machine CLOCK_MONOTONIC says it to the microsecond; between machines the wall
    clocks must do."""
    out: list[float] = []
    for index, log in enumerate(logs):
        mate = next((i for i in range(index) if same_job(logs[i], log)), None)
        if mate is None:
            out.append(0.0)
            continue
        ours, theirs = log.header, logs[mate].header
        one_machine = abs((ours.started - ours.mono) - (theirs.started - theirs.mono)) < 1.0
        out.append(
            out[mate] + (ours.mono - theirs.mono if one_machine else ours.started - theirs.started)
        )
    return out


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _names(log: RunLog, pid: int) -> list[Event]:
    threads = {TRAINING: "training thread"} | {
        lane + 1: f"lane {lane}" for lane in range(log.header.lanes)
    }
    threads |= {each.lane + 1: f"lane {each.lane}" for step in log.steps for each in step.exchanges}
    process = {
        "ph": "M",
        "pid": pid,
        "name": "process_name",
        "args": {"name": f"{formatting.plain(log.header.name)}, rank {log.header.rank}"},
    }
    return [
        process,
        *(
            {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}
            for tid, name in threads.items()
        ),
    ]


def begins(steps: Sequence[Step]) -> list[float]:
    """When each step began; a step without `whole` (the last) takes no time here."""
    since: list[float] = []
    total = 0.0
    for step in steps:
        since.append(total)
        total += step.whole or 0.0
    bounds = [
        min([step.t - (step.whole or 0.0), *(each.begin for each in step.exchanges)]) - past
        for step, past in zip(steps, since, strict=True)
    ]
    origin = min(bounds, default=0.0)
    return [origin + past for past in since]


def _steps(log: RunLog, pid: int, shift: float) -> list[Event]:
    out: list[Event] = []
    for step, begin in zip(log.steps, begins(log.steps), strict=True):
        ts = _microseconds(begin + shift)
        if step.whole is not None:
            arguments = {
                "plan": step.plan,
                "compute_s": step.compute,
                "exposed_s": step.exposed,
                "coding_s": step.coding,
                "predicted_s": step.predicted,
                "seen_s": step.seen,
            }
            out.append(
                {
                    "ph": "X",
                    "pid": pid,
                    "tid": TRAINING,
                    "name": f"step {step.step}",
                    "cat": "step",
                    "ts": ts,
                    "dur": _microseconds(step.whole),
                    "args": arguments,
                }
            )
        out.append(
            {"ph": "C", "pid": pid, "name": "bytes a step", "ts": ts, "args": {"bytes": step.bytes}}
        )
        if (density := plan_text.density(step.plan)) is not None:
            out.append(
                {
                    "ph": "C",
                    "pid": pid,
                    "name": "density (%)",
                    "ts": ts,
                    "args": {"density": density},
                }
            )
        if step.link:
            out.append(
                {
                    "ph": "C",
                    "pid": pid,
                    "name": "estimated rate (Mbit/s)",
                    "ts": ts,
                    "args": {"rate": step.link.rate / 1e6},
                }
            )
    return out


def _exchanges(log: RunLog, pid: int, shift: float) -> list[Event]:
    """Three slices each. A lane works on one exchange at a time; where the next was being selected
    already, its slice begins when the lane was free."""
    out: list[Event] = []
    free: dict[int, float] = {}
    spans = sorted(
        ((each, step) for step in log.steps for each in step.exchanges),
        key=lambda pair: (pair[0].lane, pair[0].enter),
    )
    for each, step in spans:
        arguments = {
            "step": step.step,
            "plan": step.plan,
            "group": each.group,
            "bytes": each.bytes,
            "entries": each.entries,
        }
        for name, begin, end in (
            ("select, encode", each.begin, each.enter),
            ("on the wire", each.enter, each.leave),
            ("decode, land", each.leave, each.end),
        ):
            begin = max(begin, free.get(each.lane, begin))
            if end > begin:
                out.append(
                    {
                        "ph": "X",
                        "pid": pid,
                        "tid": each.lane + 1,
                        "name": name,
                        "cat": "exchange",
                        "ts": _microseconds(begin + shift),
                        "dur": _microseconds(end - begin),
                        "args": arguments,
                    }
                )
                free[each.lane] = end
    return out


def _moments(log: RunLog, pid: int, shift: float) -> list[Event]:
    """Changes of plan, phases, messages."""
    moments = [
        (each.t, f"plan: {plan_text.label(each.plan)}", {"plan": each.plan, "reason": each.reason})
        for each, move in zip(log.decisions, log.moves(), strict=True)
        if move != "kept"
    ]
    moments += [
        (each.t, f"phase: {formatting.plain(each.name)}", {"step": str(each.step)})
        for each in log.phases
    ]
    moments += [
        (
            each.t,
            f"{formatting.plain(each.level)}: {formatting.short(formatting.plain(each.text))}",
            {"text": each.text},
        )
        for each in log.messages
    ]
    return [
        {
            "ph": "i",
            "s": "p",
            "pid": pid,
            "tid": TRAINING,
            "name": name,
            "ts": _microseconds(t + shift),
            "args": arguments,
        }
        for t, name, arguments in moments
    ]
