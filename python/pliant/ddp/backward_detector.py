# SPDX-License-Identifier: MIT
"""Observer of a training loop through PyTorch's public hooks: detects the start of backward,
moments at which gradients may have been rescaled, and an optimizer that was restored."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle


class TrainingEvents(Protocol):
    def begin_backward(self) -> None: ...
    def look_for_rescaling(self) -> None: ...
    def optimizer_was_restored(self) -> None: ...


class BackwardDetector:
    """Calls the methods of `events` until `stop`. Holds it weakly, so that the hooks do not keep it
    alive."""

    def __init__(
        self,
        events: TrainingEvents,
        module: nn.Module | None,
        optimizers: Sequence[torch.optim.Optimizer],
    ) -> None:
        self._events = weakref.ref(events)
        self._handles: list[RemovableHandle] = []
        if module is not None:
            self._handles.append(
                module.register_forward_pre_hook(not_compiled(self._before_forward))
            )
            self._handles.append(module.register_forward_hook(not_compiled(self._after_forward)))
        for optimizer in optimizers:
            self._handles.append(optimizer.register_step_post_hook(self._after_step))
            self._handles.append(
                optimizer.register_load_state_dict_post_hook(self._optimizer_loaded)
            )
        if not optimizers:  # the steps of any optimizer, since the right one is not known
            self._handles.append(register_optimizer_step_post_hook(self._after_step))

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _before_forward(self, module: nn.Module, inputs: object) -> None:
        if (events := self._events()) is not None:
            events.look_for_rescaling()

    def _after_forward(self, module: nn.Module, inputs: object, output: object) -> None:
        """Hooks the outputs: their gradients exist before those of any parameter, so the first of
        them is the begin of backward. The forward itself would be too early for loops that clear
        their gradients between forward and backward."""
        if not torch.is_grad_enabled():
            return
        begun = _FirstGradient(self._events)
        for tensor in _tensors(output):
            if tensor.requires_grad:
                tensor.register_hook(begun)  # type: ignore[no-untyped-call]

    def _after_step(self, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        if (events := self._events()) is not None:
            events.look_for_rescaling()

    def _optimizer_loaded(self, optimizer: torch.optim.Optimizer) -> None:
        if (events := self._events()) is not None:
            events.optimizer_was_restored()


def not_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, excluded from the graphs of torch.compile."""
    excluded: Callable[..., Any] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
    return excluded


class _FirstGradient:
    """Hook on the outputs of one forward. The first output whose gradient arrives reports that a
    backward has begun."""

    def __init__(self, events: weakref.ref[TrainingEvents]) -> None:
        self._events: weakref.ref[TrainingEvents] | None = events

    def __call__(self, gradient: torch.Tensor) -> None:
        if self._events is None:
            return
        events, self._events = self._events(), None
        if events is not None:
            events.begin_backward()


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
