# SPDX-License-Identifier: MIT
"""Detection of optimizer steps that a GradScaler skipped because gradients were not finite.

Under updates the gradients are one rank's own, so one rank may skip a step that others take. Ranks
meet by their counts of steps, so a skipped step counts, as one without progress."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

import torch


class StepCounter(Protocol):
    def count(self, optimizer: torch.optim.Optimizer) -> int | None: ...
    def skipped(self, optimizer: torch.optim.Optimizer) -> None: ...


_counters: weakref.WeakSet[StepCounter] = weakref.WeakSet()
"""Those of all averagers: one scaler may step the optimizers of several models."""


class SkippedSteps:
    """Tells the counters of all averagers about steps that `scaler` skips, until `stop`. scaler:
    None if there is none."""

    def __init__(self, scaler: Any, counter: StepCounter) -> None:
        self._scaler = scaler
        self._counter = counter
        _counters.add(counter)
        if scaler is not None:
            step = scaler.__dict__.get("step")
            if not isinstance(step, _ObservedStep):
                step = scaler.step = _ObservedStep(scaler.step)
            step.users += 1

    def stop(self) -> None:
        _counters.discard(self._counter)
        scaler, self._scaler = self._scaler, None
        step = None if scaler is None else scaler.__dict__.get("step")
        if isinstance(step, _ObservedStep):
            step.users -= 1
            if step.users == 0:
                del scaler.step


class _ObservedStep:
    """scaler.step() that notices whether the optimizer stepped."""

    def __init__(self, step: Any) -> None:
        self.users = 0
        self._step = step

    def __call__(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        inner = getattr(optimizer, "optimizer", optimizer)
        before = [(counter, counter.count(inner)) for counter in list(_counters)]
        result = self._step(optimizer, *args, **kwargs)
        for counter, count in before:
            if count is not None and counter.count(inner) == count:
                counter.skipped(inner)
        return result
