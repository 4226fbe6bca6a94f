# SPDX-License-Identifier: MIT
"""Checks of tools other than training: the C++ tools, MPI, and whether the lab can run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from pliant import cli
from pliant.doctor.findings import Finding, State

_AREA = "tools"
_TUN = Path("/dev/net/tun")
_PACKAGES = "sudo apt-get install libcli11-dev libtomlplusplus-dev, then pip install --no-build-isolation --force-reinstall --no-deps . (or make build)"
_SECONDS = 30.0


def check() -> list[Finding]:
    return [
        *(_program(name) for name in ("pliant-plan", "pliant-bench", "pliant-lab")),
        _lab(),
        _mpi(),
    ]


def run(*words: str) -> subprocess.CompletedProcess[str] | None:
    """None if it could not be started, or took too long."""
    try:
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _program(name: str) -> Finding:
    path = cli.find(name)
    if path is None:
        return Finding(
            _AREA,
            name,
            State.MISSING,
            "not found beside the interpreter, on PATH or in a build tree: no `pliant "
            f"{name.removeprefix('pliant-')}`",
            _PACKAGES,
        )
    done = run(path, "--version")
    if done is None or done.returncode != 0:
        return Finding(
            _AREA,
            name,
            State.MISSING,
            f"{path} does not run: {done.stderr.strip() if done else 'no answer'}",
            _PACKAGES,
        )
    theirs, ours = done.stdout.split()[-1], _own_version()
    if ours is not None and theirs != ours:
        return Finding(
            _AREA,
            name,
            State.ADVICE,
            f"{path} is of version {theirs}, this package of {ours}",
            "install both from one checkout, or mend PATH",
        )
    return Finding(_AREA, name, State.OK, f"{theirs} ({path})")


def _own_version() -> str | None:
    try:
        from pliant import _built
    except ImportError:
        return None
    return _built.version


def _lab() -> Finding:
    """By starting one host, if pliant-lab is here; else by what it would need."""
    path = cli.find("pliant-lab")
    if path is not None:
        done = run(path, "run", "--hosts", "1", "--timeout", "20s", "--", "true")
        if done is not None and done.returncode == 0:
            return Finding(
                _AREA,
                "lab",
                State.OK,
                "a host in a namespace of its own was started: TUN and namespaces work",
            )
        words = done.stderr.strip().splitlines() if done else ["no answer"]
        return Finding(
            _AREA,
            "lab",
            State.MISSING,
            words[0].removeprefix("pliant-lab: "),
            "\n".join(line.strip() for line in words[1:]) or "see docs/lab.md",
        )
    if not os.access(_TUN, os.R_OK | os.W_OK):
        fix = (
            "sudo chmod 0666 /dev/net/tun"
            if _TUN.exists()
            else "sudo modprobe tun   (in a container: --device /dev/net/tun)"
        )
        return Finding(
            _AREA,
            "lab",
            State.MISSING,
            f"{_TUN} {'is closed to this user' if _TUN.exists() else 'is not there'}: no lab",
            fix,
        )
    done = (
        run("unshare", "--user", "--net", "true")
        if os.geteuid() != 0
        else run("unshare", "--net", "true")
    )
    if done is None or done.returncode != 0:
        return Finding(
            _AREA,
            "lab",
            State.MISSING,
            f"namespaces: {done.stderr.strip() if done else 'unshare does not run'}",
            "sudo sysctl -w user.max_user_namespaces=10000",
        )
    return Finding(
        _AREA,
        "lab",
        State.NOTE,
        "TUN and namespaces are here; pliant-lab is not",
        "see pliant-lab, above",
    )


def _mpi() -> Finding:
    path = shutil.which("mpirun")
    if path is None:
        return Finding(
            _AREA,
            "MPI",
            State.MISSING,
            "no mpirun: no C++ jobs on MPI, no `pliant lab mpirun` (PyTorch jobs need none)",
            "sudo apt-get install openmpi-bin libopenmpi-dev",
        )
    done = run(path, "--version")
    if done is None or done.returncode != 0 or not done.stdout.strip():
        return Finding(
            _AREA,
            "MPI",
            State.MISSING,
            f"{path} does not run",
            "sudo apt-get install --reinstall openmpi-bin",
        )
    version = done.stdout.splitlines()[0].strip()
    as_root = (
        os.geteuid() == 0 and "Open MPI" in version and "OMPI_ALLOW_RUN_AS_ROOT" not in os.environ
    )
    if as_root:
        return Finding(
            _AREA,
            "MPI",
            State.NOTE,
            f"{version} ({path}); it refuses to start for root",
            "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
        )
    return Finding(_AREA, "MPI", State.OK, f"{version} ({path})")
