# SPDX-License-Identifier: MIT
"""Command `make evidence`: runs what is missing (resumable, each run a file), then writes
build/bench/evidence.json and docs/results.md.

`--quick` is the short form: one job, one network, few steps, everything in a folder of its own."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import figures
from evidence import document, histograms, kept, published, seen, tables, unseen
from evidence.judge import Curves, Judge, of
from evidence.methods import METHODS
from evidence.runs import FOLDER, Runner, TimeIsUp
from evidence.study import Study, stretch

SEEDS = (1, 2, 3)
ADAPTIVE = ("auto", "auto-steps", "auto-gradients", "oracle", "paper")
MARKS = {  # at least, unless it says at most
    "tta_over_ddp/c1": 4.5, "tta_over_ddp/c2": 4.5, "tta_over_ddp_50x/c1": 15, "tta_over_best_peer/c1": 1.5, "tta_over_best_peer/c2": 1.5,
    "tta_over_best_static/c1": 1.0, "tta_over_best_static/c2": 1.0, "tta_over_oracle": 0.93, "accuracy_delta": -0.3, "accuracy_delta_50x": -1.0,
    "accuracy_when_ddp_ends": 0.0, **unseen.MARKS,
}  # fmt: skip
LIMITS = {"harm/fast_stable": 1.03, **unseen.LIMITS}

STUDIES = (  # in this order: whatever time allows, the most telling first
    *(Study("cnn", network, 5) for network in ("c1", "c2")),
    Study("cnn", "fast_stable", 0.05),
    Study("cnn", "c1", 50, compute=0.03),
    Study("cnn", "c1", 0.5),
    *(Study(job, network, 5) for job in ("transformer", "resnet") for network in ("c1", "c2")),
    *(Study("cnn", network, 5) for network in ("wan", "wifi", "step", "slow_host")),
    Study("cnn", "c1", 5, hosts=8, compute=0.12),
)
# Every method where the grid tells most; elsewhere those that were best there, or are best known.
WHOLE_GRID = (*STUDIES[:3], STUDIES[4])
BEST_KNOWN = (
    "ddp", "fp16", "powersgd-4", "local-8",
    "static: updates every=4 late=1 union density=10% values=int8 indices=rice",
    "static: updates every=1 late=1 union density=10% values=int8 indices=rice",
    "static: updates every=4 late=1 dense",
    "static: gradients union density=10% values=int8 indices=rice fuse=all",
    "paper", "auto", "auto-steps", "oracle",
)  # fmt: skip
WANTED = {study: tuple(METHODS) if study in WHOLE_GRID else BEST_KNOWN for study in STUDIES}
# Composed curves of the first study that are run in full too, to see whether composing is honest.
CHECKED = (
    "ddp",
    "local-8",
    "static: updates every=4 late=1 union density=10% values=int8 indices=rice",
)

QUICK = Study("cnn", "step", 1, steps=96)
QUICK_METHODS = (
    "ddp",
    "fp16",
    "static: updates every=4 late=1 union density=10% values=int8 indices=rice",
    "paper",
    "auto",
)


@dataclass
class Progress:
    """Progress of one study."""

    failures: dict[str, str] = field(default_factory=dict)  # method and seed -> what it said
    complete: bool = True

    @contextlib.contextmanager
    def within_budget(self) -> Iterator[None]:
        try:
            yield
        except TimeIsUp:
            self.complete = False

    @contextlib.contextmanager
    def noting(self, what: str) -> Iterator[None]:
        """Failures of runs."""
        try:
            yield
        except RuntimeError as error:
            self.failures[what] = str(error).strip()[-600:]
            print(f"failed: {what}\n{error}", file=sys.stderr, flush=True)


def run(runner: Runner, studies: document.Wanted, seeds: Collection[int], results: Path) -> bool:
    """Whatever the budget allows, and all that has run already. A study goes to `results` when all
    of it has run, or as much as there is if nothing was kept of it before. False: there is more to
    run."""
    complete = True
    for study, methods in studies.items():
        record, whole = run_study(runner, study, methods, seeds)
        complete &= whole
        if record is not None and (whole or kept.read(results, study) is None):
            kept.write(results, study, record)
            for method in ADAPTIVE:
                seen.report_page(runner, study, method, min(seeds))
    return complete


def run_study(
    runner: Runner, study: Study, methods: Collection[str], seeds: Collection[int]
) -> tuple[kept.Record | None, bool]:
    """None: plain DDP or ours has not run yet. A method that fails is named, and left out. False:
    the budget cut it short."""
    progress = Progress()
    curves: Curves = {}
    with progress.within_budget():
        study.prepare(runner, methods, seeds)
    for seed in seeds:
        for method in methods:
            with progress.within_budget(), progress.noting(f"{method}, seed {seed}"):
                curves[method, seed] = study.curve(runner, method, seed)
    whole = [m for m in methods if all((m, s) in curves for s in seeds)]
    if "ddp" not in whole or "auto" not in whole:
        return None, progress.complete
    curves = {key: curve for key, curve in curves.items() if key[0] in whole}
    plans = {
        method: histograms.of(runner, study, method, seeds)
        for method in ADAPTIVE
        if method in whole
    }
    saw = {key: seen.of(runner, study, *key, curve) for key, curve in curves.items()}
    curves |= gone_on(runner, progress, study, Judge(curves))
    checks: list[kept.Check] = []
    with progress.within_budget():
        checks = composition_checks(runner, study)
    return kept.Record(
        curves,
        saw,
        plans,
        checks,
        progress.failures,
        stretch(study, runner),
        time.strftime("%Y-%m-%d"),
    ), progress.complete


def gone_on(runner: Runner, progress: Progress, study: Study, judge: Judge) -> Curves:
    """A method that was near the last target after plain DDP's steps trains on: steps that are
    worth less may still be there sooner. With all of its seeds, or none: a seed that was late would
    else be run twice, and the better run counted."""
    curves: Curves = {}
    for method in judge.late():
        with progress.within_budget(), progress.noting(f"{method}, longer"):
            curves |= {
                (method, seed): study.curve(runner, method, seed, longer=True)
                for seed in judge.seeds
            }
    return curves


def figures_of(records: document.Records) -> list[figures.Figure]:
    found: list[figures.Figure] = []

    def add(name: str, samples: list[float], unit: str) -> None:
        finite = [sample for sample in samples if math.isfinite(sample)]
        if finite:
            found.append(figures.spread(name, finite, unit))

    def compare(name: str, judges: list[Judge], theirs: Callable[[Judge], str], unit: str) -> None:
        """Ratios of times: medians over seeds, then over targets and jobs; the spread is that of
        single ones."""
        speedups = [
            ratio for ratio in of(judges, lambda j: j.speedups(theirs(j))) if math.isfinite(ratio)
        ]
        if speedups:
            single = figures.spread(
                name,
                [
                    ratio
                    for ratio in of(judges, lambda j: j.ratios(theirs(j)))
                    if math.isfinite(ratio)
                ],
                unit,
            )
            found.append(dataclasses.replace(single, value=statistics.median(speedups)))

    def judges(load: float | None = None, network: str | None = None) -> list[Judge]:
        return [
            Judge(r.curves)
            for s, r in records.items()
            if s.hosts == 4
            and (load is None or s.load == load)
            and (network is None or s.network == network)
        ]

    for network in ("c1", "c2"):
        here = judges(5, network)
        compare(f"tta_over_ddp/{network}", here, lambda j: "ddp", "x, jobs at 5x")
        compare(
            f"tta_over_best_peer/{network}",
            [j for j in here if j.methods("peer")],
            lambda j: j.best([*j.methods("peer"), *j.methods("paper")]),
            "x",
        )
        static = [
            (statistics.median(j.speedups(j.best(j.methods("static")))))
            for j in here
            if j.methods("static")
        ]
        add(f"tta_over_best_static/{network}", static, "x, median over jobs")
        if static:
            found.append(
                figures.exact(
                    f"tta_over_best_static_least/{network}", min(static), "x, the worst job"
                )
            )
        compare(
            f"tta_over_paper/{network}",
            [j for j in here if j.methods("paper")],
            lambda j: "paper",
            "x",
        )
        add(
            f"time_to_accuracy_over_ddp/{network}",
            of(here, lambda j: j.accuracy_ratios("ddp")),
            "x, to DDP's accuracy at 90 % of its steps",
        )
    compare("tta_over_ddp_50x/c1", judges(50, "c1"), lambda j: "ddp", "x")
    told = [j for j in judges() if any(m == "oracle" for m, _ in j.curves)]
    compare(
        "tta_over_oracle",
        told,
        lambda j: "oracle",
        "x, time with the network known in advance / time with it measured",
    )
    add(
        "accuracy_delta",
        of([*judges(5), *judges(0.5)], Judge.accuracy_deltas),
        "points after the same steps, minus plain DDP's",
    )
    add("accuracy_delta_50x", of(judges(50), Judge.accuracy_deltas), "points")
    add(
        "accuracy_spread_of_dense",
        [j.spread_of_dense() for j in judges()],
        "points between DDP's own seeds",
    )
    add(
        "accuracy_when_ddp_ends",
        of(judges(5), Judge.accuracy_when_ddp_ends),
        "points over plain DDP's when it ends",
    )
    errors = [
        error
        for record in records.values()
        for (method, _), one in record.seen.items()
        if method == "auto"
        for error in one.errors
    ]
    add("prediction_error", errors, "of an exchange's time, auto, all studies")
    add(
        "harm/fast_stable",
        of(judges(None, "fast_stable"), Judge.slowdowns),
        "x, time of all steps over plain DDP's",
    )
    add(
        "composition_error",
        [abs(check.error) for record in records.values() for check in record.checks],
        "of the time of a run in full",
    )
    return found


def all_figures(records: document.Records, others: unseen.Records) -> list[figures.Figure]:
    return figures_of(records) + unseen.figures_of(others) + published.figures_of_the_table()


def composition_checks(runner: Runner, study: Study) -> list[kept.Check]:
    """Composed against run in full: time for all steps."""
    rows = []
    for method in CHECKED if study == STUDIES[0] else ():
        whole = float(runner.result(study.full(runner, method, SEEDS[0]))["ends"][-1])
        rows.append(kept.Check(method, study.curve(runner, method, SEEDS[0]).times[-1], whole))
    return rows


def missed(found: list[figures.Figure]) -> list[str]:
    below = [
        f"{f.name} {f.value:.4g} < {MARKS[f.name]:g}"
        for f in found
        if f.name in MARKS and f.value < MARKS[f.name]
    ]
    return below + [
        f"{f.name} {f.value:.4g} > {LIMITS[f.name]:g}"
        for f in found
        if f.name in LIMITS and f.value > LIMITS[f.name]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence", description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="the short form, about six minutes; writes build/bench/evidence-quick.json and build/evidence-quick/docs",
    )
    parser.add_argument(
        "--hours",
        type=float,
        default=8.0,
        help="stop after so long; what has run is kept; 0 makes the document anew from docs/results [8]",
    )
    parser.add_argument(
        "--again",
        default="",
        metavar="METHODS",
        help="runs of these, by comma, are forgotten first: the library is another one now",
    )
    parser.add_argument("--studies", type=int, default=len(STUDIES), help="only the first so many")
    parser.add_argument(
        "--only",
        choices=("all", "fitted", "unseen"),
        default="all",
        help="run only the jobs that constants were fitted to, or only the others; the document has both [all]",
    )
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="of unseen jobs [3]")
    asked = parser.parse_args()
    if asked.quick:
        return quick(asked.hours)
    runner = Runner(3600 * asked.hours)
    runner.forget([name for name in asked.again.split(",") if name])
    docs = figures.ROOT / "docs"
    complete = True
    if asked.only != "unseen":
        wanted = dict(list(WANTED.items())[: asked.studies])
        complete = run(runner, wanted, SEEDS, docs / "results")
    if asked.only != "fitted":
        complete &= unseen.run(runner, SEEDS[: asked.seeds], docs / "results")
    records, others = kept.read_all(docs / "results", WANTED), unseen.read_all(docs / "results")
    found = all_figures(records, others)
    publish("evidence", docs, WANTED, records, found, others)
    for words in missed(found):
        print(f"missed: {words}", file=sys.stderr)
    if not complete:
        print("not complete: run it again to go on", file=sys.stderr)
    return 0


def quick(hours: float) -> int:
    folder = FOLDER.with_name("evidence-quick")
    shutil.rmtree(
        folder, ignore_errors=True
    )  # short enough to begin anew: what is tested is today's code
    runner = Runner(min(3600 * hours, 900), folder)
    docs, wanted = folder / "docs", {QUICK: QUICK_METHODS}
    complete = run(runner, wanted, SEEDS[:1], docs / "results")
    records = kept.read_all(docs / "results", wanted)
    if not complete or QUICK not in records or records[QUICK].failures:
        print("evidence-quick: not all of it ran", file=sys.stderr)
        return 1
    judge = Judge(records[QUICK].curves)
    found = []
    for name in QUICK_METHODS:
        finite = [ratio for ratio in judge.ratios(name) if math.isfinite(ratio)]
        if name != "auto" and finite:
            found.append(
                figures.spread(
                    f"tta_over_{name.partition(':')[0]}/quick", finite, "x, too short to mean much"
                )
            )
    publish("evidence-quick", docs, wanted, records, found)
    return 0


def publish(
    name: str,
    docs: Path,
    wanted: document.Wanted,
    records: document.Records,
    found: list[figures.Figure],
    others: unseen.Records | None = None,
) -> None:
    """Prints the table, writes the figures as JSON, and the document with charts and tables."""
    print(figures.show(found))
    studies = {study.name: tables.rows(record) for study, record in records.items()}
    plans = {
        f"{study.name}, {method}": chosen
        for study, record in records.items()
        for method, chosen in record.plans.items()
    }
    checks = {
        study.name: [dataclasses.asdict(check) for check in record.checks]
        for study, record in records.items()
        if record.checks
    }
    failures = {
        f"{study.name}, {what}": why
        for study, record in records.items()
        for what, why in record.failures.items()
    }
    figures.write(
        name,
        found,
        marks=MARKS | LIMITS,
        missing=document.missing(wanted, records),
        failures=failures,
        checks=checks,
        plans=plans,
        studies=studies,
    )
    document.write(docs, wanted, records, found, missed(found), others or {})


if __name__ == "__main__":
    sys.exit(main())
