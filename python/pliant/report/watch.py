# SPDX-License-Identifier: MIT
"""`pliant watch`: a run log as it grows. In a terminal a picture that stays in its place; elsewhere
plain lines as things happen."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pliant import runlog
from pliant.report import words
from pliant.report.cli import BadInput, Parser
from pliant.runlog import (
    Decision,
    End,
    Follower,
    Header,
    Line,
    Message,
    Note,
    Phase,
    RunLogError,
    Step,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

FINE, RUN_FAILED, BAD_INPUT, TIMEOUT, INTERRUPTED = 0, 1, 2, 124, 130
NAME = "pliant watch"
UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
BARS = "▁▂▃▄▅▆▇█"


@dataclass
class State:
    """What the lines so far add up to."""

    header: Header
    steps: int = 0
    bytes: int = 0
    voids: int = 0
    t: float = 0.0
    last: Step | None = None
    link: runlog.Link | None = None
    phase: str | None = None
    noted: dict[str, float] = field(default_factory=dict)
    decision: Decision | None = None  # the one that took the plan in force
    decisions: deque[Decision] = field(default_factory=lambda: deque(maxlen=5))
    messages: deque[Message] = field(default_factory=lambda: deque(maxlen=3))
    recent: deque[Step] = field(default_factory=lambda: deque(maxlen=200))
    end: End | None = None

    def take(self, line: Line) -> None:
        self.t = max(self.t, line.t)
        match line:
            case Step():
                self.steps, self.last, self.link = self.steps + 1, line, line.link or self.link
                self.bytes += line.bytes
                self.voids += line.void
                self.recent.append(line)
            case Decision():
                self.decisions.append(line)
                if self.decision is None or (not line.trial and line.plan != self.decision.plan):
                    self.decision = line
            case Note():
                self.noted |= line.values
            case Phase():
                self.phase = line.name
            case Message():
                self.messages.append(line)
            case End():
                self.end = line

    @property
    def step_time(self) -> float | None:
        """The mean of the last steps."""
        times = [step.whole for step in self.recent if step.whole is not None]
        return sum(times) / len(times) if times else None

    @property
    def against_dense(self) -> float | None:
        both = [
            (step.whole, step.dense_step) for step in self.recent if step.whole and step.dense_step
        ]
        return sum(dense for _, dense in both) / sum(whole for whole, _ in both) if both else None


def seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([a-z]*)", text.strip())
    if not found or found[2] not in UNITS:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no duration; write it as 30s, 500ms or 10min"
        )
    return float(found[1]) * UNITS[found[2]]


def at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of steps")
    return int(text)


def parser() -> Parser:
    out = Parser(
        prog=NAME,
        allow_abbrev=False,
        description="Shows a run while it goes on: progress, the plan in force and why, the link, bytes, the last decisions. Ends when the run does.",
        epilog="Examples:\n"
        "  pliant watch run.jsonl\n"
        "  pliant watch run.jsonl --steps 5000       (with a bar and the time left)\n"
        "  pliant watch run.jsonl --once\n\n"
        "Exit codes: 0 the run was closed; 1 it failed; 2 bad input; 124 --timeout passed.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument("log", metavar="run.jsonl", help="the run log; may not be there yet")
    out.add_argument("--once", action="store_true", help="show how things stand, and leave")
    out.add_argument(
        "--steps",
        type=at_least_one,
        metavar="N",
        help="how many steps the run will have: the log does not know",
    )
    out.add_argument(
        "--timeout",
        type=seconds,
        default=600.0,
        metavar="TIME",
        help="how long to wait for the file, and for its next line (10min)",
    )
    out.add_argument(
        "--every",
        type=seconds,
        default=0.5,
        metavar="TIME",
        help="how often to look (500ms); plain lines come at most every ten of these",
    )
    return out


def main(arguments: Sequence[str]) -> int:
    try:
        options = parser().parse(arguments)
        if options.every <= 0:
            raise BadInput("--every must be above zero")
        return _once(options) if options.once else _watch(options)
    except (BadInput, RunLogError) as error:
        return _complain(str(error), BAD_INPUT)
    except OSError as error:
        return _complain(f"{error.filename or options.log}: {error.strerror or error}", BAD_INPUT)
    except _Late as error:
        return _complain(str(error), TIMEOUT)
    except KeyboardInterrupt:
        return INTERRUPTED


def _complain(text: str, code: int) -> int:
    print(f"{NAME}: {words.plain(text)}", file=sys.stderr)
    return code


def _once(options: argparse.Namespace) -> int:
    with Follower(Path(options.log)) as follower:
        state = State(follower.log.header)
        for line in follower.lines():
            state.take(line)
    if sys.stdout.isatty():
        from rich.console import Console

        Console(highlight=False).print(picture(state, options.steps))
    else:
        print(header_line(state.header))
        print("\n".join(standing(state, options.steps)))
    return _code(state)


def _code(state: State) -> int:
    return RUN_FAILED if state.end and state.end.status == "failed" else FINE


def _watch(options: argparse.Namespace) -> int:
    path = Path(options.log)
    with _opened(path, options.timeout, options.every) as follower:
        state = State(follower.log.header)
        if sys.stdout.isatty():
            from rich.live import Live

            # The picture is drawn where it was; a pipe or a file gets lines instead.
            with Live(
                picture(state, options.steps), auto_refresh=False, vertical_overflow="crop"
            ) as live:
                _follow(
                    follower,
                    state,
                    options,
                    lambda _: live.update(picture(state, options.steps), refresh=True),
                )
        else:
            print(header_line(state.header), flush=True)
            _follow(follower, state, options, _Lines(state, options).show)
    return _code(state)


def _opened(path: Path, timeout: float, every: float) -> Follower:
    """Waits for a file with a complete first line."""
    deadline = time.monotonic() + timeout
    told = False
    while True:
        if path.is_dir():
            raise RunLogError(f"{path}: a folder, not a run log")
        if path.exists() and _has_line(path):
            return Follower(path)
        if time.monotonic() >= deadline:
            raise _Late(
                f"{path}: "
                + ("has no complete line" if path.exists() else "is not there")
                + f" after {words.duration(timeout)}"
            )
        if not told:
            print(f"{NAME}: waiting for {words.plain(str(path))}", file=sys.stderr)
            told = True
        time.sleep(min(every, max(0.0, deadline - time.monotonic())))


class _Late(RuntimeError):
    """Nothing came in time."""


def _has_line(path: Path) -> bool:
    with path.open("rb") as file:
        return file.readline().endswith(b"\n")


def _follow(
    follower: Follower,
    state: State,
    options: argparse.Namespace,
    show: Callable[[list[Line]], None],
) -> None:
    heard = time.monotonic()
    while True:
        lines = list(follower.lines())
        for line in lines:
            state.take(line)
        if lines:
            heard = time.monotonic()
        show(lines)
        if state.end is not None:
            return
        if time.monotonic() - heard >= options.timeout:
            raise _Late(
                f"{follower.path}: no new line for {words.duration(options.timeout)}; the run may have been killed"
            )
        time.sleep(options.every)


class _Lines:
    """Plain lines: what happened as it happens, and now and then how things stand."""

    def __init__(self, state: State, options: argparse.Namespace) -> None:
        self.state, self.options = state, options
        self.told = -1.0e9

    def show(self, lines: list[Line]) -> None:
        for line in lines:
            if (text := happening(line)) is not None:
                print(text, flush=True)
        now = time.monotonic()
        if (
            self.state.steps
            and lines
            and (now - self.told >= 10 * self.options.every or self.state.end)
        ):
            print(progress(self.state, self.options.steps), flush=True)
            self.told = now


def happening(line: Line) -> str | None:
    match line:
        case Decision() if line.changed or line.trial or line.before is None:
            return f"{clock(line.t)}  {'trial' if line.trial else 'plan'}: {words.label(line.plan)} from step {line.step}: {words.plain(line.reason)}"
        case Phase():
            return f"{clock(line.t)}  phase: {words.plain(line.name)}"
        case Message():
            return f"{clock(line.t)}  {words.plain(line.level)}: {words.plain(line.text)}"
        case End():
            return f"{clock(line.t)}  {ending(line)}"
    return None


def clock(t: float) -> str:
    minutes, rest = divmod(int(t), 60)
    return f"{minutes:3d}:{rest:02d}"


def ending(end: End) -> str:
    what = (
        f"the run was closed after {words.count(end.step, 'step')}"
        if end.status == "closed"
        else f"the run {words.plain(end.status)} after {words.count(end.step, 'step')}"
    )
    return what + (f": {words.plain(end.error)}" if end.error else "")


def header_line(header: Header) -> str:
    return f"{words.plain(header.name)}: {words.count(header.world, 'rank')}, {header.parameters:,} parameters, pliant {words.plain(header.versions.get('pliant', '?'))}"


def progress(state: State, total: int | None) -> str:
    parts = [
        f"step {state.steps:,}" + (f" of {total:,}" if total else ""),
        f"{words.duration(state.step_time)} a step",
    ]
    if (ratio := state.against_dense) is not None:
        parts.append(
            f"{words.times(ratio)} less than dense"
            if ratio >= 1
            else f"{words.times(1 / ratio)} more than dense"
        )
    if state.link:
        parts.append(f"link {words.rate(state.link.rate)}, {words.duration(state.link.latency)}")
    parts.append(f"{words.size(state.bytes)} sent")
    parts += [
        f"{words.short(words.plain(name), 20)} {words.number(value)}"
        for name, value in list(state.noted.items())[:3]
    ]
    if total and state.step_time and total > state.steps:
        parts.append(f"{words.duration((total - state.steps) * state.step_time)} left")
    return f"{clock(state.t)}  " + "; ".join(parts)


def standing(state: State, total: int | None) -> list[str]:
    """For --once without a terminal."""
    lines = [progress(state, total)] if state.steps else ["no step yet"]
    if state.phase is not None:
        lines.append(f"phase: {words.plain(state.phase)}")
    if state.last:
        lines.append(f"plan: {words.plain(state.last.plan)}")
    if state.decision:
        lines.append(f"why: {words.plain(state.decision.reason)}")
    lines += [text for decision in state.decisions if (text := happening(decision))]
    lines += [text for message in state.messages if (text := happening(message))]
    return lines + [ending(state.end) if state.end else "the run goes on, or was killed"]


def spark(values: Sequence[float], width: int = 40) -> str:
    """The last values as a row of bars."""
    shown = list(values)[-width:]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    return "".join(
        BARS[int((value - low) / (high - low) * (len(BARS) - 1)) if high > low else 0]
        for value in shown
    )


def picture(state: State, total: int | None) -> RenderableType:
    """For a terminal. Texts of the log go in as texts, so nothing in them is read as a colour."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()

    def row(name: str, *pieces: str | tuple[str, str]) -> None:
        table.add_row(name, Text.assemble(*pieces))

    row(
        "steps",
        f"{state.steps:,}" + (f" of {total:,}" if total else ""),
        f" in {words.duration(state.t)}",
    )
    if total:
        table.add_row("", ProgressBar(total=total, completed=min(state.steps, total), width=40))
        if state.step_time and total > state.steps:
            row("time left", words.duration((total - state.steps) * state.step_time))
    row(
        "a step",
        (words.duration(state.step_time), "bold"),
        _dense_words(state),
        "  ",
        (spark([step.whole for step in state.recent if step.whole]), "cyan"),
    )
    if state.noted:
        row(
            "noted",
            ", ".join(
                f"{words.short(words.plain(name), 24)} {words.number(value)}"
                for name, value in list(state.noted.items())[:5]
            ),
        )
    if state.phase is not None:
        row("phase", words.plain(state.phase))
    row(
        "plan",
        (words.label(state.last.plan) if state.last else "-", "bold cyan"),
        f"\n{words.plain(state.last.plan)}" if state.last else "",
    )
    row("why", words.plain(state.decision.reason) if state.decision else "-")
    row(
        "link",
        f"{words.rate(state.link.rate)}, {words.duration(state.link.latency)}"
        if state.link
        else "not known yet",
    )
    row(
        "sent",
        f"{words.size(state.bytes)}, {words.size(state.bytes / state.steps)} a step"
        if state.steps
        else "nothing yet",
        f"; {words.count(state.voids, 'void exchange')}" if state.voids else "",
    )
    parts: list[RenderableType] = [table]
    if state.decisions:
        parts.append(Text("\nlast decisions", style="dim"))
        parts += [_decision(each) for each in reversed(state.decisions)]
    parts += [
        Text(
            f"{clock(each.t)}  {words.plain(each.level)}: {words.plain(each.text)}", style="yellow"
        )
        for each in state.messages
    ]
    if state.end:
        parts.append(
            Text(
                ending(state.end),
                style="bold green" if state.end.status == "closed" else "bold red",
            )
        )
    return Panel(
        Group(*parts),
        title=Text(words.short(words.plain(state.header.name), 60)),
        subtitle=Text(f"{state.header.world} ranks, {state.header.parameters:,} parameters"),
        border_style="dim",
    )


def _dense_words(state: State) -> str:
    ratio = state.against_dense
    if ratio is None:
        return ""
    return (
        f", {words.times(ratio)} less than dense"
        if ratio >= 1
        else f", {words.times(1 / ratio)} more than dense"
    )


def _decision(decision: Decision) -> RenderableType:
    from rich.text import Text

    kind = (
        "trial"
        if decision.trial
        else "new"
        if decision.changed or decision.before is None
        else "kept"
    )
    style = "bold cyan" if kind == "new" else ""
    return Text.assemble(
        (f"{clock(decision.t)}  ", "dim"),
        (f"{kind:5} ", style),
        (words.label(decision.plan), style),
        f"  {words.plain(decision.reason)}",
        overflow="ellipsis",
        no_wrap=True,
    )
