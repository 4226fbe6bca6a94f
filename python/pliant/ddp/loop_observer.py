# SPDX-License-Identifier: MIT
"""Observer of a training loop through PyTorch's public hooks: detects forwards that train, moments
at which gradients may have been rescaled, and an optimizer that was restored."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle


class TrainingEvents(Protocol):
    def before_training_forward(self) -> None: ...
    def look_for_rescaling(self) -> None: ...
    def optimizer_was_restored(self) -> None: ...


class LoopObserver:
    """Calls the methods of `events` until `stop`. Holds it weakly, so that the hooks do not keep it
    alive."""

    def __init__(
        self,
        events: TrainingEvents,
        module: nn.Module,
        optimizers: Sequence[torch.optim.Optimizer],
    ) -> None:
        self._events = weakref.ref(events)
        self._handles: list[RemovableHandle] = [
            module.register_forward_pre_hook(CallHook(self._before_forward))
        ]
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
            if torch.is_grad_enabled():
                events.before_training_forward()

    def _after_step(self, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        if (events := self._events()) is not None:
            events.look_for_rescaling()

    def _optimizer_loaded(self, optimizer: torch.optim.Optimizer) -> None:
        if (events := self._events()) is not None:
            events.optimizer_was_restored()


class ModuleHook:
    """Hook of a module. A module may be copied or pickled with its hooks: in the copy, a function
    of the standard library that does nothing is in the hook's place. So a file of the model can be
    loaded without pliant."""

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (contextlib.nullcontext(), "__exit__")

    @property
    def __name__(self) -> str:
        """torch.jit.script asks for it, to compile the hook."""
        raise AttributeError(
            "torch.jit.script cannot compile a model while Pliant is attached and ranks train "
            "locally. Call averager.close() first."
        )


def takes_hooks(module: nn.Module) -> bool:
    """Whether hooks can be registered: parts that torch.jit has compiled refuse them."""
    return not isinstance(module, torch.jit.ScriptModule)


class CallHook(ModuleHook):
    """Hook that calls a function, outside of torch.compile's graphs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: object) -> None:
        _call(self._function, *arguments)


def not_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, excluded from the graphs of torch.compile."""
    excluded: Callable[..., Any] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
    return excluded


@not_compiled
def _call(function: Callable[..., Any], *arguments: object) -> None:
    function(*arguments)
