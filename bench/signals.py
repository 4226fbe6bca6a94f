# SPDX-License-Identifier: MIT
"""Benchmark of signals that might tell, in a run, what horizon and lateness cost it.

Ten small jobs train with 4 workers in one process (bench/worth.py), each plan with some signals
watched. For each job the worth of a plan is then predicted from the other jobs: by a constant, and
by a straight line over one signal. A signal that is worth learning has the smaller error.
docs/model.md has the table.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import statistics
import sys
from collections.abc import Callable

import figures
import torch
from evidence.jobs import Transformer
from evidence.judge import steps_by_line
from worth import PLAIN, Plan, Schedule, Watch, Worker, train

SHORTER = (0.5, 0.7, 0.85, 1.0)  # of plain DDP's steps
WATCHED = (0.15, 0.85)  # of the steps: not the first and not the last
PROBED = 3  # one landing in so many is looked at with backward passes of its own

PLANS = (Plan("every=2", 2), Plan("every=4", 4), Plan("every=8", 8), Plan("late=2", 1, 2))


def _transformer() -> torch.nn.Module:
    return Transformer(64, 2)


def _text(steps: int, peak: float, batch: int | None = None) -> Schedule:
    return Schedule("transformer", _transformer, steps, peak, 1.0, (0.9, 0.95), batch)


JOBS = {
    "CNN": Schedule("cnn", None, 300, 0.05),
    "CNN, 4 samples": Schedule("cnn", None, 300, 0.03, batch=4),
    "CNN, 64 samples": Schedule("cnn", None, 200, 0.08, batch=64),
    "CNN, Adam": Schedule("cnn", None, 300, 2e-3, optimizer="adamw"),
    "CNN, Adam, 4 samples": Schedule("cnn", None, 300, 2e-3, batch=4, optimizer="adamw"),
    "transformer, high rate": _text(240, 6e-3),
    "transformer, low rate": _text(240, 1e-3),
    "transformer, 2 samples": _text(240, 3e-3, 2),
    "transformer, 24 samples": _text(200, 4e-3, 24),
    "ResNet": Schedule("resnet", None, 200, 0.1),
}


class Signals(Watch):
    """Means of each signal over the middle of a training."""

    def __init__(self, plan: Plan, steps: int) -> None:
        self._plan = plan
        self._begin, self._end = (share * steps for share in WATCHED)
        self._last: torch.Tensor | None = None
        self._found: dict[str, list[float]] = {}
        self._by_place: dict[int, list[float]] = {}

    def losses(self, step: int, losses: list[float]) -> None:
        if self._begin < step < self._end:
            place = step % self._plan.every
            self._by_place.setdefault(place, []).append(statistics.fmean(losses))

    def landing(
        self, step: int, workers: list[Worker], result: torch.Tensor, own: list[torch.Tensor]
    ) -> None:
        last, self._last = self._last, result
        if last is None or not self._begin < step < self._end:
            return
        ranks, energy = len(own), float(result @ result)
        apart = statistics.fmean(float(part @ part) for part in own)
        self._note("common share of progress", (ranks * energy / apart - 1) / (ranks - 1))
        self._note(
            "likeness of successive averages",
            float(result @ last) / (energy**0.5 * float(last.norm())),
        )
        if step % PROBED == 0:
            for worker, part in zip(workers, own, strict=True):
                self._probe(worker, result, result - part)

    def _probe(self, worker: Worker, result: torch.Tensor, change: torch.Tensor) -> None:
        """The last batch again, before and after the landing."""
        before = worker.backward_again()
        gradient = worker.gradient.clone()
        worker.parameters.add_(change)
        after = worker.backward_again()
        worker.parameters.sub_(change)
        self._note("curvature at a landing", float((worker.gradient - gradient) @ change))
        self._note("slope along the average", -float(gradient @ result))
        self._note("fall of the loss at a landing", before - after)

    def _note(self, name: str, value: float) -> None:
        self._found.setdefault(name, []).append(value)

    def means(self) -> dict[str, float]:
        found = {name: statistics.fmean(values) for name, values in self._found.items()}
        places = [statistics.fmean(values) for values in self._by_place.values()]
        rise = (max(places) - min(places)) / statistics.fmean(places)
        return {**found, "rise of the loss between landings": rise}


def errors(worth: list[float], signal: list[float] | None) -> list[float]:
    """Of predictions of each job from the others: by their mean, or by a line over the signal."""
    found = []
    for left_out, truth in enumerate(worth):
        others = [value for i, value in enumerate(worth) if i != left_out]
        guess = statistics.fmean(others)
        if signal is not None:
            places = [value for i, value in enumerate(signal) if i != left_out]
            if len(set(places)) > 1:
                slope, at_zero = statistics.linear_regression(places, others)
                guess = at_zero + slope * signal[left_out]
        found.append(abs(guess - truth))
    return found


@functools.cache
def plain_curve(schedule: Schedule, seed: int) -> list[tuple[int, float]]:
    """Plain DDP's loss at the end of schedules of several lengths."""
    lengths = [round(share * schedule.steps) for share in SHORTER]
    return [(steps, train(schedule, PLAIN, seed, steps)) for steps in lengths]


def of_one_seed(schedule: Schedule, plan: Plan, seed: int) -> tuple[float, dict[str, float]]:
    """The worth of a step, and the signals."""
    watch = Signals(plan, schedule.steps)
    loss = train(schedule, plan, seed, schedule.steps, watch)
    worth = steps_by_line(loss, plain_curve(schedule, seed)) / schedule.steps
    return worth, watch.means()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="how many; 20 minutes each [1]")
    seeds = range(1, parser.parse_args().seeds + 1)
    torch.set_num_threads(1)
    worths: dict[str, list[float]] = {plan.name: [] for plan in PLANS}
    signals: dict[str, dict[str, list[float]]] = {plan.name: {} for plan in PLANS}
    for (name, schedule), plan in itertools.product(JOBS.items(), PLANS):
        measured = [of_one_seed(schedule, plan, seed) for seed in seeds]
        worths[plan.name].append(statistics.fmean(worth for worth, _ in measured))
        for signal in measured[0][1]:
            mean = statistics.fmean(means[signal] for _, means in measured)
            signals[plan.name].setdefault(signal, []).append(mean)
        print(f"{name}, {plan.name}: {worths[plan.name][-1]:.3f}", flush=True)
    report(worths, signals)
    return 0


def report(worths: dict[str, list[float]], signals: dict[str, dict[str, list[float]]]) -> None:
    names = ["a constant", *signals[PLANS[0].name]]

    def error(plan: str, name: str, of: Callable[[list[float]], float]) -> float:
        return of(errors(worths[plan], signals[plan].get(name)))

    rows = [[name, *(error(plan, name, statistics.fmean) for plan in worths)] for name in names]
    print(figures.table(["mean error, predicted from", *worths], rows))
    figures.write(
        "signals",
        [
            figures.Figure(
                f"signal_error/{name}/{plan}",
                error(plan, name, statistics.fmean),
                "of worth",
                error(plan, name, min),
                error(plan, name, max),
            )
            for name in names
            for plan in worths
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
