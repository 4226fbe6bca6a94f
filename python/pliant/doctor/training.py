# SPDX-License-Identifier: MIT
"""Check that `pliant.attach` works.

Two ranks of trial.py run in processes of their own, so that even a crash in torch or the binding is
a finding."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pliant.doctor.findings import Finding, State

_AREA = "training"
_RANKS = 2
_TRIAL_SECONDS = 120.0
_GRACE_SECONDS = 5.0

_REBUILD = (
    "pip install --no-build-isolation --force-reinstall --no-deps .   (in a checkout of pliant)"
)


def check() -> list[Finding]:
    facts = run_trial()
    return [*of_installation(facts), *_attach(facts)]


def of_installation(facts: dict[str, Any]) -> list[Finding]:
    return [_python(), *_torch(facts), *_binding(facts)]


def run_trial(*device: str, seconds: float = _TRIAL_SECONDS) -> dict[str, Any]:
    """Facts that the two ranks found. A rank that dies leaves those that it had written. device:
    the one to try, if it is one."""
    with tempfile.TemporaryDirectory(prefix="pliant-doctor-") as name:
        folder = Path(name)
        ranks = [_start(rank, folder, device) for rank in range(_RANKS)]
        _wait(ranks, seconds)
        known: dict[str, Any] = {}
        for rank, process in enumerate(ranks):
            facts = folder / f"facts{rank}"
            for line in facts.read_text().splitlines() if facts.exists() else []:
                known.update(json.loads(line))
            if process.returncode != 0 and "died" not in known:
                known["died"] = _how(process.returncode)
                known["last_words"] = (
                    (folder / f"said{rank}").read_text(errors="replace").strip().splitlines()[-1:]
                )
        return known


def _start(rank: int, folder: Path, device: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "pliant.doctor.trial",
        str(rank),
        str(_RANKS),
        str(folder / "store"),
        str(folder / f"facts{rank}"),
        *device,
    ]
    with (folder / f"said{rank}").open("wb") as said:
        return subprocess.Popen(command, stdout=said, stderr=said, env=_environment())


def _wait(ranks: list[subprocess.Popen[bytes]], seconds: float) -> None:
    """Until all have ended; not for long once one has failed, for the other then waits for it in
    vain."""
    deadline = time.monotonic() + seconds
    while any(rank.poll() is None for rank in ranks):
        if any(rank.poll() for rank in ranks):
            deadline = min(deadline, time.monotonic() + _GRACE_SECONDS)
        if time.monotonic() > deadline:
            for rank in ranks:
                rank.kill()
        time.sleep(0.05)


def _environment() -> dict[str, str]:
    """The package that this is, wherever it lies, and one thread a rank."""
    package = str(Path(__file__).parents[2])
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
        "OMP_NUM_THREADS": "1",
    }


def _how(status: int) -> str:
    return (
        f"ended by {signal.Signals(-status).name}"
        if status < 0
        else f"ended with exit status {status}"
    )


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < (3, 10):
        return Finding(_AREA, "python", State.BROKEN, version, "pliant needs Python 3.10 or newer")
    return Finding(_AREA, "python", State.OK, f"{version} ({sys.executable})")


def _torch(facts: dict[str, Any]) -> list[Finding]:
    if "torch" not in facts:
        why = facts.get("torch_error", facts.get("died", "it could not be imported"))
        return [
            Finding(
                _AREA,
                "torch",
                State.BROKEN,
                str(why),
                f"{sys.executable} -m pip install torch   (then pliant: its binding is built for "
                "one torch)",
            )
        ]
    found = [
        Finding(
            _AREA,
            "torch",
            State.OK,
            f"{facts['torch']} ({facts['threads']} "
            f"threads{', CUDA ' + facts['cuda'] if facts.get('cuda') else ''})",
        )
    ]
    backends = facts.get("backends")
    if not backends:
        return [
            *found,
            Finding(
                _AREA,
                "torch.distributed",
                State.BROKEN,
                "this torch was built without it",
                "install a torch with USE_DISTRIBUTED=1; the wheels have it",
            ),
        ]
    there = [name for name, here in backends.items() if here]
    lacking = [name for name, here in backends.items() if not here]
    state = State.OK if backends.get("gloo") else State.BROKEN
    text = f"{', '.join(there) or 'none'}" + (f"; without {', '.join(lacking)}" if lacking else "")
    fix = (
        ""
        if backends.get("gloo")
        else "pliant exchanges over Gloo: install a torch that has it; the wheels do"
    )
    return [*found, Finding(_AREA, "backends", state, text, fix)]


def _binding(facts: dict[str, Any]) -> list[Finding]:
    if "torch" not in facts:
        return [
            Finding(
                _AREA, "binding", State.BROKEN, "cannot be loaded without torch", "see torch, above"
            )
        ]
    if "binding_error" in facts:
        return [Finding(_AREA, "binding", State.BROKEN, facts["binding_error"], _REBUILD)]
    if "binding" not in facts:
        return [
            Finding(
                _AREA,
                "binding",
                State.BROKEN,
                f"loading it: {facts.get('died', 'no answer')} {' '.join(facts.get('last_words', []))}".strip(),
                _REBUILD,
            )
        ]
    built = f"{facts['binding']}, {facts['compiler']}, {facts['build_type'] or 'no build type'}, for torch {facts['built_for']}"
    slow = facts["build_type"] not in ("Release", "RelWithDebInfo", "MinSizeRel")
    findings = [
        Finding(
            _AREA,
            "binding",
            State.ADVICE if slow else State.OK,
            built,
            "build it optimised: cmake -DCMAKE_BUILD_TYPE=Release" if slow else "",
        )
    ]
    targets = facts["simd"]
    scalar = targets[0] in ("EMU128", "SCALAR")
    findings.append(
        Finding(
            _AREA,
            "SIMD",
            State.ADVICE if scalar else State.OK,
            f"{targets[0]} in use" + (f"; also {', '.join(targets[1:])}" if targets[1:] else ""),
            "this CPU has no instructions that the kernels know: selecting will be slow"
            if scalar
            else "",
        )
    )
    return findings


def _attach(facts: dict[str, Any]) -> list[Finding]:
    if facts.get("attached") and "attach_error" not in facts and "died" not in facts:
        return [
            Finding(
                _AREA,
                "attach",
                State.OK,
                f"two ranks trained {facts['attached']} steps under '{facts['plan']}' over Gloo",
            )
        ]
    if "binding" not in facts:
        return []
    why = (
        facts.get("attach_error")
        or f"{facts.get('died', 'no answer')} {' '.join(facts.get('last_words', []))}"
    )
    return [
        Finding(
            _AREA,
            "attach",
            State.BROKEN,
            f"two ranks on this machine did not get through a step: {why.strip()}",
            "see the interface that Gloo picks, below; export GLOO_SOCKET_IFNAME=lo tries it on "
            "loopback",
        )
    ]
