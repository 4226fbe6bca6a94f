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
        self._kept: dict[
            int, list[tuple[dict[str, Any], Any]]
        ] = {}  # by optimizer: parameter groups and their rates

    def begin(self, optimizer: Optimizer) -> None:
        self.end(optimizer)  # if its last step ended by an exception
        factor = self._factor() if id(optimizer) in self._scaled else 1.0
        if factor == 1.0:
            return
        kept = self._kept[id(optimizer)] = []
        for group in optimizer.param_groups:
            rate = group.get("lr")
            if isinstance(rate, torch.Tensor):  # compiled and captured steps hold on to it
                kept.append((group, rate.clone()))
                rate.mul_(factor)
            elif rate is not None:
                kept.append((group, rate))
                group["lr"] = rate * factor

    def end(self, optimizer: Optimizer) -> None:
        for group, rate in self._kept.pop(id(optimizer), []):
            if isinstance(rate, torch.Tensor):
                group["lr"].copy_(rate)
            else:
                group["lr"] = rate
