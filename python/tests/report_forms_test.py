# SPDX-License-Identifier: MIT
"""The other forms of a report: traces, TensorBoard's event files, pictures, charts."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pliant import runlog
from pliant.report import trace
from support import synthetic_logs
from support.reports import report
from support.synthetic_logs import Made


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
