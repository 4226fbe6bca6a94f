# SPDX-License-Identifier: MIT
"""Factor on the learning rates of Adam and its relatives under kind updates (docs/updates.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from pliant.updates.optimizers import divides_by_second_moment


class StepScale:
    """Multiplies the learning rates of an optimizer by `factor()` from the begin of its step to its
    end. Other optimizers than Adam and its relatives keep theirs."""

    def __init__(self, optimizers: Sequence[Optimizer], factor: Callable[[], float]) -> None:
        self._factor = factor
        self._scaled = {
            id(optimizer) for optimizer in optimizers if divides_by_second_moment(optimizer)
        }
        self._kept: dict[int, _Rates] = {}  # by optimizer

    def begin(self, optimizer: Optimizer) -> None:
        self.end(optimizer)  # if its last step ended by an exception
        factor = self._factor() if id(optimizer) in self._scaled else 1.0
        if factor != 1.0:
            self._kept[id(optimizer)] = _Rates(optimizer.param_groups, factor)

    def end(self, optimizer: Optimizer) -> None:
        if (rates := self._kept.pop(id(optimizer), None)) is not None:
            rates.restore()

    def stop(self) -> None:
        """Restores rates of steps that ended by an exception."""
        while self._kept:
            self._kept.popitem()[1].restore()


class _Rates:
    """Learning rates of parameter groups, multiplied by `factor` until restore()."""

    def __init__(self, groups: Sequence[dict[str, Any]], factor: float) -> None:
        self._factor = factor
        self._numbers: list[tuple[dict[str, Any], Any]] = []  # parameter groups and their rates
        # A rate that is a tensor is written in place, because compiled and captured steps hold on
        # to it. Groups may share it, so each tensor is written once.
        tensors = {id(rate): rate for group in groups if torch.is_tensor(rate := group.get("lr"))}
        self._tensors = [(rate, rate.detach().clone()) for rate in tensors.values()]
        with torch.no_grad():
            for rate in tensors.values():
                rate.mul_(factor)
        for group in groups:
            rate = group.get("lr")
            if rate is not None and not torch.is_tensor(rate):
                self._numbers.append((group, rate))
                group["lr"] = rate * factor

    def restore(self) -> None:
        """A rate that was changed meanwhile, by a scheduler after a step that raised, keeps its
        change."""
        with torch.no_grad():
            for tensor, rate in self._tensors:
                if torch.equal(tensor, rate * self._factor):
                    tensor.copy_(rate)
                else:
                    tensor.div_(self._factor)
        for group, number in self._numbers:
            changed = group["lr"] != number * self._factor
            group["lr"] = group["lr"] / self._factor if changed else number
