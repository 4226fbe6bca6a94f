# SPDX-License-Identifier: MIT
"""Command `pliant watch`: follows a run log, and shows a panel in a terminal or plain lines
elsewhere."""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pliant.runlog import Follower, Line, RunLogError
from pliant.tools import formatting
from pliant.tools.arguments import BadInput, Parser
from pliant.tools.exit_codes import BAD_INPUT, FAILED, FINE, TIMEOUT, ended_by
from pliant.watch.plain_view import PlainView, header_line, standing
from pliant.watch.state import State
from pliant.watch.terminal_view import picture

NAME = "pliant watch"
UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


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
    out.add_argument(
        "--full", action="store_true", help="whole plans and long reasons instead of short ones"
    )
    out.add_argument("--once", action="store_true", help="show the current state and exit")
    out.add_argument(
        "--steps",
        type=at_least_one,
        metavar="N",
        help="total number of steps, for the progress bar and the time left",
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
        return ended_by(signal.SIGINT)


def _complain(text: str, code: int) -> int:
    print(f"{NAME}: {formatting.plain(text)}", file=sys.stderr)
    return code


def _once(options: argparse.Namespace) -> int:
    with Follower(Path(options.log)) as follower:
        state = State(follower.log.header, full=options.full)
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
    return FAILED if state.end and state.end.status == "failed" else FINE


def _watch(options: argparse.Namespace) -> int:
    while True:
        with _opened(Path(options.log), options.timeout, options.every) as follower:
            state = State(follower.log.header, full=options.full)
            _show(follower, state, options)
            if state.end is not None:
                return _code(state)
        print(f"{NAME}: the run was started again", file=sys.stderr)


def _show(follower: Follower, state: State, options: argparse.Namespace) -> None:
    """Until the run ends or another one takes its place."""
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
        _follow(follower, state, options, PlainView(state, options.steps, 10 * options.every).show)


def _opened(path: Path, timeout: float, every: float) -> Follower:
    """Waits for a file with a complete first line."""
    deadline = time.monotonic() + timeout
    mentioned = False
    while True:
        if path.is_dir():
            raise RunLogError(f"{path}: a folder, not a run log")
        if path.exists() and _has_line(path):
            return Follower(path)
        if time.monotonic() >= deadline:
            raise _Late(
                f"{path}: "
                + ("has no complete line" if path.exists() else "is not there")
                + f" after {formatting.duration(timeout)}"
            )
        if not mentioned:
            print(f"{NAME}: waiting for {formatting.plain(str(path))}", file=sys.stderr)
            mentioned = True
        time.sleep(min(every, max(0.0, deadline - time.monotonic())))


class _Late(RuntimeError):
    """The file or its next line did not come within --timeout."""


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
        if state.end is not None or (not lines and follower.was_replaced()):
            return
        if time.monotonic() - heard >= options.timeout:
            raise _Late(
                f"{follower.path}: no new line for {formatting.duration(options.timeout)}; the run "
                "may have been killed"
            )
        time.sleep(options.every)
