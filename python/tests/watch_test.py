# SPDX-License-Identifier: MIT
"""`pliant watch`: on a log that grows, one that is done, one that never comes, in a terminal and
elsewhere."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pliant.watch import cli as watch, terminal_view
from support import synthetic_logs

WAIT = 120.0  # for a process to do something: far more than it takes


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pliant", "watch", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments: object) -> tuple[int, str, str]:
    process = start(*arguments)
    out, err = process.communicate(timeout=WAIT)
    return process.returncode, out, err


def test_a_run_that_is_started_again(tmp_path: Path) -> None:
    """The log of a killed run gets another name, and its successor is followed."""
    path, made = tmp_path / "run.jsonl", synthetic_logs.made(steps=220)
    lines = [json.dumps(line) + "\n" for line in made.lines]
    path.write_text("".join(lines[:100]))
    process = start(path, "--every", "20ms", "--timeout", f"{WAIT:g}s")
    assert process.stderr is not None and process.stdout is not None
    assert process.stdout.readline().startswith("run: 4 ranks")
    path.rename(tmp_path / "run.1.jsonl")
    path.write_text("".join(lines))
    rest, errors = process.communicate(timeout=WAIT)
    assert process.returncode == 0, errors
    assert "the run was started again" in errors
    assert "run: 4 ranks" in rest and "the run was closed after 220 steps" in rest


def test_a_log_that_grows(tmp_path: Path) -> None:
    """It waits for the file, shows what comes while it comes, never reads half a line, and ends
    with the run."""
    path, made = tmp_path / "run.jsonl", synthetic_logs.made(steps=220)
    process = start(path, "--every", "20ms", "--timeout", f"{WAIT:g}s")
    assert process.stderr is not None and process.stdout is not None
    assert "waiting for" in process.stderr.readline()
    text = "".join(json.dumps(line) + "\n" for line in made.lines).encode()
    half = text.index(b'"slow"') - 20  # in the middle of a line
    path.write_bytes(text[:half])
    assert process.stdout.readline() == "run: 4 ranks, 2,500,000 parameters, pliant 0.1.0\n"
    assert "phase: fast" in process.stdout.readline()  # before the rest is there
    with path.open("ab") as file:
        file.write(text[half:])
    rest, errors = process.communicate(timeout=WAIT)
    assert process.returncode == 0, errors
    assert (
        "phase: slow" in rest
        and "step 100: network slower (50 Mbit/s): top 1 % (shared/star) instead of dense" in rest
    )
    assert (
        "warning: the exchange of step 120 was void" in rest
        and "the run was closed after 220 steps" in rest
    )
    assert "step 220; " in rest.splitlines()[-1] and "\x1b" not in rest


def test_once(tmp_path: Path) -> None:
    made = synthetic_logs.made()
    code, out, _ = run(made.write(tmp_path / "run.jsonl"), "--once", "--steps", 400)
    assert code == 0
    for part in (
        "step 300 of 400",
        "left",
        "link 9.",
        "1.41 GiB sent",
        "loss 0.",
        "plan: updates every 4, late 1, top 0.3 %",
        "why: network slower (50 Mbit/s): top 1 % (shared/star) instead of dense",
        "phase: worse",
        "was closed after 300 steps",
    ):
        assert part in out, part
    full = run(tmp_path / "run.jsonl", "--once", "--full")[1]
    assert f"plan: {synthetic_logs.UPDATES}" in full and "the link has become slow" in full
    made.lines.pop()
    assert (
        "the run goes on, or was killed"
        in run(made.write(tmp_path / "run.jsonl", tail='{"type": "st'), "--once")[1]
    )


def test_dense_steps_are_the_yardstick(tmp_path: Path) -> None:
    made = synthetic_logs.made(steps=90)
    for step in made.of("step"):
        step["link"] = {"latency": 1e-3, "latency_sd": 1e-5, "rate": 1e9, "rate_sd": 1e7}
        step |= {"whole": 0.45, "compute": 0.05, "exposed": 0.4}
    path = tmp_path / "run.jsonl"
    assert "than dense" not in run(made.write(path), "--once")[1], "all are dense"
    for step in made.of("step")[10:]:
        step |= {"plan": synthetic_logs.STAR, "whole": 0.1, "exposed": 0.05}
    assert "3.0 to 3.4x less than dense" in run(made.write(path), "--once")[1]


def test_a_run_that_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = synthetic_logs.made(steps=5)
    made.lines[-1] |= {"status": "failed", "error": "rank 3 is gone"}
    path = made.write(tmp_path / "run.jsonl")
    for arguments in ([str(path)], [str(path), "--once"]):
        assert watch.main(arguments) == 1
        assert "rank 3 is gone" in capsys.readouterr().out


def test_a_run_that_was_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = synthetic_logs.made(steps=5)
    made.lines[-1] |= {"status": "interrupted"}
    assert watch.main([str(made.write(tmp_path / "run.jsonl"))]) == 0
    assert "the run was interrupted after 5 steps" in capsys.readouterr().out


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = synthetic_logs.made(steps=5).write(tmp_path / "run.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "text.jsonl").write_text("hello\n")
    synthetic_logs.Made([synthetic_logs.header() | {"version": 3}]).write(tmp_path / "future.jsonl")
    cases: list[tuple[tuple[object, ...], int, str]] = [
        ((), 2, "run.jsonl"),
        ((tmp_path,), 2, "a folder"),
        ((tmp_path / "none.jsonl", "--once"), 2, "none.jsonl"),
        ((tmp_path / "none.jsonl", "--timeout", "10ms"), 124, "none.jsonl: is not there"),
        ((tmp_path / "empty.jsonl", "--once"), 2, "empty"),
        ((tmp_path / "empty.jsonl", "--timeout", "10ms"), 124, "no complete line"),
        ((tmp_path / "text.jsonl",), 2, "line 1: not JSON"),
        ((tmp_path / "future.jsonl",), 2, "version is 3"),
        ((good, "--timeout", "10"), 2, "write it as 30s"),
        ((good, "--every", "0s"), 2, "--every"),
        ((good, "--steps", "0"), 2, "no number of steps"),
        ((good, "--onse"), 2, "did you mean --once?"),
        ((good, good), 2, "run.jsonl"),
    ]
    for arguments, code, culprit in cases:
        found, said = watch.main([str(argument) for argument in arguments]), capsys.readouterr()
        assert found == code and culprit in said.err and "Traceback" not in said.err, (
            arguments,
            found,
            said,
        )


def test_a_log_that_falls_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = synthetic_logs.made(steps=5)
    made.lines.pop()
    assert (
        watch.main(
            [str(made.write(tmp_path / "run.jsonl")), "--timeout", "50ms", "--every", "10ms"]
        )
        == 124
    )
    said = capsys.readouterr()
    assert "no new line for 50 ms" in said.err and "step 5" in said.out


def in_a_terminal(path: Path, **environment: str) -> str:
    """What the command writes to a terminal of 100 columns."""
    command = [sys.executable, "-m", "pliant", "watch", str(path)]
    ours, theirs = pty.openpty()
    shown = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={
            **os.environ,
            "TERM": "xterm-256color",
            "COLUMNS": "100",
            "LINES": "50",
            **environment,
        },
    )
    os.close(theirs)
    out, deadline = b"", time.monotonic() + WAIT
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 1.0)[0]:
            continue
        try:
            data = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not data:
            break
        out += data
    assert shown.wait(WAIT) == 0
    os.close(ours)
    return out.decode()


def test_in_a_terminal(tmp_path: Path) -> None:
    evil = "[bold red]name[/] \x1b[31m\x1b]0;title\x07"
    path = synthetic_logs.made(evil, short=evil, reason=evil).write(tmp_path / "run.jsonl")
    colourful = in_a_terminal(path)
    for part in (
        "last decisions",
        "updates every 4, late 1, top 0.3 %",
        "the run was closed after 300 steps",
        "[bold red]name[/]",
        "a step",
        "link",
    ):
        assert part in colourful, part
    assert "\x1b[1;36m" in colourful and "\x1b]0;" not in colourful and "\x1b[31m" not in colourful
    plain = in_a_terminal(path, NO_COLOR="1")
    assert "last decisions" in plain and "\x1b[1;36m" not in plain and "\x1b[36m" not in plain


def test_interrupted(tmp_path: Path) -> None:
    made = synthetic_logs.made(steps=5)
    made.lines.pop()
    process = start(made.write(tmp_path / "run.jsonl"))
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(2)
    out, err = process.communicate(timeout=WAIT)
    assert process.returncode == 130 and "Traceback" not in err


def test_bars() -> None:
    assert (
        terminal_view.spark([1, 2, 3]) == "▁▄█"
        and terminal_view.spark([5.0, 5.0]) == "▁▁"
        and terminal_view.spark([]) == ""
    )
    assert len(terminal_view.spark(list(range(100)))) == 40


@pytest.mark.parametrize(
    ("text", "value"),
    [("500ms", 0.5), ("2s", 2.0), ("10min", 600.0), ("1h", 3600.0), ("1.5 s", 1.5)],
)
def test_durations(text: str, value: float) -> None:
    assert watch.seconds(text) == value
