# SPDX-License-Identifier: MIT
"""The optimizers of one rank under kind updates: which are refused, and what is done to their
state."""

from __future__ import annotations

import copy
import struct
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from pliant import model as models
from pliant.errors import UnsupportedError

_SECOND_COPIES = ("schedulefree", "lookahead")
"""Names of optimizers that keep a second copy of the parameters."""


class Optimizers:
    def __init__(self, given: object) -> None:
        listed: Sequence[object] = list(given) if isinstance(given, (list, tuple)) else [given]
        self._given = listed
        self.each: list[Optimizer] = [models.check_optimizer(one) for one in listed]
        if not self.each:
            raise UnsupportedError("optimizer=[]: at least one")

    def objection(
        self, model: models.Model, module: nn.Module, ignored: Collection[str] = ()
    ) -> str | None:
        """Why there can be no updates with these, if so."""
        return (
            self._second_copies()
            or _unfit(model, module, ignored)
            or self._strangers(model, module)
        )

    def rates(self) -> int:
        """A hash of the learning rates."""
        rates = [
            float(group["lr"])
            for optimizer in self.each
            for group in optimizer.param_groups
            if "lr" in group
        ]
        return zlib.crc32(struct.pack(f"{len(rates)}d", *rates))

    def forget_positions(self) -> None:
        """Parameters have moved without the optimizer: LBFGS's history of positions is of no use
        any more."""
        for optimizer in self.each:
            if isinstance(optimizer, torch.optim.LBFGS):
                for state in optimizer.state.values():
                    state.clear()

    def momenta(self, parameter: torch.Tensor, key: str, *, of_all: bool) -> list[torch.Tensor]:
        """Of SGD and its kin: those that move by their momentum as it is. Or of all."""
        return [
            state[key]
            for optimizer in self.each
            if (of_all or not _rescales(optimizer)) and (state := optimizer.state.get(parameter))
            if isinstance(state.get(key), torch.Tensor) and state[key].shape == parameter.shape
        ]

    def drop_what_is_not_finite(self) -> int:
        """Returns how many entries were."""
        dropped = 0
        for _, _, _, tensor in self.tensors():
            if tensor.is_floating_point():
                bad = ~torch.isfinite(tensor)
                if bad.any():
                    dropped += int(bad.sum())
                    tensor[bad] = 0
        return dropped

    def tensors(self) -> Iterator[tuple[int, torch.Tensor, str, torch.Tensor]]:
        """(place of the optimizer, parameter, key, state)"""
        for place, optimizer in enumerate(self.each):
            for parameter, state in optimizer.state.items():
                for key, value in state.items():
                    if isinstance(value, torch.Tensor):
                        yield place, parameter, key, value

    def state_dicts(self) -> list[dict[str, Any]]:
        return [copy.deepcopy(optimizer.state_dict()) for optimizer in self.each]

    def load_state_dicts(self, saved: Sequence[Mapping[str, Any]]) -> None:
        if len(saved) != len(self.each):
            raise UnsupportedError(
                f"load_state_dict: the state is of {len(saved)} optimizers, and there are {len(self.each)}"
            )
        for optimizer, state in zip(self.each, saved, strict=True):
            optimizer.load_state_dict(copy.deepcopy(dict(state)))

    def _second_copies(self) -> str | None:
        for given in self._given:
            one: object = given
            while one is not None:
                families = [base.__name__ for base in type(one).__mro__]
                found = any(
                    word in family.lower().replace("_", "")
                    for word in _SECOND_COPIES
                    for family in families
                )
                groups: Any = getattr(one, "param_groups", [])
                if found or any("train_mode" in group for group in groups):
                    return (
                        f"{families[0]} keeps a second copy of the parameters, which an exchange would not move. "
                        "Use the optimizer it is made from, or a plan of kind gradients."
                    )
                one = getattr(one, "optimizer", None)
        return None

    def _strangers(self, model: models.Model, module: nn.Module) -> str | None:
        own = {id(parameter): name for name, parameter in module.named_parameters()}
        homes: dict[int, int] = {}
        for optimizer in self.each:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if id(parameter) not in own:
                        return (
                            f"{type(optimizer).__name__} has a parameter of shape {list(parameter.shape)} that is not the model's. "
                            "A float32 master copy would not be moved by an exchange: give the optimizer the model's own parameters in float32 "
                            "and use torch.autocast, or a plan of kind gradients."
                        )
                    homes[id(parameter)] = homes.get(id(parameter), 0) + 1
        for name, parameter in zip(model.names, model.parameters, strict=True):
            count = homes.get(id(parameter), 0)
            if count != 1:
                where = "in none of the optimizers" if count == 0 else f"in {count} optimizers"
                return (
                    f"parameter {name} is {where} that were attached; under updates each is in exactly one. "
                    "Pass all optimizers: pliant.attach(ddp, [one, other]), or freeze what is not trained before DDP: requires_grad_(False)."
                )
        return None


def _rescales(optimizer: Optimizer) -> bool:
    return models.divides_by_second_moment(optimizer) or any(
        "Muon" in base.__name__ for base in type(optimizer).__mro__
    )


def _unfit(model: models.Model, module: nn.Module, ignored: Collection[str]) -> str | None:
    listed = {id(parameter) for parameter in model.parameters}
    for name, own in module.named_parameters():
        if own.requires_grad and name not in ignored and id(own) not in listed:
            return f"parameter {name} has sparse gradients, which are averaged by themselves only under kind gradients. Use nn.Embedding(sparse=False)."
    for name, parameter in zip(model.names, model.parameters, strict=True):
        if getattr(parameter, "_in_backward_optimizers", None):
            return (
                f"parameter {name} has an optimizer that steps inside backward: under updates a step must see all gradients. "
                "Step after backward, or use a plan of kind gradients."
            )
        if parameter.dtype != torch.float32:
            return (
                f"parameter {name} is {parameter.dtype}: the progress of a step is often smaller than that type can add, so it would be lost. "
                "Keep parameters in float32 and use torch.autocast, or a plan of kind gradients."
            )
        if not models.is_dense(parameter):
            return f"parameter {name} is not one dense piece of memory (strides {list(parameter.stride())}). Make it so: parameter.data = parameter.data.contiguous()"
    return None
