# SPDX-License-Identifier: MIT
"""Comparison of the two runs, made from their logs: a table, the report, a picture, and the same
figures as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pliant import runlog
from pliant.demo.launch import Event, truth_path
from pliant.demo.progress import TITLES
from pliant.demo.settings import Settings
from pliant.report import figures as figures_of
from pliant.report import headline, picture, svg, verdict
from pliant.report import truth as truth_log
from pliant.report.figures import Comparison, Figures
from pliant.report.files import write_text
from pliant.tools import formatting

PLANS_SHOWN = 3


@dataclass(frozen=True)
class Row:
    what: str
    plain: str
    pliant: str
    ratio: str = ""


@dataclass(frozen=True)
class Outcome:
    verdict: str
    rows: list[Row]
    report: Path
    chart: Path
    figures: Path


def outcome(settings: Settings, done: Mapping[str, Event]) -> Outcome:
    """Reads the logs and writes report.html, chart.svg, headline.png (where matplotlib is) and
    figures.json beside them."""
    out = Path(settings.out)
    logs = [runlog.read(out / f"{name}.jsonl") for name in TITLES]
    truth = truth_log.read(truth_path(settings)) if truth_path(settings).exists() else None
    runs = [figures_of.of(log, truth) for log in logs]
    comparison = figures_of.compare(logs, runs)
    seconds = [log.seconds for log in logs]
    rows = _rows(runs, comparison, seconds, [done[name] for name in TITLES])
    from pliant.report.page import page  # plotly takes its time to load

    titles = list(TITLES.values())
    write_text(out / "report.html", page(logs, runs, comparison, truth, titles))
    chart = headline.of(logs, runs, comparison, truth, titles)
    write_text(out / "chart.svg", svg.text(chart))
    with suppress(picture.NoMatplotlib):
        picture.write(out / "headline.png", chart)
    sentence = " ".join(verdict.of_comparison(comparison, runs))
    write_text(
        out / "figures.json",
        json.dumps(
            {"verdict": sentence, "rows": [vars(row) for row in rows], "done": dict(done)}, indent=1
        )
        + "\n",
    )
    return Outcome(sentence, rows, out / "report.html", out / "chart.svg", out / "figures.json")


def _rows(
    runs: list[Figures], comparison: Comparison, seconds: list[float], done: list[Event]
) -> list[Row]:
    plain, ours = runs
    rows = []
    if comparison.target is not None:
        times = [goal.seconds for goal in comparison.goals]
        rows.append(
            _timed(
                f"time to {comparison.value} {formatting.number(comparison.target)}",
                times[0],
                times[1],
            )
        )
    rows.append(_timed("time in all", seconds[0], seconds[1]))
    stretches = {stretch.phase: stretch for stretch in ours.phases}
    for stretch in plain.phases:
        if (other := stretches.get(stretch.phase)) is not None:
            rows.append(_timed(f"  per step, {stretch.phase}", stretch.step_time, other.step_time))
    sent = [each["bytes"] for each in done]
    if None not in sent:
        rows.append(
            Row(
                "sent by host 0",
                formatting.size(sent[0]),
                formatting.size(sent[1]),
                _times(sent[0], sent[1]),
            )
        )
    rows.append(Row("accuracy in the end", *(f"{100 * each['accuracy']:.1f} %" for each in done)))
    rows.append(Row("loss in the end", *(f"{each['loss']:.3f}" for each in done)))
    rows.append(Row("plans", "dense", _plans(ours)))
    return rows


def _timed(what: str, plain: float | None, ours: float | None) -> Row:
    return Row(what, formatting.duration(plain), formatting.duration(ours), _times(plain, ours))


def _times(plain: float | None, ours: float | None) -> str:
    return formatting.times(plain / ours) if plain and ours else ""


def _plans(run: Figures) -> str:
    shown = [f"{formatting.percent(plan.share)} {plan.plan}" for plan in run.plans[:PLANS_SHOWN]]
    return "\n".join(
        shown
        + ([f"and {len(run.plans) - PLANS_SHOWN} more"] if len(run.plans) > PLANS_SHOWN else [])
    )
