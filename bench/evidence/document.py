# SPDX-License-Identifier: MIT
"""docs/results.md: a picture, three sentences, tables, method, limits, how to repeat. Every number comes from the runs."""
from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import figures
from evidence import picture, published
from evidence.judge import TARGETS, Judge
from evidence.study import Study

if TYPE_CHECKING:
    from evidence.__main__ import Outcome

RESULTS = figures.ROOT / "docs" / "results.md"
PICTURE = figures.ROOT / "docs" / "images" / "results.svg"


def tables(judges: Mapping[Study, Judge]) -> dict[str, list[dict[str, object]]]:
    """For each study a row per method: median times to the targets, accuracy, time in all."""
    return {study.name: [_row(judge, method) for method in dict.fromkeys(m for m, _ in judge.curves)] for study, judge in judges.items()}


def _row(judge: Judge, method: str) -> dict[str, object]:
    curves = [judge.curves[method, seed] for seed in judge.seeds]
    times = [statistics.median(column) for column in zip(*(judge.times(method, seed) for seed in judge.seeds), strict=True)]
    return {
        "method": method,
        "seconds_to_targets": [None if math.isinf(t) else t for t in times],
        "over_ddp": statistics.median(judge.ratios("ddp", method)),
        "accuracy": statistics.median(curve.final_accuracy() for curve in curves),
        "seconds": statistics.median(curve.times[-1] for curve in curves),
    }


def write(outcome: Outcome, found: Sequence[figures.Figure], missed: Sequence[str], checks: Sequence[dict[str, object]], plans: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    headline = next((study for study in outcome.judges if (study.job, study.network, study.load) == ("cnn", "c1", 5)), None)
    if headline is not None:
        PICTURE.write_text(picture.of(outcome.judges[headline], headline.name))
    by_name = {figure.name: figure for figure in found}
    parts = [
        "# Results\n",
        f"![loss over time on C1](images/{PICTURE.name})\n" if headline else "",
        _sentences(by_name),
        "" if outcome.complete else "**Not all runs are in yet**: `make evidence` goes on where it stopped. What is missing is not in the tables.\n",
        "## Figures\n\n" + _markdown(["figure", "median", "10 %", "90 %", "unit"], [[f.name, f.value, f.low, f.high, f.unit] for f in found]),
        "Missed: " + ("; ".join(missed) if missed else "nothing") + ".\n",
        "## Every method\n\nSeconds to plain DDP's own loss at " + ", ".join(f"{100 * t:.0f} %" for t in TARGETS) + " of its steps; medians over seeds; `-`: never.\n",
        *(_study(name, rows) for name, rows in tables(outcome.judges).items()),
        "## What was chosen\n\nShare of steps, over all seeds.\n\n" + _chosen(plans) if plans else "",
        _published(),
        _method(checks),
        _failures(outcome.failures),
    ]
    RESULTS.write_text("\n".join(part for part in parts if part) + "\n")


def _sentences(found: Mapping[str, figures.Figure]) -> str:
    def told(name: str, words: str) -> str:
        figure = found.get(name)
        return words.format(f"{figure.value:.2g}", f"{figure.low:.2g} to {figure.high:.2g}") if figure else ""

    lines = [
        told("tta_over_ddp/c1", "On a network that changes as C1 does, with communication five times compute, training reaches the loss of plain DDP {}x sooner ({})."),
        told("tta_over_best_peer/c1", "Against the best of fp16, PowerSGD, local SGD, accumulation and the published system it is {}x ({})."),
        told("accuracy_delta", "After the same number of steps accuracy is {} points from plain DDP's ({})."),
    ]
    return " ".join(line for line in lines if line) + "\n"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    def cell(value: object) -> str:
        return value if isinstance(value, str) else "-" if value is None else f"{value:.3g}"

    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(cell, row)) + " |" for row in rows]) + "\n"


def _study(name: str, rows: Sequence[Mapping[str, object]]) -> str:
    ordered = sorted(rows, key=lambda row: -float(str(row["over_ddp"])))
    body = [[f"`{row['method']}`", *list(row["seconds_to_targets"]), row["over_ddp"], 100 * float(str(row["accuracy"])), row["seconds"]] for row in ordered]  # type: ignore[call-overload]
    return f"### {name}\n\n" + _markdown(["method", *(f"s to {i}" for i in range(1, len(TARGETS) + 1)), "x over DDP", "accuracy %", "s in all"], body)


def _chosen(plans: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    def shares(of: Mapping[str, float]) -> str:
        return ", ".join(f"{value} {100 * share:.0f} %" for value, share in list(of.items())[:5])

    return _markdown(["run", "scheme", "density", "every", "late"], [[name, *(shares(kinds[key]) for key in ("scheme", "density", "every", "late"))] for name, kinds in plans.items()])


def _published() -> str:
    rows = [[model, f"{rate:g}", f"{100 * density:g}%", name, theirs, ours, 100 * (ours / theirs - 1)] for model, rate, density, name, theirs, ours in published.cells()]
    return "## The published table, regenerated\n\nN = 8, 1 ms; times in ms.\n\n" + _markdown(["model", "Gbit/s", "density", "collective", "published", "by its formulas", "deviation %"], rows)


def _method(checks: Sequence[dict[str, object]]) -> str:
    rows = [[row["study"], f"`{row['method']}`", row["composed"], row["in_full"], 100 * float(str(row["error"]))] for row in checks]
    table = _markdown(["study", "method", "composed s", "in full s", "error %"], rows) if rows else "Not checked yet.\n"
    return METHOD + "\nComposed against run in full:\n\n" + table


def _failures(failures: Mapping[str, str]) -> str:
    return "## Runs that failed\n\n" + "\n".join(f"* {name}: {why.splitlines()[-1] if why else ''}" for name, why in failures.items()) + "\n" if failures else ""


METHOD = """## Method

`make evidence` (about eight hours on two cores; it goes on where it stopped; each run is a file in `build/evidence`). Code: `bench/evidence/`.

* **Jobs**, real PyTorch DDP ranks in the lab, over real TCP: a CNN and a small ResNet on Fashion-MNIST (SGD), a small transformer on text (AdamW). Batches depend on seed, rank and step alone.
  Learning rates are the best of a grid for plain DDP (`python -m evidence.tune`).
* **Compute is replayed**: four ranks share two cores, so each step runs for real and is then held to a timetable, forward a third, backward the rest, gradients ready evenly (`bench/pace.py`).
* **Networks**: phases begin at the same step for every method. Bandwidth is scaled by the models' sizes, then latency and byte time together are stretched until what plain DDP's steps take beyond
  compute, measured in the lab and averaged over the timeline's steps, is the load times compute, to within 15 % (`study.py`). Latency over byte time stays what it was.
* **Composition**: a method that does not look at the network has one loss-by-step; it is trained once per seed on loopback, its step time is measured in the lab on each link over 32 steps after 8 to settle, and the two
  are put together. Adaptive methods and the published system run in full.
* **Targets** are plain DDP's own losses on 2,000 test samples. A ratio is theirs over ours, for every seed and target; the tables give medians.
* **The published system** is told the true network and explores for nothing: collective by its formulas, density at its knee, gains measured beforehand (`paper.py`).

## Limits

* Small models and short runs: what takes thousands of steps to show is not seen here.
* Two cores for all ranks and the network: codec work is dearer here than on machines of their own.
"""
