# SPDX-License-Identifier: MIT
"""Runs, each a file in build/evidence: what is there already is read, what is missing is run, in the lab or on loopback."""
from __future__ import annotations

import dataclasses
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import figures
from evidence import specs

FOLDER = figures.ROOT / "build" / "evidence"
LAB = figures.ROOT / "build" / "release" / "tools" / "pliant-lab" / "pliant-lab"
LONGEST = 3600  # seconds, of any one run


class TimeIsUp(Exception):
    """The budget of this call is used up. What has run is kept."""


class Runner:
    def __init__(self, budget: float, folder: Path = FOLDER) -> None:
        self._end = time.monotonic() + budget
        self.folder = folder
        self.failed: dict[str, str] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def result(self, spec: specs.Spec) -> dict[str, Any]:
        """Of this run, from its file or by running it now."""
        name = f"{spec.mode}-{spec.job}-{spec.digest()}"
        out = self.folder / f"{name}.json"
        if not out.exists():
            self._run(spec, name, out)
        return dict(json.loads(out.read_text()))

    def log_of(self, spec: specs.Spec) -> Path:
        return self.folder / f"{spec.mode}-{spec.job}-{spec.digest()}.jsonl"

    def _run(self, spec: specs.Spec, name: str, out: Path) -> None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeIsUp
        log = self.log_of(spec) if spec.method in ("auto", "auto-gradients", "oracle", "paper") and spec.phases else ""
        path = self.folder / f"{name}.spec.json"
        specs.write(dataclasses.replace(spec, out=str(out), log=str(log)), path)
        where = f"{len(spec.phases)} phases" if spec.phases else "loopback"
        print(f"{time.strftime('%H:%M:%S')} {spec.mode} {spec.job}, {spec.method}, seed {spec.seed}, {where} ...", file=sys.stderr, flush=True)
        begin = time.monotonic()
        command = [sys.executable, "-m", "evidence.rank", str(path)]
        limit = min(LONGEST, left)
        done = self._in_the_lab(spec, name, command, limit) if spec.phases else _on_loopback(spec.hosts, command, limit)
        if done or not out.exists():
            raise RuntimeError(f"{name}: {done[-3000:] or 'no result'}")
        print(f"         {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)

    def _in_the_lab(self, spec: specs.Spec, name: str, command: list[str], limit: float) -> str:
        timeline = self.folder / f"{name}.toml"
        timeline.write_text(specs.timeline(spec))
        lab = [str(LAB), "run", "--hosts", str(spec.hosts), "--timeline", str(timeline), "--by-name", "--timeout", f"{limit:.0f}s"]
        if spec.mode == "train":
            lab += ["--truth", str(self.folder / f"{name}.truth.jsonl")]
        done = subprocess.run([*lab, "--", *command], env=_environment(), capture_output=True, text=True, timeout=limit + 60)
        return f"exit {done.returncode}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}" if done.returncode else ""


def _environment() -> dict[str, str]:
    packages = [figures.ROOT / "build" / "release" / "python", figures.ROOT / "python", figures.ROOT / "bench"]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, packages)), "OMP_NUM_THREADS": "1"}


def _on_loopback(ranks: int, command: list[str], limit: float) -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(command, env={**_environment(), **common, "RANK": str(r), "LOCAL_RANK": str(r)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for r in range(ranks)
    ]
    try:
        outputs = [process.communicate(timeout=limit)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return "\n".join(outputs) if any(process.returncode for process in processes) else ""
