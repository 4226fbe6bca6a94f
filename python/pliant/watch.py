# SPDX-License-Identifier: MIT
"""Looks over the shoulder of a training loop, with public hooks only: when does a backward begin,
has somebody rescaled the averages, was the optimizer restored without us."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle

if TYPE_CHECKING:
    from pliant.averager import Averager


class Watch:
    """For one averager, until `stop`. Holds it weakly: the hooks must not keep it alive."""

    def __init__(
        self,
        averager: Averager,
        module: nn.Module | None,
        optimizers: Sequence[torch.optim.Optimizer],
    ) -> None:
        self._averager = weakref.ref(averager)
        self._handles: list[RemovableHandle] = []
        if module is not None:
            self._handles.append(
                module.register_forward_pre_hook(out_of_graphs(self._before_forward))
            )
            self._handles.append(module.register_forward_hook(out_of_graphs(self._after_forward)))
        for optimizer in optimizers:
            self._handles.append(optimizer.register_step_post_hook(self._after_step))
            self._handles.append(
                optimizer.register_load_state_dict_post_hook(self._optimizer_loaded)
            )
        if not optimizers:  # some step must use the averages: any optimizer's
            self._handles.append(register_optimizer_step_post_hook(self._after_step))

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _before_forward(self, module: nn.Module, inputs: object) -> None:
        if (averager := self._averager()) is not None:
            averager.look_for_rescaling()

    def _after_forward(self, module: nn.Module, inputs: object, output: object) -> None:
        """The gradient of an output exists before that of any parameter: the moment when a backward
        begins. Looking in forward would be too early, for loops that clear their gradients between
        forward and backward."""
        if not torch.is_grad_enabled():
            return
        begun = _Once(self._averager)
        for tensor in _tensors(output):
            if tensor.requires_grad:
                tensor.register_hook(begun)  # type: ignore[no-untyped-call]

    def _after_step(self, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        if (averager := self._averager()) is not None:
            averager.look_for_rescaling()

    def _optimizer_loaded(self, optimizer: torch.optim.Optimizer) -> None:
        if (averager := self._averager()) is not None:
            averager.optimizer_was_restored()


def out_of_graphs(function: Callable[..., None]) -> Callable[..., None]:
    """Not for torch.compile to look into."""
    kept_out: Callable[..., None] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
    return kept_out


class _Once:
    """Of the outputs of one forward, the first whose gradient arrives says that a backward has
    begun."""

    def __init__(self, averager: weakref.ref[Averager]) -> None:
        self._averager: weakref.ref[Averager] | None = averager

    def __call__(self, gradient: torch.Tensor) -> None:
        if self._averager is None:
            return
        averager, self._averager = self._averager(), None
        if averager is not None:
            averager.begin_backward()


def _tensors(output: object) -> Iterator[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        yield output
    elif isinstance(output, Mapping):
        for value in output.values():
            yield from _tensors(value)
    elif isinstance(output, (list, tuple, set)):
        for value in output:
            yield from _tensors(value)
    elif dataclasses.is_dataclass(output):
        fields: Any = vars(output)
        for value in fields.values():
            yield from _tensors(value)
