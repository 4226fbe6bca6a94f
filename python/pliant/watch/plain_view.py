# SPDX-License-Identifier: MIT
"""View of a run as plain lines of text, for pipes and files: events as they happen, and progress
every few seconds."""

from __future__ import annotations

import time

from pliant.runlog import Decision, End, Header, Line, Message, Phase
from pliant.tools import formatting
from pliant.watch.state import State


class PlainView:
    """Prints the events among new lines, and progress at most every `every` seconds."""

    def __init__(self, state: State, total: int | None, every: float) -> None:
        """total: the number of steps that the run will have, if it is known."""
        self._state, self._total, self._every = state, total, every
        self._last = -1.0e9

    def show(self, lines: list[Line]) -> None:
        for line in lines:
            if (text := event(line, self._state)) is not None:
                print(text, flush=True)
        now = time.monotonic()
        if self._state.steps and lines and (now - self._last >= self._every or self._state.end):
            print(progress(self._state, self._total), flush=True)
            self._last = now


def event(line: Line, state: State) -> str | None:
    match line:
        case Decision() if line.changed or line.trial or line.before is None:
            return f"{clock(line.t)}  step {line.step}: {state.reason(line)}"
        case Phase():
            return f"{clock(line.t)}  phase: {formatting.plain(line.name)}"
        case Message():
            return f"{clock(line.t)}  {formatting.plain(line.level)}: {formatting.plain(line.text)}"
        case End():
            return f"{clock(line.t)}  {ending(line)}"
    return None


def clock(t: float) -> str:
    minutes, rest = divmod(int(t), 60)
    return f"{minutes:3d}:{rest:02d}"


def ending(end: End) -> str:
    verb = "was " if end.status in ("closed", "interrupted") else ""
    what = (
        f"the run {verb}{formatting.plain(end.status)} after {formatting.count(end.step, 'step')}"
    )
    return what + (f": {formatting.plain(end.error)}" if end.error else "")


def header_line(header: Header) -> str:
    return f"{formatting.plain(header.name)}: {formatting.count(header.world, 'rank')}, {header.parameters:,} parameters, pliant {formatting.plain(header.versions.get('pliant', '?'))}"


def progress(state: State, total: int | None) -> str:
    parts = [
        f"step {state.steps:,}" + (f" of {total:,}" if total else ""),
        f"{formatting.duration(state.step_time)} a step",
    ]
    if state.against_dense:
        parts.append(state.against_dense)
    if state.link:
        parts.append(f"link {formatting.link(state.link.known_rate, state.link.latency)}")
    parts.append(f"{formatting.size(state.bytes)} sent")
    parts += [
        f"{formatting.short(formatting.plain(name), 20)} {formatting.number(value)}"
        for name, value in list(state.noted.items())[:3]
    ]
    if total and state.step_time and total > state.steps:
        parts.append(f"{formatting.duration((total - state.steps) * state.step_time)} left")
    return f"{clock(state.t)}  " + "; ".join(parts)


def standing(state: State, total: int | None) -> list[str]:
    """The state of the run in a few lines, for --once."""
    lines = [progress(state, total)] if state.steps else ["no step yet"]
    if state.phase is not None:
        lines.append(f"phase: {formatting.plain(state.phase)}")
    if state.last:
        lines.append(f"plan: {state.plan(state.last.plan)}")
    if state.decision:
        lines.append(f"why: {state.reason(state.decision)}")
    lines += [text for decision in state.decisions if (text := event(decision, state))]
    lines += [text for message in state.messages if (text := event(message, state))]
    return lines + [ending(state.end) if state.end else "the run goes on, or was killed"]
