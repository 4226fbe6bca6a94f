# SPDX-License-Identifier: MIT
"""Estimate of the time that a step of plain dense DDP would have taken, from what a run log knows
well: its own dense steps, or exchanges that were nearly as large as a dense one.

Each estimate is a range. There is none where the log knows too little: extrapolating from small
exchanges to a dense one was off by up to 2x in trials, because TCP's slow start and a busy machine
make small exchanges look like a slower link."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from pliant.runlog import plan_text
from pliant.runlog.lines import Header, Link, Step

# Dense steps that make an estimate.
LEAST_SAMPLES = 3
# Links within this factor are taken for the same network. Estimates of one link by plans that send
# much and by plans that send little differ by up to 1.5x.
SAME_NETWORK = 1.6
# Otherwise the model's word counts, if the last exchange had this share of a dense one's bytes, ...
LEAST_BYTES = 0.1
# ... times were predicted this well (median over the last exchanges), ...
LARGEST_ERROR = 0.15
RECENT = 50
# ... and the estimated rate is known this well.
LARGEST_DEVIATION = 0.15
# A machine that stalls makes the link look slower for a few exchanges. Steps on either side:
AROUND = 15
# In ten runs in the lab, on four links, plain DDP took 0.83 to 1.15 times the model's word.
MODEL_RANGE = (0.82, 1.15)
# Dense steps of one network differ from each other.
MEASURED_SPREAD = 0.08


@dataclass(frozen=True)
class Range:
    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


class DenseTime:
    """Knows the dense steps that it was given. Steps come in order."""

    def __init__(self, header: Header) -> None:
        self._dense_bytes = 8 * header.parameters * (header.world - 1) / max(1, header.world)
        self._samples: list[tuple[Link, float]] = []  # the link, and waiting that nothing hid
        self._waiting: list[float] = []  # of dense steps before the first estimate of the link
        self._errors: deque[float] = deque(maxlen=RECENT)
        self._bytes = 0  # of the last step that sent something

    def learn(self, step: Step) -> None:
        if step.link is not None:
            self._samples += [(step.link, exposed) for exposed in self._waiting]
            self._waiting.clear()
        if is_plain_dense(step.plan) and step.exposed is not None and not step.void:
            if step.link is None:
                self._waiting.append(step.exposed)
            else:
                self._samples.append((step.link, step.exposed))
        if step.seen:
            self._bytes = step.bytes
            if step.predicted is not None:
                self._errors.append(abs(step.predicted - step.seen) / step.seen)

    def of(self, step: Step) -> Range | None:
        """For the network of this step; None if the log knows too little."""
        return self.seen(step) or self.predicted(step)

    def seen(self, step: Step) -> Range | None:
        """From this step, if it is dense itself, or from other dense steps."""
        if step.whole is None:
            return None
        if is_plain_dense(step.plan):
            return Range(step.whole, step.whole)
        return self.measured(step)

    def measured(self, step: Step) -> Range | None:
        """From dense steps alone."""
        link = step.link
        if link is None or step.compute is None:
            return None
        near = sorted(exposed for other, exposed in self._samples if _same(link, other))
        if len(near) < LEAST_SAMPLES:
            return None
        low, high = near[len(near) // 4], near[(3 * len(near)) // 4]
        return Range(
            step.compute + low * (1 - MEASURED_SPREAD), step.compute + high * (1 + MEASURED_SPREAD)
        )

    def predicted(self, step: Step) -> Range | None:
        """From the model."""
        link = step.link
        if link is None or step.whole is None or step.dense_step is None or not self._errors:
            return None
        known_well = (
            self._bytes >= LEAST_BYTES * self._dense_bytes
            and median(self._errors) <= LARGEST_ERROR
            and (link.rate_sd or 0.0) <= LARGEST_DEVIATION * link.rate
        )
        if not known_well:
            return None
        return Range(MODEL_RANGE[0] * step.dense_step, MODEL_RANGE[1] * step.dense_step)


def ranges(header: Header, steps: Iterable[Step]) -> dict[int, Range]:
    """By number of the step. Dense steps count for the steps before them, too. The model's word is
    the median of its words around a step."""
    steps = list(steps)
    ahead, behind = DenseTime(header), DenseTime(header)
    for step in steps:
        ahead.learn(step)
    out: dict[int, Range] = {}
    predicted: list[tuple[int, Range]] = []
    for step in steps:
        behind.learn(step)
        if (found := behind.seen(step) or ahead.measured(step)) is not None:
            out[step.step] = found
        elif (found := behind.predicted(step)) is not None:
            predicted.append((step.step, found))
    for place, (number, _) in enumerate(predicted):
        near = [each for _, each in predicted[max(0, place - AROUND) : place + AROUND + 1]]
        out[number] = Range(median(each.low for each in near), median(each.high for each in near))
    return out


def is_plain_dense(plan: str) -> bool:
    """What DDP does: whole gradients as float32, in every step."""
    return (
        not plan_text.is_updates(plan)
        and plan_text.scheme(plan) == "dense"
        and plan_text.value(plan, "values", "f32") == "f32"
    )


def _same(a: Link, b: Link) -> bool:
    def alike(x: float, y: float) -> bool:
        return x > 0 and y > 0 and 1 / SAME_NETWORK <= x / y <= SAME_NETWORK

    return alike(a.rate, b.rate) and alike(a.latency, b.latency)
