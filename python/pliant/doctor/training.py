# SPDX-License-Identifier: MIT
"""The main job: can `pliant.attach` run? Two ranks of trial.py find out, in processes of their own, so that whatever is wrong
with torch or the binding, be it a crash, is a finding and not the end of the doctor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pliant.doctor.findings import Finding, State

_AREA = "training"
_TRIAL_SECONDS = 120.0

_REBUILD = "pip install --no-build-isolation --force-reinstall --no-deps .   (in a checkout of pliant)"


def check() -> list[Finding]:
    facts = run_trial()
    return [_python(), *_torch(facts), *_binding(facts), *_attach(facts)]


def run_trial() -> dict[str, Any]:
    """What the two ranks found out. A rank that dies leaves the facts that it had got to."""
    with tempfile.TemporaryDirectory(prefix="pliant-doctor-") as folder:
        facts = [Path(folder) / f"facts{rank}.jsonl" for rank in range(2)]
        errors = [Path(folder) / f"errors{rank}" for rank in range(2)]
        ranks = []
        for rank in range(2):
            with errors[rank].open("wb") as log:
                command = [sys.executable, "-m", "pliant.doctor.trial", str(rank), "2", str(Path(folder) / "store"), str(facts[rank])]
                ranks.append(subprocess.Popen(command, stdout=log, stderr=log, env=_environment()))
        for rank in ranks:
            try:
                rank.wait(_TRIAL_SECONDS)
            except subprocess.TimeoutExpired:
                rank.kill()
                rank.wait()
        known: dict[str, Any] = {}
        for path in facts:
            for line in path.read_text().splitlines() if path.exists() else []:
                known.update(json.loads(line))
        for rank, log_path in zip(ranks, errors, strict=True):
            if rank.returncode != 0 and "died" not in known:
                known["died"] = _how(rank.returncode)
                known["last_words"] = log_path.read_text(errors="replace").strip().splitlines()[-1:]
        return known


def _environment() -> dict[str, str]:
    """The package that this is, wherever it lies, and one thread a rank."""
    package = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])), "OMP_NUM_THREADS": "1"}


def _how(status: int) -> str:
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < (3, 10):
        return Finding(_AREA, "python", State.BROKEN, version, "pliant needs Python 3.10 or newer")
    return Finding(_AREA, "python", State.OK, f"{version} ({sys.executable})")


def _torch(facts: dict[str, Any]) -> list[Finding]:
    if "torch" not in facts:
        why = facts.get("torch_error", facts.get("died", "it could not be imported"))
        return [Finding(_AREA, "torch", State.BROKEN, str(why), f"{sys.executable} -m pip install torch   (then pliant: its binding is built for one torch)")]
    found = [Finding(_AREA, "torch", State.OK, f"{facts['torch']} ({facts['threads']} threads{', CUDA ' + facts['cuda'] if facts.get('cuda') else ''})")]
    backends = facts.get("backends")
    if not backends:
        return [*found, Finding(_AREA, "torch.distributed", State.BROKEN, "this torch was built without it", "install a torch with USE_DISTRIBUTED=1; the wheels have it")]
    there = [name for name, here in backends.items() if here]
    lacking = [name for name, here in backends.items() if not here]
    state = State.OK if backends.get("gloo") else State.BROKEN
    text = f"{', '.join(there) or 'none'}" + (f"; without {', '.join(lacking)}" if lacking else "")
    fix = "" if backends.get("gloo") else "pliant exchanges over Gloo: install a torch that has it; the wheels do"
    return [*found, Finding(_AREA, "backends", state, text, fix)]


def _binding(facts: dict[str, Any]) -> list[Finding]:
    if "torch" not in facts:
        return [Finding(_AREA, "binding", State.BROKEN, "cannot be loaded without torch", "see torch, above")]
    if "binding_error" in facts:
        return [Finding(_AREA, "binding", State.BROKEN, facts["binding_error"], _REBUILD)]
    if "binding" not in facts:
        return [Finding(_AREA, "binding", State.BROKEN, f"loading it: {facts.get('died', 'no answer')} {' '.join(facts.get('last_words', []))}".strip(), _REBUILD)]
    built = f"{facts['binding']}, {facts['compiler']}, {facts['build_type'] or 'no build type'}, for torch {facts['built_for']}"
    slow = facts["build_type"] not in ("Release", "RelWithDebInfo", "MinSizeRel")
    findings = [Finding(_AREA, "binding", State.ADVICE if slow else State.OK, built, "build it optimised: cmake -DCMAKE_BUILD_TYPE=Release" if slow else "")]
    targets = facts["simd"]
    scalar = targets[0] in ("EMU128", "SCALAR")
    findings.append(
        Finding(_AREA, "SIMD", State.ADVICE if scalar else State.OK, f"{targets[0]} in use" + (f"; also {', '.join(targets[1:])}" if targets[1:] else ""), "this CPU has no instructions that the kernels know: selecting will be slow" if scalar else "")
    )
    return findings


def _attach(facts: dict[str, Any]) -> list[Finding]:
    if facts.get("attached") and "attach_error" not in facts and "died" not in facts:
        return [Finding(_AREA, "attach", State.OK, f"two ranks trained {facts['attached']} steps under '{facts['plan']}' over Gloo")]
    if "binding" not in facts:
        return []
    why = facts.get("attach_error") or f"{facts.get('died', 'no answer')} {' '.join(facts.get('last_words', []))}"
    return [Finding(_AREA, "attach", State.BROKEN, f"two ranks on this machine did not get through a step: {why.strip()}", "see the interface that Gloo picks, below; export GLOO_SOCKET_IFNAME=lo tries it on loopback")]
