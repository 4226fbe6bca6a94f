# SPDX-License-Identifier: MIT
"""Run logs become figures, words, tables, traces, event files and pictures; what is no run log is
refused by name."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from statistics import fmean, median
from typing import Any
from xml.etree import ElementTree

import pytest
from pliant import runlog
from pliant.report import cli, trace
from pliant.runlog import plan_text
from pliant.tools import formatting as words
from support import synthetic_logs
from support.synthetic_logs import Made


def report(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def figures(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    assert report(*arguments, "--json") == 0
    out: dict[str, object] = json.loads(capsys.readouterr().out)
    return out


# The reader.


def test_a_link_may_be_too_fast_to_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = synthetic_logs.made()
    for line in made.of("step"):
        if line["link"]:
            line["link"] |= {"rate": 289e9, "rate_sd": 237 * 289e9}
    path = made.write(tmp_path / "run.jsonl")
    found = figures(capsys, path)["runs"]
    assert found[0]["rate"] is None and found[0]["latency"] > 0  # type: ignore[index]
    assert report(path) == 0
    out = capsys.readouterr().out
    assert "289 Gbit/s" not in out
    page = tmp_path / "run.html"
    assert report(path, "-o", page) == 0
    assert "too fast to tell" in page.read_text()


def test_every_line_is_read(tmp_path: Path) -> None:
    made = synthetic_logs.made()
    log = runlog.read(made.write(tmp_path / "run.jsonl"))
    assert (log.header.name, log.header.world, log.header.buckets) == (
        "run",
        4,
        [2_000_000, 500_000],
    )
    for lines, kind in (
        (log.steps, "step"),
        (log.decisions, "decision"),
        (log.notes, "note"),
        (log.phases, "phase"),
        (log.messages, "message"),
    ):
        assert [line.t for line in lines] == [line["t"] for line in made.of(kind)] and lines, kind
    step, line = log.steps[210], made.of("step")[210]
    for key in (
        "step",
        "plan",
        "epoch",
        "round",
        "whole",
        "compute",
        "exposed",
        "coding",
        "predicted",
        "seen",
        "bytes",
        "control_bytes",
        "dense_step",
        "updated",
        "gain",
        "residual_ratio",
        "void",
    ):
        assert getattr(step, key) == line[key], key
    assert step.link is not None and vars(step.link) == line["link"]
    assert [vars(each) for each in log.steps[3].exchanges] == made.of("step")[3]["exchanges"] != []
    decision, line = log.decisions[-1], made.of("decision")[-1]
    assert (decision.before, decision.changed, decision.reason, decision.candidates) == (
        line["from"],
        True,
        line["reason"],
        1234,
    )
    assert (
        [vars(each) for each in decision.front] == line["front"]
        and decision.chosen is not None
        and vars(decision.chosen) == line["chosen"]
    )
    assert log.notes[5].values == made.of("note")[5]["values"]
    assert log.end is not None and (log.end.status, log.end.step) == ("closed", 300)


def test_an_incomplete_last_line_and_what_is_not_known_are_passed_over(tmp_path: Path) -> None:
    made = synthetic_logs.made(steps=5)
    made.lines[1] |= {"new_key": [1, 2]}
    made.lines.insert(2, {"type": "weather", "t": 0.1, "rain": True})
    whole = runlog.read(made.write(tmp_path / "whole.jsonl"))
    cut = runlog.read(made.write(tmp_path / "cut.jsonl", tail='{"type": "step", "t": 9.0, "st'))
    assert len(whole.steps) == len(cut.steps) == 5


def test_a_log_may_end_anywhere(tmp_path: Path) -> None:
    text = synthetic_logs.made(steps=6).write(tmp_path / "run.jsonl").read_bytes()
    first = text.index(b"\n") + 1
    for end in range(first, len(text), 37):
        (tmp_path / "cut.jsonl").write_bytes(text[:end])
        assert report(tmp_path / "cut.jsonl") == 0


def test_values_that_are_not_finite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = synthetic_logs.made(steps=30)
    made.of("note")[-1]["values"]["loss"] = math.nan
    made.of("note")[-2]["values"]["loss"] = None
    made.of("step")[7]["gain"] = math.inf
    out = figures(capsys, made.write(tmp_path / "run.jsonl"), "-o", tmp_path / "page.html")
    assert out["runs"][0]["notes"]["loss"]["not_finite"] == 2  # type: ignore[index]
    assert "2 times not finite" in (tmp_path / "page.html").read_text()


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


# What somebody typed.


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


# Figures and words.


def test_figures_are_the_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = synthetic_logs.made()
    truth = synthetic_logs.truth_of(made).write(tmp_path / "truth.jsonl")
    run = figures(capsys, made.write(tmp_path / "run.jsonl"), "--truth", truth)["runs"][0]  # type: ignore[index]
    steps = made.of("step")
    counted = [
        step for step in steps if step["whole"] is not None and step["step"] != 150
    ]  # 150 evaluates for 3 s
    assert (
        run["steps"],
        run["pauses"],
        run["voids"],
        run["warnings"],
        run["decisions"],
        run["changes"],
        run["trials"],
    ) == (300, 1, 1, 1, 5, 2, 1)
    assert run["step_time"] == pytest.approx(fmean(step["whole"] for step in counted))
    assert run["exposed"] == pytest.approx(fmean(step["exposed"] for step in counted))
    # The first 100 steps are dense; the later networks are others, and their exchanges are small.
    assert run["dense_known"] == pytest.approx(100 / len(counted)) and run["speed_up"] is None
    assert run["dense_step_time"] == pytest.approx(fmean(step["whole"] for step in counted[:100]))
    assert run["prediction_error"] == pytest.approx(
        median(
            abs(step["predicted"] - step["seen"]) / step["seen"]
            for step in steps
            if step["predicted"] and step["seen"]
        )
    )
    assert run["bytes"] == sum(step["bytes"] for step in steps)
    assert [(each["plan"], each["steps"]) for each in run["plans"]] == [
        ("dense", 100),
        ("top 1 % (shared/star)", 100),
        ("updates every 4, late 1, top 0.3 %", 100),
    ]
    assert run["notes"]["loss"]["last"] == made.of("note")[-1]["values"]["loss"]
    assert [(each["phase"], each["rate_true"], each["latency_true"]) for each in run["phases"]] == [
        ("fast", 1e9, 1e-3),
        ("slow", 50e6, 20e-3),
        ("worse", 10e6, 40e-3),
    ]
    errors = [
        abs(step["link"]["rate"] - rate) / rate
        for step in steps
        if step["link"]
        for rate in [synthetic_logs.PHASES[step["step"] // 100 * 100][2]]
    ]
    assert run["rate_error"] == pytest.approx(
        median(errors), rel=0.02
    )  # a line is written after its step: one or two lie across a change
    assert 0 < run["latency_error"] < 0.2


def test_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = synthetic_logs.made()
    for step in made.of("step"):
        step |= {
            "plan": synthetic_logs.STAR,
            "dense_step": 3.4 * step["whole"] if step["whole"] else None,
            "predicted": 1.06 * step["seen"] if step["seen"] else None,
            "bytes": 5_000_000,
        }
    assert report(made.write(tmp_path / "run.jsonl")) == 0
    assert (
        capsys.readouterr().out
        == "2.8 to 3.9x less time per step than dense would have taken; 100 % of steps used top 1 % (shared/star); prediction error 6 %.\n"
    )
    for step in made.of("step"):
        step["dense_step"] = None if step["whole"] is None else step["whole"] / 2
    made.lines[-1] |= {"status": "failed", "error": "rank 3 is gone"}
    assert report(made.write(tmp_path / "run.jsonl")) == 0
    said = capsys.readouterr().out
    assert said.startswith("1.7 to 2.4x more time per step") and said.endswith(
        "The run failed: rank 3 is gone\n"
    )
    made.lines[-1] |= {"status": "interrupted", "error": None}
    assert report(made.write(tmp_path / "run.jsonl")) == 0
    assert capsys.readouterr().out.endswith("The run was interrupted.\n")
    assert report(Made([synthetic_logs.header()]).write(tmp_path / "run.jsonl")) == 0
    assert (
        capsys.readouterr().out
        == "No step was logged. The log has no end: the run goes on, or was killed.\n"
    )


def _told(made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert report(made.write(tmp_path / "run.jsonl")) == 0
    return capsys.readouterr().out


def test_dense_is_compared_only_where_it_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Dense steps of the same network are the yardstick. The model's word counts only if exchanges
    were large, well predicted, and the link is known."""
    link = {"latency": 0.005, "latency_sd": 0.0001, "rate": 1e8, "rate_sd": 2e6}
    known = {"link": link, "seen": 0.1, "predicted": 0.1, "bytes": 5_000_000, "dense_step": 0.6}
    times = {"whole": 0.1, "compute": 0.05, "exposed": 0.05, "plan": synthetic_logs.STAR}

    def made(**more: Any) -> Made:
        out = synthetic_logs.made(steps=40)
        for step in out.of("step"):
            step |= known | times | more
        return out

    unknown = "100 ms per step; too little is known to say what dense would have taken"
    assert _told(made(), tmp_path, capsys).startswith("4.9 to 6.9x less time per step")
    assert _told(made(bytes=50_000), tmp_path, capsys).startswith(unknown)
    assert _told(made(predicted=0.2), tmp_path, capsys).startswith(unknown)
    assert _told(made(link=link | {"rate_sd": 4e7}), tmp_path, capsys).startswith(unknown)
    assert _told(made(dense_step=None), tmp_path, capsys).startswith(unknown)

    measured = made(bytes=50_000)  # no word of the model's
    for step in measured.of("step")[:5]:
        step |= {"plan": synthetic_logs.DENSE, "whole": 0.45, "exposed": 0.4}
    assert _told(measured, tmp_path, capsys).startswith("2.9 to 3.3x less time per step")
    for step in measured.of("step")[5:]:
        step |= {"link": link | {"rate": 1e7}}  # another network
    assert _told(measured, tmp_path, capsys).startswith("144 ms per step; too little is known")

    dense = made(plan=synthetic_logs.DENSE)
    assert _told(dense, tmp_path, capsys) == "100 ms per step, all of them dense.\n"


def test_runs_are_compared_by_time_to_the_same_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def curve(name: str, seconds_a_step: float, lowest: float) -> Path:
        notes = [
            {
                "type": "note",
                "t": seconds_a_step * (step + 1),
                "step": step,
                "values": {"loss": max(lowest, 1 - step / 100)},
            }
            for step in range(100)
        ]
        return Made([synthetic_logs.header(name), *notes]).write(tmp_path / f"{name}.jsonl")

    plain, quick = curve("plain", 4.0, 0.5), curve("quick", 1.0, 0.2)
    comparison = figures(capsys, plain, quick)["comparison"]
    assert isinstance(comparison, dict) and comparison["value"] == "loss"
    # The mean of the last 5 reaches 0.5, the worse of the two best, 4 steps after the value itself
    # in plain and 2 in quick.
    assert comparison["target"] == pytest.approx(0.5)
    assert [goal["step"] for goal in comparison["goals"]] == [54, 52]
    assert comparison["sooner"] == [1.0, pytest.approx(55 * 4 / 53)]
    assert report(plain, quick) == 0
    assert "quick reached loss 0.5 in 53 s, plain in 220 s: 4.2x sooner." in capsys.readouterr().out


def test_markdown_shows_names_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = synthetic_logs.made("<img src=x> | `a` **b** [c](d)\n# e \x1b[31m", steps=5).write(
        tmp_path / "run.jsonl"
    )
    assert report(log, "--md") == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said and "<img" not in said.replace("\\<img", "")
    rows = [line for line in said.splitlines() if line.startswith("|")]
    assert len(rows) > 10 and all(row.replace("\\|", "").count("|") == 3 for row in rows[2:])


@pytest.mark.parametrize(
    ("plan", "label"),
    [  # the same rows as in pliant/plan/label_test.cc
        ("gradients dense", "dense"),
        ("gradients union density=10%", "top 10 %"),
        ("gradients srs density=0.3%", "top 0.3 % (srs)"),
        ("gradients srs density=100%", "all (srs)"),
        ("gradients shared/var density=1%", "top 1 % (shared/var)"),
        ("updates every=1 late=0 dense", "updates, dense"),
        ("updates every=4 late=0 union density=3%", "updates every 4, top 3 %"),
        ("updates every=4 late=2 union density=3%", "updates every 4, late 2, top 3 %"),
    ],
)
def test_labels_of_plans(plan: str, label: str) -> None:
    assert plan_text.label(plan) == label


def test_words() -> None:
    assert plan_text.density(synthetic_logs.STAR) == 1.0
    assert (
        plan_text.label(synthetic_logs.DENSE) == "dense"
        and plan_text.density(synthetic_logs.DENSE) == 100.0
    )
    assert plan_text.density("gradients union density=<b>") is None
    assert [words.duration(value) for value in (0.0, 1.5e-5, 0.0123, 1.5, 599.0, 7200.0)] == [
        "0 s",
        "15 us",
        "12.3 ms",
        "1.5 s",
        "599 s",
        "120 min",
    ]
    assert [words.size(value) for value in (0, 1023, 1536, 2**21, 3 * 2**30)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "2 MiB",
        "3 GiB",
    ]
    assert [words.percent(value) for value in (0.0, 0.0634, 0.0999, 0.712, 1.0)] == [
        "0 %",
        "6.3 %",
        "10 %",
        "71 %",
        "100 %",
    ]
    assert words.plain("a\x1b[2Jb\n\u202ec") == "a\ufffd[2Jb \ufffdc"


# The other forms.


def test_the_trace(tmp_path: Path) -> None:
    made = [
        synthetic_logs.made("rank-0"),
        synthetic_logs.made(
            "rank-1", rank=1, mono=synthetic_logs.MONO + 0.25, started=synthetic_logs.STARTED + 0.25
        ),
    ]
    paths = [each.write(tmp_path / f"{index}.jsonl") for index, each in enumerate(made)]
    assert report(*paths, "--trace", tmp_path / "trace.json") == 0
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {
        (event["pid"], event.get("tid")): event["args"]["name"]
        for event in events
        if event["ph"] == "M"
    }
    assert names == {
        (rank, tid): name
        for rank in (0, 1)
        for tid, name in (
            (None, f"rank-{rank}, rank {rank}"),
            (0, "training thread"),
            (1, "lane 0"),
            (2, "lane 1"),
        )
    }
    slices = [event for event in events if event["ph"] == "X"]
    for rank, each in enumerate(made):
        steps = [event for event in slices if event["pid"] == rank and event["cat"] == "step"]
        assert [event["dur"] for event in steps] == pytest.approx(
            [1e6 * step["whole"] for step in each.of("step") if step["whole"] is not None], abs=1e-2
        )
        wire = [
            event for event in slices if event["pid"] == rank and event["name"] == "on the wire"
        ]
        spans = [span for step in each.of("step") for span in step["exchanges"]]
        assert sorted(event["ts"] for event in wire) == pytest.approx(
            sorted(1e6 * (span["enter"] + 0.25 * rank) for span in spans), abs=1e-2
        )
        assert {event["tid"] for event in wire} == {1, 2}
    for thread in {(event["pid"], event["tid"]) for event in slices}:
        mine = sorted(
            (event["ts"], event["ts"] + event["dur"])
            for event in slices
            if (event["pid"], event["tid"]) == thread
        )
        assert all(
            end <= begin + 0.01 for (_, end), (begin, _) in zip(mine, mine[1:], strict=False)
        ), thread
    assert {"plan: top 1 % (shared/star)", "phase: slow"} <= {
        event["name"] for event in events if event["ph"] == "i"
    }


def test_steps_are_placed_where_they_were(tmp_path: Path) -> None:
    made = synthetic_logs.made(steps=50)
    log = runlog.read(made.write(tmp_path / "run.jsonl"))
    begins = trace.begins(log.steps)
    # The log was made with the first step at 0.05 s; every line was written 1 ms after its step.
    assert begins[0] == pytest.approx(0.05, abs=2e-3)
    assert all(
        begin <= each.begin
        for step, begin in zip(log.steps, begins, strict=True)
        for each in step.exchanges
    )


def test_two_runs_are_two_processes(tmp_path: Path) -> None:
    a, b = (
        synthetic_logs.made("a", steps=5).write(tmp_path / "a.jsonl"),
        synthetic_logs.made("b", steps=5, started=9e8).write(tmp_path / "b.jsonl"),
    )
    logs = [runlog.read(a), runlog.read(b)]
    assert (trace.processes(logs), trace.shifts(logs)) == ([0, 4], [0.0, 0.0])


def test_tensorboard_reads_it(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    made = synthetic_logs.made("../up & <b>", steps=40)
    assert report(made.write(tmp_path / "run.jsonl"), "--tensorboard", tmp_path / "events") == 0
    (folder,) = (tmp_path / "events").iterdir()
    assert folder.name == "up-b"
    events = accumulator.EventAccumulator(str(folder), {"scalars": 0})
    events.Reload()
    loss = events.Scalars("noted/loss")
    assert [event.value for event in loss] == pytest.approx(
        [note["values"]["loss"] for note in made.of("note")], rel=1e-6
    )
    assert [event.step for event in loss] == [note["step"] for note in made.of("note")]
    whole = events.Scalars("step/whole")
    assert [event.value for event in whole] == pytest.approx(
        [step["whole"] for step in made.of("step") if step["whole"]], rel=1e-6
    )
    assert whole[0].wall_time == pytest.approx(synthetic_logs.STARTED + made.of("step")[0]["t"])


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


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = synthetic_logs.made("$\\frac{1}{2}$ <b>")
    truth = synthetic_logs.truth_of(made).write(tmp_path / "truth.jsonl")
    assert (
        report(made.write(tmp_path / "run.jsonl"), "--truth", truth, "--png", tmp_path / "run.png")
        == 0
    )
    picture = (tmp_path / "run.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and int.from_bytes(picture[16:20], "big") == 1400
    assert (
        report(
            Made([synthetic_logs.header()]).write(tmp_path / "bare.jsonl"),
            "--png",
            tmp_path / "bare.png",
        )
        == 0
    )
    assert len((tmp_path / "bare.png").read_bytes()) < len(picture)


def _words_of(chart: Path) -> str:
    """What people read in it. It must be well-formed XML."""
    root = ElementTree.parse(chart).getroot()
    texts = root.iter("{http://www.w3.org/2000/svg}text")
    return "\n".join("".join(text.itertext()) for text in texts)


def test_the_chart_says_who_was_sooner_and_what_was_sent(tmp_path: Path) -> None:
    """Every line has a label: the runs, the network of each, the plans of the one that changed
    them."""
    slow, quick = synthetic_logs.made("<slow> & co"), synthetic_logs.made("quick")
    for step in slow.of("step"):
        step["plan"] = synthetic_logs.DENSE
    for line in slow.lines:
        line["t"] *= 5
    truth = synthetic_logs.truth_of(quick).write(tmp_path / "truth.jsonl")
    paths = [each.write(tmp_path / f"{number}.jsonl") for number, each in enumerate((slow, quick))]
    assert report(*paths, "--truth", truth, "--svg", tmp_path / "chart.svg") == 0
    words = _words_of(tmp_path / "chart.svg")
    for part in (
        "quick reached loss",
        "5.0x sooner",
        "<slow> & co",
        "network during <slow> & co",
        "network during quick",
        "what quick sent",
        "1  all gradients, every step",
        "2  top 1 % of gradients, every step",
        "3  top 0.3 % of updates, every 4 steps, landing 1 step later",
    ):
        assert part in words, part
    assert "what <slow> & co sent" not in words, "all dense: nothing to tell"
    assert (tmp_path / "chart.svg").stat().st_size < 40_000
    assert "prefers-color-scheme: dark" in (tmp_path / "chart.svg").read_text()


@pytest.mark.parametrize("what", ["no truth", "no notes", "no step", "NaN"])
def test_the_chart_of_a_log_that_knows_little(what: str, tmp_path: Path) -> None:
    made = synthetic_logs.made(steps=120)
    if what == "no notes":
        made.lines = [line for line in made.lines if line["type"] != "note"]
    elif what == "no step":
        made.lines = made.lines[:1]
    elif what == "NaN":
        for note in made.of("note"):
            note["values"] = {"loss": None}
    log = made.write(tmp_path / "run.jsonl")
    assert report(log, "--svg", tmp_path / "chart.svg", "-o", tmp_path / "page.html") == 0
    words = _words_of(tmp_path / "chart.svg")
    if what == "no step":
        assert "No step was logged" in words
    else:
        assert "network (estimated)" in words and "what run sent" in words
        curves = "loss" if what == "no truth" else "step time"
        assert any(line.startswith(curves) for line in words.splitlines())


def test_the_chart_of_a_link_that_is_too_fast_to_tell(tmp_path: Path) -> None:
    made = synthetic_logs.made(steps=120)
    for step in made.of("step"):
        if step["link"] is not None and step["step"] < 60:
            step["link"] |= {"rate": 8e11, "rate_sd": 1e14}
    log = made.write(tmp_path / "run.jsonl")
    assert report(log, "--svg", tmp_path / "chart.svg") == 0
    words = _words_of(tmp_path / "chart.svg")
    assert "too fast to tell" in words and "800 Gbit/s" not in words, words


def test_a_trial_is_no_change(tmp_path: Path) -> None:
    """As the engine writes them: `changed` on the first decision, and on the way back from a
    trial."""
    made = synthetic_logs.made(steps=60)
    first, kept, tried = made.of("decision")
    first["changed"] = True
    made.lines.insert(
        made.lines.index(tried) + 1, kept | {"from": synthetic_logs.STAR, "changed": True}
    )
    assert runlog.read(made.write(tmp_path / "run.jsonl")).moves() == [
        "first",
        "kept",
        "trial",
        "kept",
    ]
