# SPDX-License-Identifier: MIT
"""Runner of single runs, in the lab or on loopback. Each is a file in build/evidence; existing
files are read instead."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import figures
from evidence import specs

FOLDER = figures.ROOT / "build" / "evidence"
LAB = figures.ROOT / "build" / "release" / "tools" / "pliant-lab" / "pliant-lab"


class TimeIsUp(Exception):
    """The budget of this call is used up. What has run is kept."""


class Runner:
    """Runs that share a network share their processes too: importing torch and reading the data
    takes as long as many a run."""

    def __init__(self, budget: float, folder: Path = FOLDER) -> None:
        self._end = time.monotonic() + budget
        self.folder = folder
        self.failed: dict[str, str] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def result(self, spec: specs.Spec) -> dict[str, Any]:
        """Result of this run, from its file or by running it now."""
        self.prepare([spec])
        name = _name(spec)
        if name in self.failed:
            raise RuntimeError(self.failed[name])
        return dict(json.loads(self._out(spec).read_text()))

    def prepare(self, wanted: Iterable[specs.Spec]) -> None:
        """Runs what is missing of these. One that fails is noted, and the others go on without
        it."""
        batches: dict[tuple[int, str], list[specs.Spec]] = {}
        for spec in dict.fromkeys(wanted):
            batches.setdefault(
                (spec.hosts, specs.timeline(spec) if spec.phases else ""), []
            ).append(spec)
        for batch in batches.values():
            while missing := [
                spec
                for spec in batch
                if not self._out(spec).exists() and _name(spec) not in self.failed
            ]:
                self._run(missing)

    def forget(self, methods: Collection[str]) -> None:
        for path in self.folder.glob("*.spec.json"):
            spec = specs.read(path)
            if spec.method in methods:
                self._out(spec).unlink(missing_ok=True)

    def log_of(self, spec: specs.Spec) -> Path:
        return self.folder / f"{_name(spec)}.jsonl"

    def _out(self, spec: specs.Spec) -> Path:
        return self.folder / f"{_name(spec)}.json"

    def _run(self, batch: list[specs.Spec]) -> None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeIsUp
        first = batch[0]
        paths = []
        for spec in batch:
            log = (
                self.log_of(spec)
                if spec.method in ("auto", "auto-steps", "auto-gradients", "oracle", "paper")
                and spec.phases
                else ""
            )
            paths.append(self.folder / f"{_name(spec)}.spec.json")
            specs.write(
                dataclasses.replace(spec, out=str(self._out(spec)), log=str(log)), paths[-1]
            )
        where = f"{len(first.phases)} phases" if first.phases else "loopback"
        more = f" and {len(batch) - 1} more" if len(batch) > 1 else ""
        print(
            f"{time.strftime('%H:%M:%S')} {first.mode} {first.job}, {first.method}, seed "
            f"{first.seed}{more}, {where} ...",
            file=sys.stderr,
            flush=True,
        )
        begin = time.monotonic()
        command = [sys.executable, "-m", "evidence.rank", *map(str, paths)]
        try:
            said = (
                self._in_the_lab(first, command, left)
                if first.phases
                else _on_loopback(first.hosts, command, left)
            )
        except subprocess.TimeoutExpired:
            raise TimeIsUp from None
        print(f"         {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
        if time.monotonic() >= self._end:
            raise TimeIsUp
        undone = next((spec for spec in batch if not self._out(spec).exists()), None)
        if undone is not None:  # they run in order: it is the one that failed
            self.failed[_name(undone)] = f"{_name(undone)}: {said[-3000:] or 'no result'}"

    def _in_the_lab(self, spec: specs.Spec, command: list[str], limit: float) -> str:
        timeline = self.folder / f"{_name(spec)}.toml"
        timeline.write_text(specs.timeline(spec))
        lab = [
            str(LAB),
            "run",
            "--hosts",
            str(spec.hosts),
            "--timeline",
            str(timeline),
            "--by-name",
            "--timeout",
            f"{limit:.0f}s",
        ]
        if spec.mode == "train":
            lab += ["--truth", str(self.folder / f"{_name(spec)}.truth.jsonl")]
        done = subprocess.run(
            [*lab, "--", *command],
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=limit + 60,
        )
        return (
            f"exit {done.returncode}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
            if done.returncode
            else ""
        )


def _name(spec: specs.Spec) -> str:
    return f"{spec.mode}-{spec.job}-{spec.digest()}"


def _environment() -> dict[str, str]:
    packages = [
        figures.ROOT / "build" / "release" / "python",
        figures.ROOT / "python",
        figures.ROOT / "bench",
    ]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, packages)), "OMP_NUM_THREADS": "1"}


def _on_loopback(ranks: int, command: list[str], limit: float) -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "GLOO_SOCKET_IFNAME": "lo",
    }
    processes = [
        subprocess.Popen(
            command,
            env={**_environment(), **common, "RANK": str(r), "LOCAL_RANK": str(r)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for r in range(ranks)
    ]
    try:
        outputs = [process.communicate(timeout=limit)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return "\n".join(outputs) if any(process.returncode for process in processes) else ""
