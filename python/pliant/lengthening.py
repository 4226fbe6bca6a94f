# SPDX-License-Identifier: MIT
"""Longer steps for optimizers that divide by a second moment, while their rank trains alone
(docs/updates.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from pliant import model as models


class Lengthening:
    """From the begin of an optimizer's step to its end its learning rates are multiplied by
    `factor()`."""

    def __init__(self, optimizers: Sequence[Optimizer], factor: Callable[[], float]) -> None:
        self._factor = factor
        self._fit = {
            id(optimizer) for optimizer in optimizers if models.divides_by_second_moment(optimizer)
        }
        self._kept: dict[
            int, list[tuple[dict[str, Any], Any]]
        ] = {}  # by optimizer: groups and their own rates

    def begin(self, optimizer: Optimizer) -> None:
        self.end(optimizer)  # if its last step ended by an exception
        factor = self._factor() if id(optimizer) in self._fit else 1.0
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
