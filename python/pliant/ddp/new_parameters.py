# SPDX-License-Identifier: MIT
"""Refusal of parameters that begin to train after `attach`, and of optimizers that were not
attached: nobody would average what they do, and ranks would drift apart without a word."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from pliant.ddp.loop_observer import not_compiled
from pliant.ddp.parameters import Parameters
from pliant.errors import UnsupportedError


class Owner(Protocol):
    @property
    def group(self) -> dist.ProcessGroup: ...
    @property
    def trains_locally(self) -> bool: ...
    def rule_out_updates(self, why: str) -> None: ...


class NewParameters:
    """Looks at the steps of every optimizer, also of those that were not attached, until `stop` or
    until `owner` is gone.

    ignored: names of parameters that the user has excluded from averaging. exchanged: optimizers
    whose whole progress kind updates would exchange."""

    def __init__(
        self,
        owner: Owner,
        module: nn.Module,
        averaged: Parameters,
        *,
        ignored: Collection[str] = (),
        exchanged: Sequence[Optimizer] = (),
    ) -> None:
        self._owner = weakref.ref(owner)
        self._module = weakref.ref(module)
        self._known = {id(parameter) for parameter in averaged.tensors}
        for name, parameter in module.named_parameters():
            if name in ignored or (parameter.requires_grad and id(parameter) not in self._known):
                self._known.add(id(parameter))  # DDP averages sparse gradients by itself
        self._averaged = {id(parameter) for parameter in averaged.tensors}
        self._exchanged = {id(optimizer) for optimizer in exchanged}
        self._foreign: set[int] = set()  # parameters of other models
        self._stepping: set[int] = set()  # attached optimizers inside their own step()
        # After a step too: a closure computes gradients within it.
        me = weakref.WeakMethod(self._check)
        self._handles = [
            register_optimizer_step_pre_hook(
                not_compiled(lambda one, args, kwargs: _call(me, one, True))
            ),
            register_optimizer_step_post_hook(
                not_compiled(lambda one, args, kwargs: _call(me, one, False))
            ),
        ]
        self._end = weakref.finalize(owner, _remove, self._handles)

    def stop(self) -> None:
        self._end()

    def _check(self, optimizer: Optimizer, begins: bool) -> None:
        if id(optimizer) in self._exchanged:
            (self._stepping.add if begins else self._stepping.discard)(id(optimizer))
        elif begins and self._exchanged and not self._stepping:
            self._refuse_if_not_attached(optimizer)
        new = [
            parameter
            for group in optimizer.param_groups
            for parameter in group["params"]
            if id(parameter) not in self._known
            and id(parameter) not in self._foreign
            and parameter.grad is not None
            and parameter.requires_grad
        ]
        if new:
            self._refuse_if_ours(optimizer, new)

    def _refuse_if_not_attached(self, optimizer: Optimizer) -> None:
        """Under updates the steps of attached optimizers are what is exchanged."""
        owner = self._owner()
        if owner is None:
            return
        steps_the_model = any(
            id(parameter) in self._averaged and parameter.grad is not None
            for group in optimizer.param_groups
            for parameter in group["params"]
        )
        if not steps_the_model:
            return
        name = type(optimizer).__name__
        if owner.trains_locally:
            raise UnsupportedError(
                f"{name} steps the model and was not given to pliant.attach(): under updates "
                "nobody would average its progress. "
                "Call averager.close(), then attach again with it; or use a plan of kind gradients."
            )
        owner.rule_out_updates(f"{name} steps the model and was not given to pliant.attach()")

    def _refuse_if_ours(self, optimizer: Optimizer, new: Sequence[torch.Tensor]) -> None:
        owner, module = self._owner(), self._module()
        if owner is None or module is None or dist.get_world_size(owner.group) == 1:
            return
        names = {id(own): name for name, own in module.named_parameters()}
        for parameter in new:
            if id(parameter) in names:
                raise UnsupportedError(
                    f"parameter {names[id(parameter)]} is trained, and was not when the model was "
                    "wrapped in DDP and attached (unfrozen or added since?): nobody averages it, "
                    "and it would differ between ranks. "
                    "Call averager.close(), wrap the model in DDP again, and attach again."
                )
        if id(optimizer) in self._exchanged:
            raise UnsupportedError(
                f"{type(optimizer).__name__} was given a parameter of shape "
                f"{list(new[0].shape)} after pliant.attach(), which is not the model's: under "
                "updates nobody would average it. "
                "Give it an optimizer of its own, or call averager.close() and attach again."
            )
        self._foreign.update(id(parameter) for parameter in new)


def _call(method: weakref.WeakMethod[Any], optimizer: Optimizer, begins: bool) -> None:
    if (alive := method()) is not None:
        alive(optimizer, begins)


def _remove(handles: list[RemovableHandle]) -> None:
    for handle in handles:
        handle.remove()
    handles.clear()
