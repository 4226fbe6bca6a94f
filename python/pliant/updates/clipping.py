# SPDX-License-Identifier: MIT
"""Clipping of this rank's own gradient where no exchange does it: under updates, and with one rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


class Clipping:
    """norm: None clips nothing. is_on: whether gradients are clipped here in this step."""

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        norm: float | None,
        is_on: Callable[[], bool | None],
    ) -> None:
        self._parameters = parameters
        self._norm = norm
        self._is_on = is_on

    def before_step(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Before an optimizer's step: clips, and returns other arguments if the step is given a
        closure, which has the gradients only later."""
        if self._norm is None or not self._is_on():
            return None
        closures = [place for place, argument in enumerate(args) if callable(argument)]
        if closures:
            place = closures[0]  # the arguments of a step pre-hook begin with the optimizer
            clipped = self._clipped(optimizer, args[place])
            return (*args[:place], clipped, *args[place + 1 :]), kwargs
        if callable(kwargs.get("closure")):
            return args, {**kwargs, "closure": self._clipped(optimizer, kwargs["closure"])}
        self._clip(optimizer)
        return None

    def _clipped(
        self, optimizer: torch.optim.Optimizer, closure: Callable[[], Any]
    ) -> Callable[[], Any]:
        def clipped() -> Any:
            loss = closure()
            self._clip(optimizer)
            return loss

        return clipped

    def _clip(self, optimizer: torch.optim.Optimizer) -> None:
        assert self._norm is not None
        scale = getattr(optimizer, "grad_scale", None)  # of steps that unscale by themselves
        gradients = [tensor.grad for tensor in self._parameters if tensor.grad is not None]
        total = torch.nn.utils.get_total_norm(gradients)
        # Of an FSDP2 module each rank has a part of it.
        norm = total.full_tensor() if hasattr(total, "full_tensor") else total
        limit = self._norm * (1.0 if scale is None else float(scale))
        if limit < norm < float("inf"):
            torch._foreach_mul_(gradients, float(limit / norm))
