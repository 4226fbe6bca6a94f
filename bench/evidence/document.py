# SPDX-License-Identifier: MIT
"""docs/results.md: a picture, three sentences, tables, method, limits, how to repeat. Every number
comes from the runs."""

from __future__ import annotations

import math
import re
import textwrap
import statistics
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import figures
from evidence import kept, picture, published
from evidence.judge import TARGETS, Judge
from evidence.seen import Seen
from evidence.study import Study

Records = Mapping[Study, kept.Record]
Wanted = Mapping[Study, Collection[str]]  # the methods of each study


def rows(record: kept.Record) -> list[dict[str, object]]:
    """One per method: median times to the targets, accuracy, time in all, and what else it did."""
    judge = Judge(record.curves)
    return [
        _row(judge, method, record.seen) for method in dict.fromkeys(m for m, _ in record.curves)
    ]


def _finite(seconds: float) -> float | None:
    return None if math.isinf(seconds) else seconds


def _row(judge: Judge, method: str, seen: Mapping[tuple[str, int], Seen]) -> dict[str, object]:
    what = [seen[method, seed] for seed in judge.seeds]
    sent = [one.sent for one in what if one.sent is not None]
    changes = [one.changes for one in what if one.changes is not None]
    errors = [error for one in what for error in one.errors]
    curves = [judge.curves[method, seed] for seed in judge.seeds]
    return {
        "method": method,
        "seconds_to_targets": [_finite(t) for t in judge.median_times(method)],
        "seconds_to_accuracy": _finite(
            statistics.median(judge.time_to_accuracy(method, seed) for seed in judge.seeds)
        ),
        "over_ddp": statistics.median(judge.speedups("ddp", method)),
        "worth": judge.worth(method),
        "accuracy": statistics.median(judge.final_accuracy(method, seed) for seed in judge.seeds),
        "accuracy_when_ddp_ends": statistics.median(
            curve.at_time(judge.curves["ddp", seed].times[-1])[1]
            for seed, curve in zip(judge.seeds, curves, strict=True)
        ),
        "seconds": statistics.median(judge.whole(method, seed) for seed in judge.seeds),
        "bytes_a_step": statistics.median(sent) if sent else None,
        "exposed": statistics.median(one.exposed for one in what),
        "changes": statistics.median(changes) if changes else None,
        "prediction_error": statistics.median(errors) if errors else None,
    }


def missing(wanted: Wanted, records: Records) -> dict[str, list[str]]:
    """What has not run, by study: methods, and those that were late and have not trained on."""
    said: dict[str, list[str]] = {}
    for study, methods in wanted.items():
        if study not in records:
            said[study.name] = list(methods)
            continue
        judge = Judge(records[study].curves)
        failed = {what.partition(",")[0] for what in records[study].failures}
        first = judge.seeds[0]
        absent = [m for m in methods if m not in failed and (m, first) not in judge.curves]
        short = [
            f"{m}, longer"
            for m in judge.late()
            if m not in failed and judge.curves[m, first].steps[-1] == judge.length
        ]
        if absent or short:
            said[study.name] = absent + short
    return said


def write(
    docs: Path,
    wanted: Wanted,
    records: Records,
    found: Sequence[figures.Figure],
    missed: Sequence[str],
) -> None:
    headline = next(iter(records), None)  # studies come in the order of what they tell
    if headline is not None:
        (docs / "images").mkdir(parents=True, exist_ok=True)
        (docs / "images" / "results.svg").write_text(
            picture.of(Judge(records[headline].curves), headline.name)
        )
    by_name = {figure.name: figure for figure in found}
    parts = [
        "# Results\n",
        f"![loss over time, {headline.name}](images/results.svg)\n" if headline else "",
        _sentences(by_name),
        "## Figures\n\n"
        + _markdown(
            ["figure", "median", "10 %", "90 %", "unit"],
            [[f.name, f.value, f.low, f.high, f.unit] for f in found],
        ),
        "Missed: " + ("; ".join(missed) if missed else "nothing") + ".\n",
        "".join(
            f"* `{name}`: {why}\n"
            for name, why in REASONS.items()
            if any(words.startswith(f"{name} ") for words in missed)
        ),
        "## Every method\n\nSeconds to plain DDP's own loss at "
        + ", ".join(f"{100 * t:.0f} %" for t in TARGETS)
        + " of its steps, and to its accuracy at the last of them; medians over seeds; `-`: never. *Worth*: "
        "of a step, in DDP's: steps to the targets. *kB a step*: sent by rank 0's host. *Exposed*: "
        "share of the time that is not compute. *Prediction error*: of an exchange's time, median. "
        "Every run: `docs/results/`.\n",
        *(_study(study.name, rows(record)) for study, record in records.items()),
        "## What was chosen\n\nShare of steps, over all seeds.\n\n" + _chosen(records),
        _published(),
        METHOD + _days(records) + _missing(missing(wanted, records)) + _checks(records),
        _failures(records),
    ]
    (docs / "results.md").write_text(_wrapped("\n".join(part for part in parts if part)) + "\n")


def _wrapped(markdown: str) -> str:
    """Prose at 100 columns; tables and headings as they are."""
    lines = []
    for line in markdown.split("\n"):
        bullet = re.match(r"\s*(?:[*-] |\d+\. )?", line)
        indent = " " * len(bullet.group()) if bullet else ""
        prose = not line.lstrip().startswith(("|", "#", "<", "!["))
        lines += (
            textwrap.wrap(
                line, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
            if prose and len(line) > 100
            else [line]
        )
    return "\n".join(lines)


def _sentences(found: Mapping[str, figures.Figure]) -> str:
    def told(name: str, words: str) -> str:
        figure = found.get(name)
        return (
            words.format(f"{figure.value:.2g}", f"{figure.low:.2g} to {figure.high:.2g}")
            if figure
            else ""
        )

    lines = [
        told(
            "tta_over_ddp/c1",
            "On a network that changes as C1 does, with communication five times compute, training "
            "reaches the loss of plain DDP {}x sooner ({}).",
        ),
        told(
            "tta_over_best_peer/c1",
            "Against the best of fp16, PowerSGD, local SGD, accumulation and the published system "
            "it is {}x ({}).",
        ),
        told(
            "accuracy_delta",
            "After the same number of steps accuracy is {} points from plain DDP's ({}).",
        ),
    ]
    return " ".join(line for line in lines if line) + "\n"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    def cell(value: object) -> str:
        return value if isinstance(value, str) else "-" if value is None else f"{value:.3g}"

    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(cell, row)) + " |" for row in rows]) + "\n"


def _study(name: str, rows: Sequence[Mapping[str, object]]) -> str:
    ordered = sorted(rows, key=lambda row: -float(str(row["over_ddp"])))
    body = []
    for row in ordered:
        accuracies = [100 * float(str(row[key])) for key in ("accuracy", "accuracy_when_ddp_ends")]
        sent = None if row["bytes_a_step"] is None else float(str(row["bytes_a_step"])) / 1e3
        targets = list(row["seconds_to_targets"])  # type: ignore[call-overload]
        body.append(
            [
                f"`{row['method']}`",
                *targets,
                row["seconds_to_accuracy"],
                row["over_ddp"],
                row["worth"],
                *accuracies,
                row["seconds"],
                sent,
                row["exposed"],
                row["changes"],
                row["prediction_error"],
            ]
        )
    columns = [
        "x over DDP",
        "worth",
        "accuracy % after all steps",
        "when DDP ends",
        "s in all",
        "kB a step",
        "exposed",
        "changes",
        "prediction error",
    ]
    return f"### {name}\n\n" + _markdown(
        ["method", *(f"s to {i}" for i in range(1, len(TARGETS) + 1)), "s to accuracy", *columns],
        body,
    )


def _chosen(records: Records) -> str:
    def shares(of: Mapping[str, float]) -> str:
        return ", ".join(f"{value} {100 * share:.0f} %" for value, share in list(of.items())[:5])

    lines = [
        [f"{study.name}, {method}", *map(shares, plans.values())]
        for study, record in records.items()
        for method, plans in record.plans.items()
        if plans
    ]
    return _markdown(["run", "scheme", "density", "every", "late"], lines)


def _published() -> str:
    rows = [
        [model, f"{rate:g}", f"{100 * density:g}%", name, theirs, ours, 100 * (ours / theirs - 1)]
        for model, rate, density, name, theirs, ours in published.cells()
    ]
    return "## The published table, regenerated\n\nN = 8, 1 ms; times in ms.\n\n" + _markdown(
        ["model", "Gbit/s", "density", "collective", "published", "by its formulas", "deviation %"],
        rows,
    )


def _days(records: Records) -> str:
    together: dict[tuple[str, str], list[str]] = {}
    for study, record in records.items():
        together.setdefault((record.ran, record.note), []).append(study.name)
    lines = [
        f"  * {day}: " + ", ".join(names) + (f". {note}" if note else "") + "\n"
        for (day, note), names in sorted(together.items())
    ]
    return "* A study runs as a whole on one machine; not all of them ran on the same:\n" + "".join(
        lines
    )


def _missing(what: Mapping[str, Sequence[str]]) -> str:
    """Briefly: those that were late are many, and said one by one beside the figures."""

    def told(runs: Sequence[str]) -> str:
        absent = [f"`{run}`" for run in runs if not run.endswith(", longer")]
        late = len(runs) - len(absent)
        return ", ".join(
            [*absent, *([f"{late} that were late and have not trained on"] if late else [])]
        )

    lines = [f"  * {study}: {told(runs)}\n" for study, runs in what.items()]
    return (
        "* **Not in yet** (`make evidence` runs it; `build/bench/evidence.json` names each):\n"
        + "".join(lines)
        if lines
        else ""
    )


def _checks(records: Records) -> str:
    lines = [
        [study.name, f"`{check.method}`", check.composed, check.in_full, 100 * check.error]
        for study, record in records.items()
        for check in record.checks
    ]
    table = (
        _markdown(["study", "method", "composed s", "in full s", "error %"], lines)
        if lines
        else "Not checked yet.\n"
    )
    return "\nComposed against run in full:\n\n" + table


def _failures(records: Records) -> str:
    lines = [
        f"* {study.name}, {what}: {why.splitlines()[-1] if why else ''}"
        for study, record in records.items()
        for what, why in record.failures.items()
    ]
    return "## Runs that failed\n\n" + "\n".join(lines) + "\n" if lines else ""


# What was found where a figure has missed its mark; said only while it does.
REASONS = {
    "tta_over_ddp/c1": "the first phase of C1, a quarter of all steps, is fast, and the first target lies near its end: whoever communicates for free would win no more there than plain DDP exposes. "
    "So a third of what the median is taken over lies far below it, however well the rest does.",
    "tta_over_best_static/c2": "C2 is kind to one fixed plan, `updates every=4 late=1 union 10 %`: links are fast at both ends and slow for a while in between, and what this plan hides is enough nearly everywhere. With the transformer "
    "`auto` makes up by steps that are worth more what its warm-up, dense gradients, takes longer; "
    "with the CNN it is a little later than that plan. Whoever fixes a plan must know it "
    "beforehand: most of the grid is later than `auto` by far.",
    "tta_over_best_peer/c1": "the best peer of CNN and ResNet, local SGD every 8 steps, exposes two fifths of its time on C1: whoever exposed nothing, at steps worth the same, would be 1.7x sooner, and not before the network is slow.",
}

METHOD = """## Method

`make evidence` (about eight hours on two cores; it goes on where it stopped; each run is a file in `build/evidence`). This document is made of `docs/results/` alone, `make evidence HOURS=0` makes it anew. Code: `bench/evidence/`;
`python -m evidence...` wants `PYTHONPATH=bench:build/release/python:python`.

* **Jobs**, real PyTorch DDP ranks in the lab, over real TCP: a CNN and a small ResNet on Fashion-MNIST (SGD), a small transformer on text (AdamW). Batches depend on seed, rank and step alone.
  Learning rates are the best of a grid for plain DDP (`python -m evidence.tune`), and the same for every method. Ours lengthens the steps of AdamW under updates, by what a rank's own, noisier gradients take from them
  and no more than that ([updates.md](updates.md)); local SGD, which has the same handicap there, does not.
* **Compute is replayed**: four ranks share two cores, so each step runs for real and is then held to a timetable, forward a third, backward the rest, gradients ready evenly (`bench/pace.py`).
* **Networks**: phases begin at the same step for every method. Bandwidth is scaled by the models' sizes, then latency and byte time together are stretched until what plain DDP's steps take beyond
  compute, measured in the lab and averaged over the timeline's steps, is the load times compute, to within 15 % (`study.py`). Latency over byte time stays what it was.
* **Composition**: a method that does not look at the network has one loss-by-step; it is trained once per seed on loopback, its step time is measured in the lab on each link over 32 steps after 8 to settle, and the two
  are put together. Adaptive methods and the published system run in full.
* **Targets** are plain DDP's own losses on a fixed part of the test set (`jobs.py`: 4,000 pictures, 500 windows of text). Losses are means over 32 steps to either side: with less, when a curve touches a target says more about luck than about the method (with 8, fp16, which only rounds, was worth 0.91 to 1 of a step; it is 0.98 to 1.08 now). A method that has reached the second target but not
  the last within plain DDP's steps, with every seed, trains on, with all seeds, for half as many more. A ratio is theirs over ours: for each target the medians over seeds,
  of these the median over targets and jobs; the 10 and 90 % are those of single seeds and targets.
* **Methods**: all of them where the CNN meets C1, C2 (5x), C1 (0.5x) and the fast network; elsewhere those that did best there or are best known (`BEST_KNOWN` in `__main__.py`).
* **The published system** is told the true network and explores for nothing: collective by its formulas, density at its knee, gains measured beforehand (`paper.py`).

## Limits

* Small models and short runs: what takes thousands of steps to show is not seen here.
* What a step is worth (`model/efficiency.h`) was fitted to the curves of the CNN and of the transformer among others ([model.md](model.md)): for `auto` these are no held-out test; the ResNet is.
* Two cores for all ranks and the network: codec work is dearer here than on machines of their own.
"""
