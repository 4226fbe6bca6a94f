# SPDX-License-Identifier: MIT
"""The reader of run logs: every line becomes a value, and a log may end anywhere."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from pliant import runlog
from support import synthetic_logs
from support.reports import figures, report


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
        "worth",
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
