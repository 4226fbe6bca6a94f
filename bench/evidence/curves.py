# SPDX-License-Identifier: MIT
"""Curves of the loss over time. A method that does not look at the network has one loss-by-step,
whatever the network, and a step time in each phase: the two together are its curve over any
timeline. An adaptive method's curve is measured as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SMOOTHED_OVER = 32  # steps to either side: with 8, fp16, which rounds and does nothing else, seemed to lose a tenth


@dataclass(frozen=True)
class Curve:
    times: tuple[float, ...]  # seconds, at each evaluated step
    steps: tuple[int, ...]
    losses: tuple[float, ...]
    accuracies: tuple[float, ...]

    def time_to_loss(self, target: float) -> float | None:
        """When the loss first falls to the target, between two evaluations by a straight line.
        None: never."""
        before: tuple[float, float] | None = None
        for when, loss in zip(self.times, self.losses, strict=True):
            if loss <= target:
                if before is None or before[1] <= target:
                    return when
                share = (before[1] - target) / (before[1] - loss)
                return before[0] + share * (when - before[0])
            before = (when, loss)
        return None

    def time_to_accuracy(self, target: float) -> float | None:
        return Curve(
            self.times, self.steps, tuple(-a for a in self.accuracies), self.accuracies
        ).time_to_loss(-target)

    def at_time(self, when: float) -> tuple[float, float]:
        """(loss, accuracy) of the last evaluation up to then."""
        past = [i for i, t in enumerate(self.times) if t <= when]
        i = past[-1] if past else 0
        return self.losses[i], self.accuracies[i]

    def at_step(self, step: float) -> tuple[float, float]:
        """(loss, accuracy), between two evaluations by a straight line."""
        after = next((i for i, s in enumerate(self.steps) if s >= step), len(self.steps) - 1)
        before = max(after - 1, 0)
        width = self.steps[after] - self.steps[before]
        share = min((step - self.steps[before]) / width, 1.0) if width else 1.0

        def between(values: Sequence[float]) -> float:
            return values[before] + share * (values[after] - values[before])

        return between(self.losses), between(self.accuracies)

    def until(self, step: int) -> Curve:
        """Up to this step."""
        n = sum(s <= step for s in self.steps)
        return Curve(self.times[:n], self.steps[:n], self.losses[:n], self.accuracies[:n])

    def final_accuracy(self) -> float:
        """Mean over the last tenth of the steps: single evaluations jump."""
        last = [
            accuracy
            for step, accuracy in zip(self.steps, self.accuracies, strict=True)
            if step > 0.9 * self.steps[-1]
        ]
        return sum(last) / len(last)

    def smoothed(self) -> Curve:
        """Each loss the mean of all that are near, so that a lucky dip does not count as
        arrival."""
        reach = min(SMOOTHED_OVER, self.steps[-1] // 20)
        near = [
            [i for i, other in enumerate(self.steps) if abs(other - step) <= reach]
            for step in self.steps
        ]

        def mean(values: Sequence[float]) -> tuple[float, ...]:
            return tuple(sum(values[i] for i in some) / len(some) for some in near)

        return Curve(self.times, self.steps, mean(self.losses), mean(self.accuracies))


def measured(result: dict[str, Any]) -> Curve:
    steps, losses, accuracies = zip(*result["curve"], strict=True)
    return Curve(tuple(result["ends"][s - 1] for s in steps), steps, losses, accuracies).smoothed()


def composed(
    trained: dict[str, Any],
    step_times: Sequence[tuple[int, float]],
    warm: Sequence[tuple[int, float]] = (),
    warm_steps: int = 0,
) -> Curve:
    """step_times: (first step, seconds a step) for each phase; the first `warm_steps` take what
    `warm` says instead."""

    def duration(step: int) -> float:
        table = warm if step < warm_steps and warm else step_times
        return [seconds for first, seconds in table if first <= step][-1]

    ends, clock = [], 0.0
    for step in range(len(trained["losses"])):
        clock += duration(step)
        ends.append(clock)
    return measured({**trained, "ends": ends})
