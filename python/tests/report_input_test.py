# SPDX-License-Identifier: MIT
"""Bad input to `pliant report`: it is refused by name, and nothing is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import synthetic_logs
from support.reports import report
from support.synthetic_logs import Made


def _changed(line: int, **keys: object) -> str:
    made = synthetic_logs.made(steps=5)
    made.lines[line] |= keys
    return "".join(json.dumps(each) + "\n" for each in made.lines)


HEADER = json.dumps(synthetic_logs.header()) + "\n"
BAD_LOGS = {
    "empty": ("", "empty"),
    "cut off in the header": (HEADER[:40], "line 1"),
    "not JSON": ("step,time\n1,2\n", "line 1: not JSON"),
    "not JSON later": (
        HEADER + "{'type': 'step'}\n" + '{"type": "note", "t": 1}\n',
        "line 2: not JSON",
    ),
    "binary": ("\x00\x01\ufffe\n", "line 1"),
    "not an object": ("[1, 2]\n", "line 1"),
    "another format": (
        json.dumps(synthetic_logs.header() | {"format": "pliant-lab-truth"}) + "\n",
        "pliant-lab-truth",
    ),
    "no header": (HEADER.replace("header", "step"), "line 1"),
    "a future version": (
        json.dumps(synthetic_logs.header() | {"version": 2}) + "\n",
        "version is 2",
    ),
    "a version that is no number": (
        json.dumps(synthetic_logs.header() | {"version": True}) + "\n",
        "version is true",
    ),
    "no name": (
        json.dumps({key: value for key, value in synthetic_logs.header().items() if key != "name"})
        + "\n",
        "'name' is missing",
    ),
    "two headers": (HEADER + HEADER, "line 2: a second header"),
    "a text for a number": (_changed(3, whole="fast"), "line 4: 'whole' is \"fast\", not a number"),
    "a plan that is no text": (_changed(3, plan=7), "line 4: 'plan' is 7"),
    "a step of -1": (_changed(3, step=-1), "line 4: 'step' is -1"),
    "no t": (
        HEADER + '{"type": "note", "step": 1, "values": {}}\n',
        "line 2: the key 't' is missing",
    ),
    "a noted text": (
        HEADER + '{"type": "note", "t": 1, "step": 1, "values": {"loss": "low"}}\n',
        "'loss' in 'values'",
    ),
    "exchanges that are none": (_changed(3, exchanges=[3]), "line 4: 'exchanges'"),
    "deep": (HEADER + "[" * 100_000 + "\n", "line 2"),
}


@pytest.mark.parametrize("name", BAD_LOGS)
def test_what_is_no_run_log_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, culprit = BAD_LOGS[name]
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    assert report(path, "-o", tmp_path / "page.html") == 2
    said = capsys.readouterr().err
    assert "bad.jsonl" in said and culprit in said and said.count("\n") == 1, said
    assert sorted(os.listdir(tmp_path)) == ["bad.jsonl"]


def test_bad_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = synthetic_logs.made(steps=5).write(tmp_path / "run.jsonl")
    truth = synthetic_logs.truth_of(synthetic_logs.made(steps=5)).write(tmp_path / "truth.jsonl")
    (tmp_path / "folder").mkdir()
    (tmp_path / "old").mkdir()
    (tmp_path / "old/run").mkdir()
    future = Made(
        [
            truth_header | {"version": 9}
            for truth_header in synthetic_logs.truth_of(synthetic_logs.made(steps=5)).of("header")
        ]
    ).write(tmp_path / "future.jsonl")
    page = tmp_path / "page.html"
    cases: list[tuple[list[object], str]] = [
        ([], "run.jsonl"),
        ([tmp_path / "none.jsonl"], "none.jsonl"),
        ([tmp_path / "folder"], "folder"),
        ([log, log], "run.jsonl is given twice"),
        ([log, tmp_path / "folder/../run.jsonl"], "given twice"),
        ([log, "--tuth", truth], "did you mean --truth?"),
        ([log, "--truth", tmp_path / "none.jsonl"], "none.jsonl"),
        ([log, "--truth", future], "version is 9"),
        ([truth], "pliant-lab-truth"),
        ([log, "--truth", log], "given twice"),
        ([log, "-o", tmp_path / "no/where.html"], "no/where.html"),
        ([log, "-o", tmp_path / "folder"], "folder"),
        ([log, "-o", ""], "folder"),
        ([log, "-o", log], "run.jsonl would be written over"),
        ([log, "-o", page, "--png", page], "written twice"),
        ([log, "-o", page, "--svg", page], "written twice"),
        ([log, "--svg", tmp_path / "no/chart.svg"], "no/chart.svg"),
        ([log, "--svg", tmp_path / "folder"], "folder"),
        ([log, "--trace", tmp_path / "no/trace.json"], "trace.json"),
        ([log, "--tensorboard", log], "a file, not a folder"),
        ([log, "--tensorboard", tmp_path / "old"], "exists already"),
        ([log, "--md", "--json"], "choose one"),
        ([log, "-o"], "-o"),
    ]
    before = sorted(os.listdir(tmp_path))
    for arguments, culprit in cases:
        assert report(*arguments) == 2, arguments
        said = capsys.readouterr()
        assert culprit in said.err and said.out == "" and said.err.count("\n") == 1, (
            arguments,
            said,
        )
    assert sorted(os.listdir(tmp_path)) == before
    assert log.read_text().startswith('{"type": "header"')


def test_a_truth_log_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = synthetic_logs.made(steps=5).write(tmp_path / "run.jsonl")
    header = json.dumps(synthetic_logs.truth_of(synthetic_logs.made(steps=5)).lines[0]) + "\n"
    for text in (
        "",
        "{",
        "nonsense\n",
        header + '{"type": "link", "mono": 1, "host": 0, "link": {}}\n',
        header + '{"type": "link", "host": 0}\n',
        header + "[]\n",
    ):
        (tmp_path / "truth.jsonl").write_text(text)
        assert report(log, "--truth", tmp_path / "truth.jsonl") == 2
        assert "truth.jsonl" in capsys.readouterr().err


def test_what_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = synthetic_logs.made(steps=5).write(tmp_path / "run.jsonl")

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device", "page.html")

    monkeypatch.setattr(Path, "write_text", full)
    assert report(log, "-o", tmp_path / "page.html") == 2
    assert "No space left" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["run.jsonl"]


@pytest.mark.parametrize(
    ("option", "module"), [("--tensorboard", "tensorboard"), ("--png", "matplotlib")]
)
def test_what_is_missing_is_said(option: str, module: str, tmp_path: Path) -> None:
    log = synthetic_logs.made(steps=5).write(tmp_path / "run.jsonl")
    hide = f"import sys; sys.modules['{module}'] = None; from pliant.report import cli; sys.exit(cli.main(sys.argv[1:]))"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            hide,
            str(log),
            option,
            str(tmp_path / "out"),
            "-o",
            str(tmp_path / "page.html"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (
        done.returncode == 6
        and f"pip install {module}" in done.stderr
        and "Traceback" not in done.stderr
    ), done
    assert os.listdir(tmp_path) == ["run.jsonl"]


def test_from_the_command_line(tmp_path: Path) -> None:
    log = synthetic_logs.made(steps=5).write(tmp_path / "run.jsonl")

    def pliant(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pliant", "report", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    good = pliant(log, "-o", tmp_path / "page.html")
    assert (good.returncode, good.stdout.count("\n")) == (0, 1), good
    assert (tmp_path / "page.html").stat().st_size > 1_000_000  # plotly is inside
    bad = pliant(tmp_path / "none.jsonl")
    assert bad.returncode == 2 and "none.jsonl" in bad.stderr and "Traceback" not in bad.stderr
    assert "--tensorboard" in pliant("--help").stdout
