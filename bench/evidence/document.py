# SPDX-License-Identifier: MIT
"""docs/results.md with its charts and tables: a summary, five charts, missed marks, method, limits.
All numbers come from the runs in docs/results."""

from __future__ import annotations

import math
import re
import statistics
import textwrap
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import figures
from evidence import kept, picture, tables, unseen
from evidence.judge import Judge
from evidence.networks import GBIT, NETWORKS
from evidence.picture import Range
from evidence.study import Study, entries

Records = tables.Records
Wanted = Mapping[Study, Collection[str]]  # the methods of each study

JOB_NAMES = {"cnn": "CNN", "resnet": "ResNet", "transformer": "transformer"}
JOB_DATA = {
    "cnn": "Fashion-MNIST, SGD",
    "resnet": "Fashion-MNIST, SGD",
    "transformer": "text, letter by letter, AdamW",
}
NETWORK_NAMES = {"c1": "C1", "c2": "C2", "fast_stable": "fast", "slow_host": "slow host"}


def missing(wanted: Wanted, records: Records) -> dict[str, list[str]]:
    """Methods that have not run, by study, and those that have not trained for as long as they
    should."""
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
    others: unseen.Records,
) -> list[str]:
    """Returns the names of the files that it wrote, relative to `docs`."""
    charts = _charts(records)
    files = {f"images/{name}.svg": drawing for name, (drawing, _) in charts.items()}
    files["results/methods.csv"] = tables.methods(records)
    files["results/plans.csv"] = tables.plans(records)
    files["results/published_table.csv"] = tables.published_table()
    files["results.md"] = _page(charts, wanted, records, found, missed, others)
    for name, text in files.items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(text)
    return list(files)


def _page(
    charts: Mapping[str, tuple[str, str]],
    wanted: Wanted,
    records: Records,
    found: Sequence[figures.Figure],
    missed: Sequence[str],
    others: unseen.Records,
) -> str:
    by_name = {figure.name: figure for figure in found}
    parts = [
        "# Results\n",
        _headline(by_name),
        COMPARED + _jobs(records) + "\n" + _networks(records),
        "## Five charts\n",
        *(
            f"![{caption.partition('.')[0]}](images/{name}.svg)\n\n**Figure {i}.** {caption}\n"
            for i, (name, (_, caption)) in enumerate(charts.items(), 1)
        ),
        _unseen(others),
        _missed(missed, by_name),
        METHOD,
        LIMITS + _days(records) + _missing(missing(wanted, records)) + _checks(records),
        _failures(records),
        APPENDIX
        + _markdown(
            ["figure", "median", "10 %", "90 %", "unit"],
            [[f"`{f.name}`", f.value, f.low, f.high, f.unit] for f in found],
        ),
    ]
    return _wrapped("\n".join(part for part in parts if part)) + "\n"


def title(study: Study) -> str:
    network = NETWORK_NAMES.get(study.network, study.network)
    hosts = "" if study.hosts == 4 else f", {study.hosts} hosts"
    return f"{JOB_NAMES[study.job]}, {network}, {study.load:g}x{hosts}"


def _charts(records: Records) -> dict[str, tuple[str, str]]:
    """Name of the file -> drawing and caption."""
    charts = {}
    first = next(iter(records), None)  # studies come in the order of what they tell
    other = next((s for s in records if first and s.job != first.job), None)
    for name, study in (("results", first), ("results-transformer", other)):
        if study is not None:
            charts[name] = (
                picture.loss_over_time(Judge(records[study].curves), title(study)),
                f"Loss over time: {title(study)}. One seed; both axes are logarithmic. Further "
                "left is better. The fixed plan and the other method are the best of those tried, "
                "known only afterwards.",
            )
    if at_five := {study: record for study, record in records.items() if study.load == 5}:
        charts["results-networks"] = (
            _speedups(at_five, "Time to plain DDP's loss, communication 5x compute"),
            "Times faster than plain DDP, by job and network, where communication takes 5 times as "
            "long as compute. The dot is the median over seeds and targets, the bar spans the 10th to "
            "90th percentile. A method that never reaches a target is drawn at the left edge.",
        )
    if by_load := {
        study: record
        for study, record in sorted(records.items(), key=lambda one: one[0].load)
        if study.job == "cnn" and study.network in ("c1", "fast_stable") and study.hosts == 4
    }:
        charts["results-load"] = (
            _speedups(by_load, "Time to plain DDP's loss, by load"),
            "Times faster than plain DDP, by how long communication takes relative to compute. The "
            "slower the network, the more there is to gain.",
        )
    if records:
        charts["results-accuracy"] = (
            _accuracy(records),
            "Accuracy after the same number of steps, minus plain DDP's. The dot is the median over "
            "the seeds, the bar spans all of them. The seeds of plain DDP itself differ by about half a point.",
        )
    return charts


def _speedups(records: Records, heading: str) -> str:
    rows = []
    for study, record in records.items():
        judge = Judge(record.curves)
        values = {}
        for family in ("peer", "paper", "static"):
            if names := judge.methods(family):
                best = judge.best(names)
                values[family] = _range(judge.speedups("ddp", best), judge.ratios("ddp", best))
        values["auto"] = _range(judge.speedups("ddp"), judge.ratios("ddp"))
        rows.append((title(study), values))
    return picture.dots(
        heading,
        "times faster than plain DDP",
        rows,
        (0.25, 0.5, 1, 2, 4, 8, 16, 32),
        lambda tick: f"{tick:g}x",
        log=True,
    )


def _range(medians: Sequence[float], single: Sequence[float]) -> Range:
    """The median, with the 10th and 90th percentile of single ones. A ratio is not finite where
    plain DDP itself did not reach the target with that seed; it is left out."""
    spread = figures.spread("", [one for one in single if math.isfinite(one)], "")
    return Range(statistics.median(medians), spread.low, spread.high)


def _accuracy(records: Records) -> str:
    rows = []
    for study, record in records.items():
        deltas = Judge(record.curves).accuracy_deltas()
        rows.append((title(study), {"auto": _range(deltas, deltas)}))
    return picture.dots(
        "Accuracy after the same steps, minus plain DDP's",
        "percentage points",
        rows,
        (-2, -1, 0, 1, 2),
        lambda tick: f"{tick:+g}" if tick else "0",
        log=False,
    )


def _jobs(records: Records) -> str:
    jobs = dict.fromkeys(study.job for study in records)
    lines = [[JOB_NAMES[job], f"{entries(job):,}", JOB_DATA[job]] for job in jobs]
    return _markdown(["model", "parameters", "data and optimizer"], lines)


def _networks(records: Records) -> str:
    lines = []
    for name in dict.fromkeys(study.network for study in records):
        links = [
            f"{link.rate / GBIT:g} Gbit/s, {1e3 * link.latency:g} ms"
            + (f", {100 * link.loss:g} % loss" if link.loss else "")
            + (f", one host {link.slow_host:g}x slower" if link.slow_host != 1 else "")
            for link in NETWORKS[name].links
        ]
        phases = [text for text, before in zip(links, ["", *links]) if text != before]
        lines.append([NETWORK_NAMES.get(name, name), "; ".join(phases)])
    return _markdown(["network", "its phases, before scaling"], lines)


def _headline(found: Mapping[str, figures.Figure]) -> str:
    lines = [
        [
            words,
            f"**{figure.value:.2g}{unit}**",
            f"{figure.low:.2g}{unit} to {figure.high:.2g}{unit}",
        ]
        for name, (words, unit) in HEADLINES.items()
        if (figure := found.get(name))
    ]
    return _markdown(["", "median", "10 % to 90 %"], lines) if lines else ""


def _missed(missed: Sequence[str], found: Mapping[str, figures.Figure]) -> str:
    if not missed:
        return "## What was missed\n\nAll marks were met.\n"
    lines = []
    for words in missed:
        name, value, sign, mark = words.split()
        lines.append(
            f"* `{name}` ({found[name].unit}) is {value}; it should be at "
            f"{'least' if sign == '<' else 'most'} {mark}. {REASONS.get(name, '')}\n"
        )
    return "## What was missed\n\n" + "".join(lines)


def _unseen(others: unseen.Records) -> str:
    if not others:
        return ""
    found = _markdown(unseen.COLUMNS, unseen.rows(others))
    jobs = _markdown(unseen.JOB_COLUMNS, unseen.jobs(others))
    return "\n".join([unseen.TEXT + found, jobs, unseen.notes(others) + "\n"])


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


def _markdown(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    def cell(value: object) -> str:
        return value if isinstance(value, str) else "-" if value is None else f"{value:.3g}"

    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(cell, row)) + " |" for row in rows]) + "\n"


def _days(records: Records) -> str:
    together: dict[tuple[str, str], list[str]] = {}
    for study, record in records.items():
        together.setdefault((record.ran, record.note), []).append(study.name)
    lines = [
        f"  * {day}: " + ", ".join(names) + (f". {note}" if note else "") + "\n"
        for (day, note), names in sorted(together.items())
    ]
    return "* A study runs as a whole on one machine. Not all studies ran on the same one:\n" + (
        "".join(lines)
    )


def _missing(what: Mapping[str, Sequence[str]]) -> str:
    """Names the methods that have not run, and counts those that should train longer."""

    def told(runs: Sequence[str]) -> str:
        absent = [f"`{run}`" for run in runs if not run.endswith(", longer")]
        late = len(runs) - len(absent)
        return ", ".join([*absent, *([f"{late} that should train longer"] if late else [])])

    lines = [f"  * {study}: {told(runs)}\n" for study, runs in what.items()]
    return (
        "* **Not run yet** (`make evidence` runs them; `build/bench/evidence.json` names each):\n"
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
    return "\nComposition, checked against runs in full:\n\n" + table


def _failures(records: Records) -> str:
    lines = [
        f"* {study.name}, {what}: {why.splitlines()[-1] if why else ''}"
        for study, record in records.items()
        for what, why in record.failures.items()
    ]
    return "## Runs that failed\n\n" + "\n".join(lines) + "\n" if lines else ""


# The first table: a row in words, and the unit after its numbers.
HEADLINES = {
    "tta_over_ddp/c1": ("times sooner at plain DDP's loss: changing network C1, communication 5x compute", "x"),
    "tta_over_ddp/c2": ("the same on the changing network C2", "x"),
    "tta_over_ddp_50x/c1": ("the same on C1, communication 50x compute", "x"),
    "tta_over_best_peer/c1": ("times faster than the best of fp16, PowerSGD, local SGD, gradient accumulation and the published system: C1, 5x", "x"),
    "harm/fast_stable": ("time for the same steps relative to plain DDP: fast and stable network, communication 0.05x compute", ""),
    "accuracy_delta": ("accuracy after the same number of steps, minus plain DDP's (percentage points)", ""),
}  # fmt: skip

COMPARED = """## What was compared

Real PyTorch DDP jobs train on emulated hosts, once with each method: plain DDP, what people use instead, the published system (Tyagi and Swany, IEEE BigData 2023), Pliant with fixed plans, and Pliant with `plan="auto"`. The measure is the time until a method reaches plain DDP's own test loss at 30 %, 60 % and 90 % of DDP's steps, with three seeds.

`5x` is the load: the time that plain DDP spends on communication, relative to compute, averaged over the run. Networks are slowed down in proportion to the model, so that a small model on an emulated link meets the same load as a large model on a real one.

"""

# Why a figure missed its mark; shown only while it does.
REASONS = {
    "tta_over_ddp/c1": "C1 is fast in its first phase, a quarter of all steps, and the first target lies near the end of it. There plain DDP exposes little communication, so that no method can gain much.",
    "tta_over_best_static/c2": "On C2 one fixed plan, `updates every=4 late=1 union density=10%`, is as good as choosing: the links are slow only in the middle, and the plan hides nearly all communication there. With the transformer `auto` loses time in its dense warm-up and regains it because its steps make more progress. With the CNN it is slightly slower than that plan. Most other fixed plans are much slower than `auto`, and a user would have to know the best one in advance.",
    "unseen/tta_over_ddp": "C1 is fast in its first phase, a quarter of all steps, and with Adam `auto` begins with 100 dense steps, which is a third of these short runs. The first target lies in that part.",
    "unseen/worth_error_worst": "It is the perceptron under goal time: with SGD its steps were worth more than assumed at `every=4` and `every=8`, so that it trained longer than it had to and ended below plain DDP's loss.",
    "tta_over_best_peer/c1": "The best other method, local SGD every 8 steps, exposes two fifths of its time on C1. A method that exposed nothing, at steps of the same worth, would be 1.7x faster.",
}

METHOD = """## Method

`make evidence` runs everything in about eight hours on two cores; it continues where it stopped, and each run is a file in `build/evidence`. `make evidence ONLY=unseen` runs the jobs that nothing was fitted to, in about an hour. `make evidence HOURS=0` writes this page again from `docs/results/`. The code is in `bench/evidence/`; `python -m evidence...` needs `PYTHONPATH=bench:build/release/python:python`.

* **Jobs** are real DDP ranks in the [lab](lab.md), over real TCP. Batches depend on seed, rank and step alone. Learning rates are the best of a grid for plain DDP (`python -m evidence.tune`) and the same for every method. Under updates Pliant makes AdamW's steps longer ([updates.md](updates.md)); local SGD does not.
* **Compute is held to a timetable**, because four ranks share two cores: each step runs for real, then waits until a third of the step is forward and the rest backward, with gradients ready evenly (`bench/pace.py`).
* **Networks**: phases begin at the same step for every method. Bandwidth is scaled by the model's size, relative to the ResNet18 of the published system. Then latency and time per byte are stretched together until plain DDP's load is the wanted one within 15 %, measured in the lab.
* **Composition**: a method that ignores the network has the same loss after each step on every network. It trains once per seed on loopback; its step time is measured in the lab on each link over 32 steps; the two are combined. Adaptive methods and the published system run in full.
* **Targets** are plain DDP's losses on a fixed part of the test set (4,000 pictures, or 500 windows of text), averaged over 32 steps to either side. A method that reaches the second target but not the last within DDP's steps trains for half as many steps more, with all seeds.
* **Ratios** are the other method's time / Pliant's time. For each target the median over seeds is taken, then the median over targets and jobs. The 10 % and 90 % are those of single seeds and targets.
* **Methods**: all of them for the CNN on C1 and C2 at 5x, on C1 at 0.5x and on the fast network. Elsewhere those that did best there or are best known (`BEST_KNOWN` in `bench/evidence/__main__.py`).
* **The published system** is told the true network and explores at no cost: collective by its formulas, density at its knee, gains measured in advance (`bench/evidence/paper.py`).
"""

LIMITS = """## Limits

* The models are small and the runs are short (640 steps). Effects that need thousands of steps are not seen.
* The worth of a step (`pliant/model/efficiency.h`) was fitted to the curves of the CNN and the transformer, among others. For `auto` these two are not held-out tests; the ResNet is.
* All ranks and the network share two cores. Coding costs more here than on separate machines.
"""

APPENDIX = """## Appendix: tables

| file | content |
|---|---|
| [results/methods.csv](results/methods.csv) | every method of every study: seconds to each target and to plain DDP's accuracy, times faster than DDP, worth of a step, accuracy, bytes sent per step by host 0, exposed share of the time, changes of plan, median prediction error |
| [results/plans.csv](results/plans.csv) | share of the steps that `auto` and others spent under each scheme, density, every and late |
| [results/published_table.csv](results/published_table.csv) | all 108 times of the published system's table, and what its formulas give |
| `docs/results/*.jsonl` | the curves of every run |

Figures, as `build/bench/evidence.json` names them (`tta`: time to the targets, other method / Pliant):

"""
