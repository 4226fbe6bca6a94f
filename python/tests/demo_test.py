# SPDX-License-Identifier: MIT
"""Tests of `pliant demo --quick` in the lab (skipped where that cannot run) and on loopback: table,
logs, report and picture exist and agree; missing or broken data and bad options are named; Ctrl-C
leaves nothing behind."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

LAB = os.environ.get("PLIANT_LAB", "")
IN_THE_LAB = pytest.mark.skipif(
    not LAB or not os.path.exists("/dev/net/tun") or os.geteuid() != 0,
    reason="needs pliant-lab, TUN and root",
)
PNG = b"\x89PNG\r\n\x1a\n"


def demo(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([os.path.dirname(LAB), os.environ["PATH"]])
    return subprocess.run(
        [sys.executable, "-m", "pliant", "demo", *words],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "PATH": path, **environment},
        check=False,
    )


def check(
    out: Path, done: subprocess.CompletedProcess[str], steps: int
) -> dict[str, dict[str, str]]:
    """Both logs are whole and alike in what must be alike, and what is printed is what the files
    say. Gives the table's rows by name."""
    from pliant import runlog

    assert done.returncode == 0, done.stdout + done.stderr
    plain, ours = (runlog.read(out / f"{name}.jsonl") for name in ("plain-ddp", "pliant"))
    for log in (plain, ours):
        assert log.end is not None and log.end.status == "closed"
        assert log.end.step == len(log.steps) == steps
        assert log.header.parameters == 206_922
        assert log.header.name == log.path.stem
    assert [note.step for note in plain.notes] == [note.step for note in ours.notes]
    assert plain.notes[0].values["loss"] == pytest.approx(
        ours.notes[0].values["loss"], rel=0.2
    )  # the same start
    figures = json.loads((out / "figures.json").read_text())
    rows: dict[str, dict[str, str]] = {row["what"]: row for row in figures["rows"]}
    for row in rows.values():
        assert all(
            word in done.stdout
            for cell in (row["what"], row["plain"], row["pliant"])
            for word in cell.split()
        ), row
    assert {"time in all", "accuracy in the end", "plans"} <= set(rows)
    assert any(what.startswith("time to loss") for what in rows)
    report = (out / "report.html").read_text()
    assert "plain-ddp" in report and "<html" in report and figures["verdict"].split()[0] in report
    assert (out / "headline.png").read_bytes().startswith(PNG)
    chart = ElementTree.parse(out / "chart.svg").getroot()
    words = " ".join(text for text in chart.itertext())
    assert "plain DDP" in words and "what Pliant sent" in words and "loss" in words
    for name in ("report.html", "chart.svg"):
        assert str(out / name) in done.stdout
    return rows


@pytest.mark.slow
@IN_THE_LAB
def test_in_the_lab(tmp_path: Path) -> None:
    from pliant import runlog

    done = demo("--quick", "--out", str(tmp_path))
    rows = check(tmp_path, done, steps=60)
    assert "from step 12 wan" in done.stderr
    assert {"  per step, lan", "  per step, wan", "  per step, mending", "sent by host 0"} <= set(
        rows
    )
    phases = [
        [(phase.step, phase.name) for phase in runlog.read(tmp_path / f"{name}.jsonl").phases]
        for name in ("plain-ddp", "pliant")
    ]
    assert phases[0] == phases[1] == [(0, "lan"), (12, "wan"), (42, "mending")]
    entered = [
        record["phase"]
        for record in map(json.loads, (tmp_path / "truth.jsonl").read_text().splitlines())
        if record["type"] == "phase"
    ]
    assert [phase for phase in entered if phase == "wan"] == ["wan"] * 2  # once for each method


def test_on_loopback_with_generated_data(tmp_path: Path) -> None:
    (tmp_path / "truth.jsonl").write_text("of another run\n")
    done = demo(
        "--steps",
        "20",
        "--hosts",
        "2",
        "--no-lab",
        "--out",
        str(tmp_path),
        PLIANT_FASHION_MNIST=str(tmp_path / "nothing"),
    )
    rows = check(tmp_path, done, steps=20)
    assert "Not in the lab (--no-lab)" in done.stderr
    assert "generated images" in done.stderr and "dataset-fashion-mnist" in done.stderr
    assert "sent by host 0" not in rows  # nobody counted
    assert not (tmp_path / "truth.jsonl").exists()


def test_without_a_lab_it_says_what_is_missing(tmp_path: Path) -> None:
    from pliant.demo import launch

    broken = tmp_path / "pliant-lab"
    broken.write_text(
        "#!/bin/sh\necho 'pliant-lab: opening /dev/net/tun: no such device' >&2\nexit 6\n"
    )
    broken.chmod(0o755)
    before, sys.argv[0] = sys.argv[0], str(broken.parent / "pliant")
    try:
        where = launch.place(no_lab=False)
    finally:
        sys.argv[0] = before
    assert where.lab is None and "no such device" in where.missing


PROGRESS = {
    "method": "pliant",
    "step": 30,
    "loss": 0.5,
    "plan": "updates every=4 late=0 union density=10%",
}


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_shows_step_loss_plan_and_time_left(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pliant.demo import progress
    from pliant.demo.settings import Settings

    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    shown = progress.make(Settings(out="", steps=60))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    with shown:
        shown.say("a line")
        shown.step({"method": "plain-ddp", "step": 5, "plan": "gradients dense"})
        shown.take(PROGRESS)
    said = capsys.readouterr().err
    assert isinstance(shown, progress.Bars if terminal else progress.Lines)
    for part in ("a line", "Pliant", "30", "60", "loss 0.500", "updates every 4, top 10 %", "left"):
        assert part in said, (part, said)


@pytest.mark.parametrize(
    "words, culprit",
    [
        ("--hosts 1", "--hosts 1"),
        ("--hosts many", "many"),
        ("--steps 0", "--steps 0"),
        ("--seconds 1", "--seconds 1"),
        ("--seconds nan", "--seconds nan"),
        ("--quick --steps 50", "--quick"),
        ("--seed -1", "--seed -1"),
        ("--out /proc/demo", "/proc/demo"),
        ("--step 50", "--step"),
        ("here", "here"),
    ],
)
def test_bad_options(words: str, culprit: str) -> None:
    done = demo(*words.split())
    assert done.returncode == 2, done
    assert culprit in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_broken_data_file_is_named(tmp_path: Path) -> None:
    from pliant.demo import data

    good = bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9])
    path = tmp_path / "labels.gz"
    path.write_bytes(gzip.compress(good))
    assert data.read_idx(path).tolist() == [7, 9]
    for content in (
        gzip.compress(good)[:-9],
        b"no gzip",
        gzip.compress(good[:-1]),
        gzip.compress(b"\0\0\x0d\1"),
        gzip.compress(b"\0\0\x08\3\0"),
        gzip.compress(b""),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="labels.gz"):
            data.read_idx(path)


def test_the_same_batches_for_every_method() -> None:
    import torch

    from pliant.demo import data

    images = data.generated(500, seed=3)
    first, again, other = (data.batch(images, 16, rank=rank, step=4, seed=1) for rank in (0, 0, 1))
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert not torch.equal(first[0], other[0])


@pytest.mark.slow
def test_interrupting_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pliant",
        "demo",
        "--steps",
        "5000",
        "--hosts",
        "2",
        "--no-lab",
        "--out",
        str(tmp_path),
    ]
    running = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        patience = time.monotonic() + 200
        while not (tmp_path / "plain-ddp.jsonl").exists():
            assert running.poll() is None and time.monotonic() < patience
            time.sleep(0.2)
        ranks = _with(str(tmp_path)) - {running.pid}
        assert len(ranks) == 2
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 128 + signal.SIGINT
        assert not ranks & _with(str(tmp_path))
    finally:
        running.kill()
        running.wait()


def _with(word: str) -> set[int]:
    """Processes with this word in their command."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if word in (entry / "cmdline").read_text(errors="replace"):
                    found.add(int(entry.name))
            except OSError:
                pass
    return found
