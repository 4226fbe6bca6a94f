# SPDX-License-Identifier: MIT
"""Figures of jobs that no constant was fitted to: what both goals cost and gain at the end of a
schedule, on the changing network C1 at 5x.

Under goal steps a job trains plain DDP's steps. Under goal time its schedule is stretched
(`pliant.stretch`), so that it ends with plain DDP's progress. Each study is kept as a small file in
docs/results; a seed is kept when all of its runs are there."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import figures
from evidence import histograms, specs
from evidence.curves import Curve
from evidence.histograms import Plans
from evidence.judge import Judge, steps_by_line
from evidence.runs import Runner, TimeIsUp
from evidence.study import Study, entries, stretch
from evidence.unseen_jobs import UNSEEN

STUDIES = tuple(Study(job, "c1", 5, published=False) for job in UNSEEN)
SHORTER = (0.65, 0.8, 0.9)  # of plain DDP's steps, with a schedule as short: what steps are worth
GOALS = {"auto-steps": "steps", "auto": "time"}
POINTS = 31  # of a kept curve
MARKS = {"unseen/speedup_steps": 2.5, "unseen/tta_over_ddp": 4, "unseen/tta_over_ddp_least": 2}
LIMITS = {
    "unseen/loss_gap_end": 0.005, "unseen/loss_gap_end_worst": 0.015,
    "unseen/worth_error": 0.07, "unseen/worth_error_worst": 0.2,
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One training to the end of its schedule."""

    method: str
    seed: int
    end: float  # the loss of the model that is left
    effective: float | None  # steps, as the averager counts them; None: plain DDP
    curve: list[tuple[int, float, float]]  # step, seconds, loss

    @property
    def steps(self) -> int:
        return self.curve[-1][0]

    @property
    def seconds(self) -> float:
        return self.curve[-1][1]


@dataclass
class Record:
    """All runs of one study."""

    runs: list[Run] = field(default_factory=list)
    shorter: list[tuple[int, int, float]] = field(default_factory=list)  # seed, steps, end loss
    plans: Mapping[str, Plans] = field(default_factory=dict)
    stretch: float = 0.0
    ran: str = ""
    note: str = ""  # what else a reader should know

    def of(self, method: str) -> list[Run]:
        return [run for run in self.runs if run.method == method]

    def end(self, method: str) -> float:
        """The mean over seeds."""
        return statistics.fmean(run.end for run in self.of(method))

    def gaps(self) -> list[float]:
        """Loss at the end under goal steps over plain DDP's, minus 1; of each seed."""
        return [
            ours.end / plain.end - 1
            for ours, plain in zip(self.of("auto-steps"), self.of("ddp"), strict=True)
        ]

    def spread_of_ddp(self) -> float:
        ends = [run.end for run in self.of("ddp")]
        return (max(ends) - min(ends)) / statistics.median(ends)

    def speedup(self) -> float:
        """Plain DDP's time for its steps over that of goal steps."""
        return statistics.median(
            plain.seconds / ours.seconds
            for ours, plain in zip(self.of("auto-steps"), self.of("ddp"), strict=True)
        )

    def sooner(self) -> float:
        """Plain DDP's time to its own losses over that of goal time, with the same seed: the median
        over seeds, then over targets. 0: never there."""
        by_seed = [self._judge(run.seed).ratios("ddp", "auto") for run in self.of("ddp")]
        return statistics.median(map(statistics.median, zip(*by_seed, strict=True)))

    def sooner_than_all(self) -> float:
        """The same with targets that all seeds share, medians of plain DDP's losses, as in the
        other studies. Infinite or 1 where a schedule of plain DDP ends above such a target."""
        return statistics.median(self._judge().ratios("ddp", "auto"))

    def learnt(self, method: str) -> float:
        """The worth of a step, as the averager has it."""
        return statistics.fmean((run.effective or 0) / run.steps for run in self.of(method))

    def measured(self, method: str) -> float:
        """Plain DDP's steps to the same loss at the end of a schedule, over the steps it took."""
        lengths = sorted({steps for _, steps, _ in self.shorter})
        curve = [
            (length, statistics.fmean(end for _, steps, end in self.shorter if steps == length))
            for length in lengths
        ]
        curve.append((self.of("ddp")[0].steps, self.end("ddp")))
        taken = statistics.fmean(run.steps for run in self.of(method))
        return steps_by_line(self.end(method), curve) / taken

    def _judge(self, seed: int | None = None) -> Judge:
        """Of one seed: schedules end near the last target, which another seed may never reach. Or
        of all."""

        def curve(run: Run) -> Curve:
            steps, times, losses = zip(*run.curve, strict=True)
            return Curve(times, steps, losses, (0.0,) * len(steps))

        runs = [run for run in self.runs if seed in (None, run.seed)]
        return Judge({(run.method, run.seed): curve(run) for run in runs})


Records = dict[Study, Record]


# --- running ---


def run(runner: Runner, seeds: Collection[int], results: Path) -> bool:
    """All jobs with the first seed, then with the next. What was kept is replaced by as many seeds,
    if they are all, or by more. False: the budget cut it short."""
    before = {study: len(record.of("ddp")) for study, record in read_all(results).items()}
    for done in range(1, len(seeds) + 1):
        for study in STUDIES:
            try:
                record = run_study(runner, study, tuple(seeds)[:done])
            except TimeIsUp:
                return False
            if done == len(seeds) or done > before.get(study, 0):
                write(results, study, record)
    return True


def run_study(runner: Runner, study: Study, seeds: Collection[int]) -> Record:
    shorter = {
        (seed, round(share * study.length)): shortened(study, seed, share)
        for seed in seeds
        for share in SHORTER
    }
    runner.prepare([*shorter.values(), *(study.trained("ddp", seed) for seed in seeds)])
    study.prepare(runner, GOALS, seeds)
    record = Record(
        shorter=[(*key, runner.result(spec)["curve"][-1][1]) for key, spec in shorter.items()],
        plans={method: histograms.of(runner, study, method, seeds) for method in GOALS},
        stretch=stretch(study, runner),
        ran=time.strftime("%Y-%m-%d"),
    )
    for seed in seeds:
        for method in ("ddp", *GOALS):
            spec = (
                study.trained(method, seed) if method == "ddp" else study.full(runner, method, seed)
            )
            result = runner.result(spec)
            curve = study.curve(runner, method, seed)
            record.runs.append(
                Run(
                    method,
                    seed,
                    result["curve"][-1][1],
                    result.get("effective_steps"),
                    list(zip(curve.steps, curve.times, curve.losses, strict=True)),
                )
            )
    return record


def shortened(study: Study, seed: int, share: float) -> specs.Spec:
    """Plain DDP with fewer steps, and a schedule that ends with them."""
    steps = round(share * study.length)
    return specs.Spec(
        "train", study.job, "ddp", seed, study.hosts, steps, snapshot_every=steps
    )  # fmt: skip


# --- keeping ---


def write(folder: Path, study: Study, record: Record) -> None:
    """Rounds: what is read again is not quite what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    head = {
        "study": study.name,
        "ran": record.ran,
        "compute": study.compute,
        "stretch": record.stretch,
        "note": record.note,
        "plans": record.plans,
        "shorter": [[seed, steps, round(end, 5)] for seed, steps, end in record.shorter],
        "curve": ["step", "seconds", "loss"],
    }
    lines = [json.dumps(head)]
    for one in record.runs:
        last = len(one.curve) - 1
        chosen = sorted({round(i * last / (POINTS - 1)) for i in range(POINTS)})
        points = [
            [one.curve[i][0], round(one.curve[i][1], 2), round(one.curve[i][2], 5)] for i in chosen
        ]
        effective = one.effective and round(one.effective, 3)
        run = {**asdict(one), "end": round(one.end, 5), "effective": effective, "curve": points}
        lines.append(json.dumps(run))
    _path(folder, study).write_text("\n".join(lines) + "\n")


def read_all(folder: Path) -> Records:
    """Those that were kept."""
    found: Records = {}
    for study in STUDIES:
        if not (path := _path(folder, study)).exists():
            continue
        head, *runs = map(json.loads, path.read_text().splitlines())
        found[study] = Record(
            [Run(**{**run, "curve": [tuple(point) for point in run["curve"]]}) for run in runs],
            [(seed, steps, end) for seed, steps, end in head["shorter"]],
            head["plans"],
            head["stretch"],
            head["ran"],
            head["note"],
        )
    return found


def _path(folder: Path, study: Study) -> Path:
    return folder / f"unseen-{study.file_name}.jsonl"


# --- figures ---


def worth_errors(record: Record) -> dict[str, float]:
    """By method."""
    return {m: abs(record.learnt(m) / record.measured(m) - 1) for m in GOALS}


def figures_of(records: Records) -> list[figures.Figure]:
    """Medians over jobs; the spread is that of the jobs."""
    if not records:
        return []
    every = list(records.values())

    def over_jobs(name: str, of: Callable[[Record], float], unit: str) -> figures.Figure:
        return figures.spread(f"unseen/{name}", [of(record) for record in every], unit)

    def extreme(
        name: str, pick: Callable[[Iterable[float]], float], of: Callable[[Record], float]
    ) -> figures.Figure:
        return figures.exact(f"unseen/{name}", pick(map(of, every)), "the worst job")

    errors = [
        error for record in every for error in worth_errors(record).values() if math.isfinite(error)
    ]
    return [
        over_jobs("loss_gap_end", _gap, "of plain DDP's loss at the end, goal steps"),
        extreme("loss_gap_end_worst", max, _gap),
        over_jobs("loss_spread_of_ddp", Record.spread_of_ddp, "between DDP's own seeds"),
        over_jobs("speedup_steps", Record.speedup, "x, time for the same steps, goal steps"),
        over_jobs("tta_over_ddp", Record.sooner, "x, time to plain DDP's losses, goal time"),
        extreme("tta_over_ddp_least", min, Record.sooner),
        over_jobs("tta_over_ddp_shared", Record.sooner_than_all, "x, targets shared by all seeds"),
        extreme("tta_over_ddp_shared_least", min, Record.sooner_than_all),
        figures.spread("unseen/worth_error", errors, "of the measured worth, both goals"),
        figures.exact("unseen/worth_error_worst", max(errors), "the worst job and goal"),
    ]


def _gap(record: Record) -> float:
    return statistics.median(record.gaps())


# --- the section of docs/results.md ---


def rows(records: Records) -> list[list[object]]:
    """A row for each job; COLUMNS names what is in it."""
    found: list[list[object]] = []
    for study, record in records.items():
        worth = [f"{record.learnt(m):.2f} ({record.measured(m):.2f})" for m in GOALS]
        sooner = record.sooner()
        found.append(
            [
                f"{study.job} ({len(record.of('ddp'))})",
                f"{100 * _gap(record):+.2f} %",
                f"{100 * record.spread_of_ddp():.2f} %",
                f"{record.speedup():.2f}x",
                f"{sooner:.2f}x" if math.isfinite(sooner) and sooner > 0 else "not reached",
                *worth,
            ]
        )
    return found


COLUMNS = (
    "job (seeds)", "loss at the end, goal steps", "DDP's seeds differ by", "same steps, goal steps",
    "to DDP's losses, goal time", "worth, goal steps", "worth, goal time",
)  # fmt: skip

WORDS = {  # model; data; optimizer and schedule
    "bytes": ("transformer over bytes", "sources of Python's standard library", "AdamW (0.9, 0.95), one cycle, clipped to 1.0"),
    "lstm": ("LSTM over bytes", "Python's manual", "AdamW, cosine to zero, clipped to 0.5"),
    "lora": ("low-rank adaptation of a trained transformer", "Python's manual; trained on sources", "AdamW, up and down in straight lines, clipped to 1.0"),
    "unet": ("U-Net that removes noise", "generated pictures", "Adam, up and down in straight lines"),
    "table": ("multilayer perceptron", "generated table, 6 classes", "SGD with Nesterov momentum, one cycle"),
}  # fmt: skip


def jobs(records: Records) -> list[list[object]]:
    """A row for each job: name, model, trained parameters, data, optimizer."""
    return [
        [study.job, WORDS[study.job][0], f"{entries(study.job):,}", *WORDS[study.job][1:]]
        for study in records
    ]


def notes(records: Records) -> str:
    """When they ran, and what else was noted, each once."""
    said = dict.fromkeys(f"Ran {record.ran}. {record.note}".strip() for record in records.values())
    shared = sorted(record.sooner_than_all() for record in records.values())
    return "\n".join(
        [
            *said,
            "",
            "Comparing within a seed was decided after the first runs: schedules end near the last "
            "target, which another seed may never reach. With targets that all seeds share, as in "
            f"the other studies, the times to DDP's losses are {shared[0]:.2f}x to "
            f"{shared[-1]:.2f}x, in the median {statistics.median(shared):.2f}x.",
        ]
    )


JOB_COLUMNS = ("job", "model", "trained parameters", "data", "optimizer and schedule")

TEXT = """## Jobs that nothing was fitted to

The constants of the model were committed before these jobs first ran, and have not changed since. Network C1 at 5x. Under goal steps a job trains as many steps as plain DDP; under goal time its schedule is stretched by what steps are worth. `loss at the end` is relative to plain DDP's; the next column says how far plain DDP's own seeds lie apart. Worth is the averager's, with the measured one in brackets: plain DDP's steps to the same loss at the end of a schedule, over the steps taken. Times to DDP's losses are to those at 30 %, 60 % and 90 % of its steps, of the same seed.

"""
