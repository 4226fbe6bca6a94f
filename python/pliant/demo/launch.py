# SPDX-License-Identifier: MIT
"""Launcher of the demonstration's ranks, in the lab or on loopback. It passes on the events of rank
0, and ends every process it has started."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pliant.cli import find
from pliant.demo.settings import Settings

EVENT = "PLIANT-DEMO "  # begins what job.py says to us
_PATIENCE = 5.0  # seconds between asking a process to end and ending it

Event = dict[str, Any]


class JobFailed(RuntimeError):
    """With the last lines that the ranks wrote, and where the others are."""


@dataclass(frozen=True)
class Place:
    """Where the ranks run."""

    lab: str | None  # the program; None: on loopback
    missing: str = ""  # why not in the lab


def place(no_lab: bool) -> Place:
    if no_lab:
        return Place(None, "--no-lab")
    lab = find("pliant-lab")
    if lab is None:
        return Place(None, "pliant-lab is not here (a C++ tool: `make release` builds it)")
    try:
        tried = subprocess.run(
            [lab, "run", "--hosts", "2", "--timeout", "20s", "--", "true"],
            capture_output=True,
            text=True,
            timeout=40,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Place(None, f"pliant-lab does not run here: {error}")
    if tried.returncode:
        return Place(
            None, tried.stderr.strip() or f"pliant-lab ends with status {tried.returncode}"
        )
    return Place(lab)


@dataclass
class Job:
    """Processes, each the leader of a session of its own, so that all it started can be ended with
    it."""

    processes: list[subprocess.Popen[str]]
    output: Path  # what ranks write that is no event
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=5))

    def events(self, limit: float) -> Iterator[Event]:
        """Until all have ended. JobFailed if one fails, or after `limit` seconds."""
        lines: queue.Queue[str | None] = queue.Queue()
        for process in self.processes:
            assert process.stdout is not None
            threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True).start()
        deadline = time.monotonic() + limit
        open_streams = len(self.processes)
        with self.output.open("w", encoding="utf-8", buffering=1) as output:
            while open_streams:
                line = self._next(lines, deadline)
                if line is None:
                    open_streams -= 1
                    self._check(wait=open_streams == 0)
                elif EVENT in line:
                    yield json.loads(line.split(EVENT, 1)[1])
                else:
                    self.last_lines.append(line)
                    print(line, file=output)

    def end(self) -> None:
        for process in self.processes:
            _signal(process, signal.SIGTERM)
        patience = time.monotonic() + _PATIENCE
        for process in self.processes:
            try:
                process.wait(max(0.0, patience - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
        for process in self.processes:
            _signal(process, signal.SIGKILL)
            process.wait()

    def _next(self, lines: queue.Queue[str | None], deadline: float) -> str | None:
        try:
            return lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise JobFailed(self._text("it takes far longer than it should")) from None

    def _check(self, wait: bool) -> None:
        for process in self.processes:
            status = process.wait(60) if wait else process.poll()
            if status:
                raise JobFailed(self._text(f"a rank ended with status {status}"))

    def _text(self, what: str) -> str:
        return "\n  ".join(
            [f"{what}; what the ranks said is in {self.output}, and its end is", *self.last_lines]
        )


def start(where: Place, settings: Settings, seconds: float) -> Job:
    job = [sys.executable, "-m", "pliant.demo.job", settings.to_json()]
    return (
        _in_the_lab(where.lab, job, settings, seconds) if where.lab else _on_loopback(job, settings)
    )


def truth_path(settings: Settings) -> Path:
    return Path(settings.out) / "truth.jsonl"


def output_path(settings: Settings) -> Path:
    return Path(settings.out) / "ranks.txt"


def _in_the_lab(lab: str, job: Sequence[str], settings: Settings, seconds: float) -> Job:
    timeline = Path(settings.out) / "timeline.toml"
    timeline.write_text(settings.timeline())
    options = [
        "--hosts",
        str(settings.hosts),
        "--timeline",
        str(timeline),
        "--by-name",
        "--truth",
        str(truth_path(settings)),
    ]
    return Job(
        [
            _popen(
                [
                    lab,
                    "run",
                    *options,
                    "--seed",
                    str(settings.seed),
                    "--timeout",
                    f"{seconds:.0f}s",
                    "--",
                    *job,
                ],
                {},
            )
        ],
        output_path(settings),
    )


def _on_loopback(job: Sequence[str], settings: Settings) -> Job:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    started = Job([], output_path(settings))
    try:
        for rank in range(settings.hosts):
            place = {
                "RANK": str(rank),
                "WORLD_SIZE": str(settings.hosts),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "GLOO_SOCKET_IFNAME": "lo",
            }
            started.processes.append(_popen(job, place))
    except BaseException:
        started.end()
        raise
    return started


def _popen(command: Sequence[str], more: dict[str, str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **more}
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def _pump(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line.rstrip("\n"))
    lines.put(None)


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # all of it has ended
