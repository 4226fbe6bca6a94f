# SPDX-License-Identifier: MIT
"""Judge of a study: turns curves into figures. A ratio of times is always the other method's time /
Pliant's: more is better for Pliant. A target that a method never reaches counts as infinitely
late."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from evidence.curves import Curve
from evidence.methods import METHODS

# Targets are plain DDP's own losses, at these shares of its steps, the median over seeds: near,
# middle and late in training.
TARGETS = (0.3, 0.6, 0.9)
OURS = "auto"

Curves = dict[tuple[str, int], Curve]  # (method, seed)


@dataclass(frozen=True)
class Judge:
    """All curves of one study."""

    curves: Curves

    @property
    def seeds(self) -> list[int]:
        return sorted({seed for _, seed in self.curves})

    @property
    def length(self) -> int:
        """Steps that all methods have in common: plain DDP's. Some went on for longer, to see when
        they get there."""
        return self.curves["ddp", self.seeds[0]].steps[-1]

    def late(self) -> list[str]:
        """Methods that some seed did not bring to the last target, though most reached the one
        before: they may get there yet. Not plain DDP, whose steps are the measure: the target is
        its own median."""
        names = dict.fromkeys(method for method, _ in self.curves if method != "ddp")
        near = [name for name in names if math.isfinite(self.median_times(name)[-2])]
        return [
            name
            for name in near
            if any(math.isinf(self.times(name, seed)[-1]) for seed in self.seeds)
        ]

    def methods(self, family: str) -> list[str]:
        return [
            name
            for name in dict.fromkeys(method for method, _ in self.curves)
            if METHODS[name].family == family
        ]

    def targets(self) -> list[float]:
        return [
            statistics.median(self._plain_at(share, seed)[0] for seed in self.seeds)
            for share in TARGETS
        ]

    def times(self, method: str, seed: int) -> list[float]:
        """To each of the targets."""
        return [
            _or_never(self.curves[method, seed].time_to_loss(target)) for target in self.targets()
        ]

    def ratios(self, theirs: str, ours: str = OURS) -> list[float]:
        """For every seed and target."""
        return [
            over(t, o)
            for seed in self.seeds
            for t, o in zip(self.times(theirs, seed), self.times(ours, seed), strict=True)
        ]

    def median_times(self, method: str) -> list[float]:
        """To each of the targets, over seeds."""
        return [
            statistics.median(column)
            for column in zip(*(self.times(method, seed) for seed in self.seeds), strict=True)
        ]

    def speedups(self, theirs: str, ours: str = OURS) -> list[float]:
        """For every target: medians over seeds first, since when one noisy curve first touches a
        loss says little."""
        return [
            over(t, o)
            for t, o in zip(self.median_times(theirs), self.median_times(ours), strict=True)
        ]

    def accuracy_target(self) -> float:
        """Plain DDP's own, late in training."""
        return statistics.median(self._plain_at(TARGETS[-1], seed)[1] for seed in self.seeds)

    def _plain_at(self, share: float, seed: int) -> tuple[float, float]:
        """Plain DDP's loss and accuracy after this share of its steps."""
        return self.curves["ddp", seed].at_step(share * self.length)

    def time_to_accuracy(self, method: str, seed: int) -> float:
        return _or_never(self.curves[method, seed].time_to_accuracy(self.accuracy_target()))

    def accuracy_ratios(self, theirs: str, ours: str = OURS) -> list[float]:
        """As `ratios`, of the times to an accuracy."""
        return [
            over(self.time_to_accuracy(theirs, seed), self.time_to_accuracy(ours, seed))
            for seed in self.seeds
        ]

    def worth(self, method: str) -> float:
        """Worth of a step: plain DDP's steps to the targets / the method's, the median over targets
        and seeds."""

        def steps(name: str, seed: int) -> list[float]:
            curve = self.curves[name, seed]
            by_step = Curve(
                tuple(map(float, curve.steps)), curve.steps, curve.losses, curve.accuracies
            )
            return [_or_never(by_step.time_to_loss(target)) for target in self.targets()]

        return statistics.median(
            over(t, o)
            for seed in self.seeds
            for t, o in zip(steps("ddp", seed), steps(method, seed), strict=True)
        )

    def best(self, names: Iterable[str]) -> str:
        """The one method of these that is soonest over all targets and seeds: the geometric mean of
        its times over plain DDP's, unreached ones last."""

        def lateness(name: str) -> tuple[int, float]:
            pairs = [
                pair
                for seed in self.seeds
                for pair in zip(self.times("ddp", seed), self.times(name, seed), strict=True)
            ]
            reached = [math.log(o / t) for t, o in pairs if math.isfinite(o) and math.isfinite(t)]
            return sum(math.isinf(o) for _, o in pairs), statistics.fmean(
                reached
            ) if reached else 0.0

        return min(names, key=lateness)

    def accuracy_deltas(self, ours: str = OURS) -> list[float]:
        """Points, after the same number of steps."""
        return [
            100 * (self.final_accuracy(ours, s) - self.final_accuracy("ddp", s)) for s in self.seeds
        ]

    def final_accuracy(self, method: str, seed: int) -> float:
        """After the steps that all have in common."""
        return self.curves[method, seed].until(self.length).final_accuracy()

    def whole(self, method: str, seed: int) -> float:
        """Seconds for the steps that all have in common."""
        return self.curves[method, seed].until(self.length).times[-1]

    def accuracy_when_ddp_ends(self, ours: str = OURS) -> list[float]:
        """Points over DDP's, at the moment it is done. Ours may have run out of steps by then: what
        it had at its end counts."""
        return [
            100
            * (
                self.curves[ours, s].at_time(self.curves["ddp", s].times[-1])[1]
                - self.curves["ddp", s].accuracies[-1]
            )
            for s in self.seeds
        ]

    def spread_of_dense(self) -> float:
        """Points between the best and the worst seed of plain DDP."""
        finals = [self.final_accuracy("ddp", seed) for seed in self.seeds]
        return 100 * (max(finals) - min(finals))

    def slowdowns(self, ours: str = OURS) -> list[float]:
        """Time of all steps over plain DDP's."""
        return [self.whole(ours, s) / self.whole("ddp", s) for s in self.seeds]


def _or_never(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds


def over(a: float, b: float) -> float:
    """a / b, where both may be never: then nobody wins."""
    if math.isinf(a) and math.isinf(b):
        return 1.0
    return a / b if b > 0 else math.inf


def steps_to(loss: float, curve: Sequence[tuple[int, float]]) -> float:
    """Plain DDP's steps to this loss: between two of its lengths, or beyond the last ones."""
    pairs = list(zip(curve, curve[1:], strict=False))
    for (steps, high), (more, low) in pairs:
        if loss >= low or (steps, high) == pairs[-1][0]:
            return steps + (more - steps) * (high - loss) / max(high - low, 1e-9)
    raise AssertionError("a curve has two points")


def steps_by_line(loss: float, curve: Sequence[tuple[int, float]]) -> float:
    """Plain DDP's steps to this loss by a straight line of loss over the logarithm of steps: the
    losses of single lengths are noisy. Not a number: it learns nothing by training longer."""
    steps, losses = zip(*((math.log(steps), loss) for steps, loss in curve), strict=True)
    slope, at_zero = statistics.linear_regression(steps, losses)
    return math.exp((loss - at_zero) / slope) if slope < 0 else math.nan


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def of(judges: Iterable[Judge], measure: Callable[[Judge], list[float]]) -> list[float]:
    return [value for judge in judges for value in measure(judge)]
