# SPDX-License-Identifier: MIT
"""`pliant doctor` here, where training works, and where one thing after the other is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pliant
import pytest
from pliant.doctor import device, network
from pliant.doctor.findings import Finding, State, as_table, can_attach, verdict

HERE = Path(pliant.__file__ or "").parent


def doctor(*words: str, **environment: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "pliant", "doctor", "--json", *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    document = json.loads(done.stdout)
    assert document["pliant_doctor"] == 1
    return done.returncode, document


def found(document: dict[str, Any], name: str) -> dict[str, str]:
    return next(finding for finding in document["findings"] if finding["name"] == name)


def test_here_training_works() -> None:
    status, document = doctor()
    assert (status, document["can_attach"]) == (0, True), document
    assert found(document, "attach")["state"] == "ok"
    assert "gloo" in found(document, "backends")["found"]
    assert found(document, "SIMD")["found"].startswith(f"{pliant._native.simd_targets()[0]} in use")
    for finding in document["findings"]:
        assert finding["state"] in ("ok", "note") or finding["fix"], finding


def test_without_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
    )
    status, document = doctor(PYTHONPATH=f"{tmp_path}:{os.environ['PYTHONPATH']}")
    assert status == 6
    assert "pip install torch" in found(document, "torch")["fix"]


def without_binding(folder: Path) -> Path:
    shutil.copytree(
        HERE, folder / "away" / "pliant", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    return folder / "away"


@pytest.mark.slow
def test_without_the_binding(tmp_path: Path) -> None:
    away = without_binding(tmp_path)
    (away / "pliant/_built.py").unlink()
    status, document = doctor(PYTHONPATH=str(away))
    assert status == 6
    assert "has not been built" in found(document, "binding")["found"]
    assert "pip install" in found(document, "binding")["fix"]


@pytest.mark.slow
def test_a_binding_for_another_torch(tmp_path: Path) -> None:
    away = without_binding(tmp_path)
    (away / "pliant/_built.py").write_text(
        "version = '0'\ntorch_version = '1.2.3'\ncompiler = ''\nbuild_type = ''\n"
    )
    status, document = doctor(PYTHONPATH=str(away))
    assert status == 6
    assert "built for torch 1.2.3, but torch 2" in found(document, "binding")["found"]


@pytest.mark.slow
def test_a_binding_that_crashes(tmp_path: Path) -> None:
    away = without_binding(tmp_path)
    (away / "pliant/_native.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    status, document = doctor(PYTHONPATH=str(away))
    assert status == 6
    assert "SIGSEGV" in found(document, "binding")["found"]


def test_an_interface_that_is_not_here() -> None:
    status, document = doctor(GLOO_SOCKET_IFNAME="eth99")
    assert status == 6
    assert "eth99" in found(document, "interface")["found"]
    assert "GLOO_SOCKET_IFNAME=" in found(document, "interface")["fix"]


def test_buffers_are_judged_for_the_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "tcp_rmem": "4096\t131072\t6291456",
        "tcp_wmem": "4096 16384 4194304",
        "tcp_slow_start_after_idle": "1",
        "tcp_congestion_control": "cubic",
    }.items():
        (tmp_path / "net/ipv4").mkdir(parents=True, exist_ok=True)
        (tmp_path / "net/ipv4" / name).write_text(value + "\n")
    monkeypatch.setattr(network, "_SYSCTL", tmp_path)
    near = {finding.name: finding for finding in network.check(network.read_link("1gbit,1ms"))}
    far = {finding.name: finding for finding in network.check(network.read_link("10gbit,100ms"))}
    assert near["tcp_rmem"].state is State.OK
    assert far["tcp_rmem"].state is State.ADVICE
    assert far["tcp_rmem"].fix == "sudo sysctl -w net.ipv4.tcp_rmem='4096 131072 500000000'"
    assert (
        near["tcp_slow_start_after_idle"].fix
        == "sudo sysctl -w net.ipv4.tcp_slow_start_after_idle=0"
    )
    assert (
        near["congestion"].fix
        == "sudo modprobe tcp_bbr && sudo sysctl -w net.ipv4.tcp_congestion_control=bbr"
    )


def test_the_table() -> None:
    findings = [
        Finding("training", "torch", State.OK, "2.13"),
        Finding("tools", "MPI", State.MISSING, "no mpirun", "install it\nor not"),
    ]
    assert verdict(findings) == "pliant.attach() works here (1 missing beside it)"
    assert can_attach(findings)
    text = as_table(findings, colour=False)
    assert "\033" not in text
    assert [line.strip() for line in text.splitlines()[-2:]] == ["-> install it", "-> or not"]
    assert "\033[33mmissing" in as_table(findings, colour=True)
    broken = [*findings, Finding("training", "attach", State.BROKEN, "no", "mend it")]
    assert verdict(broken) == "pliant.attach() will not work here: attach"


def with_late_device(folder: Path) -> dict[str, str]:
    """An environment in which torch finds the late device as it finds any other extension."""
    information = folder / "late_backend-0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: late_backend\nVersion: 0\n")
    (information / "entry_points.txt").write_text(
        "[torch.backends]\nlate = support.late_backend:register\n"
    )
    paths = [str(folder), str(Path(__file__).parent), os.environ["PYTHONPATH"]]
    return {"PYTHONPATH": os.pathsep.join(paths)}


def test_a_device_that_works(tmp_path: Path) -> None:
    status, document = doctor("--device", "late", **with_late_device(tmp_path))
    assert (status, document["can_attach"]) == (0, True), document
    assert "two, on late:0 and late:1, cpu:gloo,late:staged" in found(document, "ranks")["found"]
    assert found(document, "gradients")["found"].startswith("6 plans, with the bits")
    assert found(document, "updates")["found"].startswith("5 plans, with the bits")
    assert found(document, "order")["found"].startswith("2 plans")
    assert "to the host in" in found(document, "pinned memory")["found"]
    assert "bytes of the host for each parameter" in found(document, "memory")["found"]


@pytest.mark.slow
def test_host_memory_as_the_device() -> None:
    status, document = doctor("--device", "cpu")
    assert (status, found(document, "gradients")["state"]) == (0, "ok"), document
    assert not any(finding["area"].startswith("network") for finding in document["findings"])


@pytest.mark.slow
def test_a_device_that_loses_waits(tmp_path: Path) -> None:
    """As a driver with a fault would: some results are wrong, or a rank says why it cannot go on."""
    environment = with_late_device(tmp_path)
    status, document = doctor("--device", "late", LATE_DEVICE_DROPS="POOL", **environment)
    assert status in (5, 6), document
    broken = [finding for finding in document["findings"] if finding["state"] == "broken"]
    assert broken and all("report" in finding["fix"] for finding in broken), document


def test_wrong_results_are_said() -> None:
    facts = {
        "torch": "2", "threads": 1, "backends": {"gloo": True}, "binding": "1", "compiler": "c",
        "build_type": "Release", "built_for": "2", "simd": ["AVX2"], "tried": True,
        "device0": "x:0", "device1": "x:1", "group": "xccl", "host_bytes": 8.5, "host_plan": "p",
        "differing": {"gradients dense": 0, "updates every=1 late=0 dense": 17},
    }  # fmt: skip
    findings = device.of_facts("x", facts)
    assert device.has_wrong_results(findings)
    texts = {finding.name: (finding.state, finding.found) for finding in findings}
    assert texts["gradients"] == (State.OK, "1 plan, with the bits of host memory")
    assert texts["updates"] == (
        State.BROKEN,
        "1 of 1 plan differs from host memory: 'updates every=1 late=0 dense' (17 entries)",
    )
