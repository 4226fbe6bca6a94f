# SPDX-License-Identifier: MIT
"""The figures and words of `pliant report`, against the lines of the log that they come from."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest
from pliant import runlog
from pliant.report import figures as report_figures
from pliant.runlog import plan_text
from pliant.tools import formatting as words
from support import synthetic_logs
from support.reports import figures, report
from support.synthetic_logs import Made


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


def test_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = synthetic_logs.made()
    for step in made.of("step"):
        step |= {
            "plan": synthetic_logs.STAR,
            "dense_step": 3.4 * step["whole"] if step["whole"] else None,
            "predicted": 1.06 * step["seen"] if step["seen"] else None,
            "bytes": 5_000_000,
            "worth": 0.9,
        }
    assert report(made.write(tmp_path / "run.jsonl")) == 0
    assert (
        capsys.readouterr().out
        == "2.8 to 3.9x less time per step than dense would have taken; 100 % of steps used top 1 % (shared/star); prediction error 6 %. "
        "Train 1.03 to 1.18x as many steps to end where plain DDP ends (assumed); that is 2.4 to 3.8x sooner.\n"
    )
    for step in made.of("step"):
        step["worth"] = 1.0
    assert report(made.write(tmp_path / "run.jsonl")) == 0
    assert capsys.readouterr().out.endswith(
        "Train as many steps as plain DDP to end where plain DDP ends (assumed); that is 2.8 to 3.9x sooner.\n"
    )
    for step in made.of("step"):
        del step["worth"]
    assert report(made.write(tmp_path / "run.jsonl")) == 0
    assert capsys.readouterr().out.endswith("prediction error 6 %.\n"), "as an older log"
    for step in made.of("step"):
        step["dense_step"] = None if step["whole"] is None else step["whole"] / 2
    made.lines[-1] |= {"status": "failed", "error": "rank 3 is gone"}
    assert report(made.write(tmp_path / "run.jsonl")) == 0
    said = capsys.readouterr().out
    assert said.startswith("1.7 to 2.5x more time per step") and said.endswith(
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


def test_slow_first_steps_and_a_stall_do_not_flatter_a_run(tmp_path: Path) -> None:
    """Steps without an estimate count, with the nearest one; a few wrong words of the model do
    not."""
    made = synthetic_logs.made()
    timed = [step for step in made.of("step") if step["whole"]]
    for place, step in enumerate(timed):
        step |= {"plan": synthetic_logs.STAR, "whole": 0.1, "compute": 0.02, "bytes": 5_000_000}
        step |= {"dense_step": 1.0, "predicted": step["seen"]}
        if place < 10:
            step |= {"whole": 1.0, "dense_step": None}
        if 40 <= place < 48:
            step["dense_step"] = 20.0
    found = report_figures.of(runlog.read(made.write(tmp_path / "run.jsonl")))
    mean = sum(step["whole"] for step in timed) / len(timed)
    assert found.speed_up is not None and len(timed) > 60
    low, high = (mean * factor for factor in found.speed_up)
    assert low == pytest.approx(0.82) and high == pytest.approx(1.15)
