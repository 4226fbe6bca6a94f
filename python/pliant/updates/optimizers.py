# SPDX-License-Identifier: MIT
"""Optimizers of one rank: the refusal of those that kind updates cannot work with, and access to
their state."""

from __future__ import annotations

import copy
import struct
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from pliant.ddp.parameters import Parameters, is_dense, local_of
from pliant.errors import UnsupportedError

_SECOND_COPIES = ("schedulefree", "lookahead")
"""Names of optimizers that keep a second copy of the parameters."""

_MASTER_COPIES = ("master_weights", "param_groups_master", "fp32_from_fp16_groups")
"""Attributes of optimizers that keep float32 copies of narrower parameters beside their state
(Apex)."""


class Optimizers:
    def __init__(self, given: object) -> None:
        listed: Sequence[object] = list(given) if isinstance(given, (list, tuple)) else [given]
        self._given = listed
        self.each: list[Optimizer] = [check_optimizer(one) for one in listed]
        self._checked_state = False
        if not self.each:
            raise UnsupportedError("optimizer=[]: at least one")

    def objection(
        self, parameters: Parameters, module: nn.Module, ignored: Collection[str] = ()
    ) -> str | None:
        """Why kind updates cannot work with these optimizers, or None."""
        return (
            self._second_copies()
            or _unfit(parameters, module, ignored)
            or self._unknown_parameters(parameters, module)
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
        """Clears LBFGS's history of positions, which is wrong after an exchange moved the
        parameters."""
        for optimizer in self.each:
            if isinstance(optimizer, torch.optim.LBFGS):
                for state in optimizer.state.values():
                    state.clear()

    def momenta(self, parameter: torch.Tensor, key: str, *, of_all: bool) -> list[torch.Tensor]:
        """The momentum of a parameter in each optimizer. of_all: also in optimizers that rescale it
        before they use it, as Adam and Muon do."""
        return [
            state[key]
            for optimizer in self.each
            if (of_all or not _rescales(optimizer)) and (state := optimizer.state.get(parameter))
            if isinstance(state.get(key), torch.Tensor) and state[key].shape == parameter.shape
        ]

    def zero_non_finite(self) -> int:
        """Sets entries of the state that are not finite to 0, and returns their number."""
        dropped = 0
        for _, _, _, state in self.tensors():
            tensor = local_of(state)
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
                f"load_state_dict: the state is of {len(saved)} optimizers, and there are "
                f"{len(self.each)}"
            )
        for optimizer, state in zip(self.each, saved, strict=True):
            optimizer.load_state_dict(copy.deepcopy(dict(state)))

    def check_state(self) -> None:
        """After a step. Looks once at the state that it has made: an optimizer of narrow parameters
        may step float32 copies of its own and round those. Such a copy rounds to the parameter, bit
        for bit. Waits for the device if there are narrow parameters."""
        if self._checked_state:
            return
        self._checked_state = True
        for place, owner, key, state in self.tensors():
            parameter, value = local_of(owner), local_of(state)
            if parameter.dtype == torch.float32 or value.dtype != torch.float32:
                continue
            if value.shape != parameter.shape or not parameter.detach().any():
                continue
            if torch.equal(value.to(parameter.device, parameter.dtype), parameter.detach()):
                why = _keeps_master_copies(self.each[place], f"its state {key!r}")
                raise UnsupportedError(f"kind updates: {why}")

    def _second_copies(self) -> str | None:
        for optimizer in self.each:
            for attribute in _MASTER_COPIES:
                if getattr(optimizer, attribute, None):
                    return _keeps_master_copies(optimizer, attribute)
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
                        f"{families[0]} keeps a second copy of the parameters, which an exchange "
                        "would not move. "
                        "Use the optimizer it is made from, or a plan of kind gradients."
                    )
                one = getattr(one, "optimizer", None)
        return None

    def _unknown_parameters(self, parameters: Parameters, module: nn.Module) -> str | None:
        own = {id(parameter): name for name, parameter in module.named_parameters()}
        homes: dict[int, int] = {}
        for optimizer in self.each:
            held = [one for group in optimizer.param_groups for one in group["params"]]
            if not any(id(parameter) in own for parameter in held):
                return (
                    f"{type(optimizer).__name__} has none of the model's parameters: it steps "
                    "another model, or a float32 master copy, which an exchange would not move. "
                    "Pass the optimizer of the model's own parameters, or use a plan of kind "
                    "gradients."
                )
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if id(parameter) not in own:
                        return (
                            f"{type(optimizer).__name__} has a parameter of shape "
                            f"{list(parameter.shape)} that is not the model's. "
                            "A float32 master copy would not be moved by an exchange: give the "
                            "optimizer the model's own parameters in float32 "
                            "and use torch.autocast, or a plan of kind gradients."
                        )
                    homes[id(parameter)] = homes.get(id(parameter), 0) + 1
        for name, parameter in zip(parameters.names, parameters.tensors, strict=True):
            count = homes.get(id(parameter), 0)
            if count > 1 or (count == 0 and parameter.requires_grad):
                where = "in none of the optimizers" if count == 0 else f"in {count} optimizers"
                return (
                    f"parameter {name} is {where} that were attached; under updates each is in "
                    "exactly one. "
                    "Pass all optimizers: pliant.attach(ddp, [one, other]), or freeze what is not "
                    "trained before DDP: requires_grad_(False)."
                )
        return None


def _keeps_master_copies(optimizer: Optimizer, where: str) -> str:
    return (
        f"{type(optimizer).__name__} keeps a float32 copy of the parameters ({where}), which an "
        "exchange would not move. Pliant keeps one of its own: use the optimizer without it, or a "
        "plan of kind gradients."
    )


def check_optimizer(optimizer: object) -> torch.optim.Optimizer:
    """The optimizer itself, from under Accelerate's wrapper; ZeRO is refused by name."""
    inner = getattr(optimizer, "optimizer", optimizer)
    if "ZeroRedundancyOptimizer" in [base.__name__ for base in type(inner).__mro__]:
        raise UnsupportedError(
            "pliant does not work with ZeroRedundancyOptimizer: each rank steps only its own part "
            "of the parameters. "
            "Use the optimizer it wraps; with sparse plans the network is no reason to split it."
        )
    if not isinstance(inner, torch.optim.Optimizer):
        raise UnsupportedError(
            f"optimizer= must be a torch.optim.Optimizer, not {type(inner).__name__}"
        )
    return inner


def divides_by_second_moment(optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimizer is Adam or a relative of it, for which late and rare exchanges cost more
    progress. Before its first step an optimizer has no state that shows it; then its name and its
    betas decide."""
    kept = {key for state in optimizer.state.values() for key in state}
    names = " ".join(base.__name__ for base in type(optimizer).__mro__)
    return (
        not kept.isdisjoint({"exp_avg_sq", "exp_avg_sq_row", "square_avg"})
        or "betas" in optimizer.defaults
        or any(word in names for word in ("Adam", "Adafactor", "Adagrad", "Adadelta", "RMSprop"))
    )


def _rescales(optimizer: Optimizer) -> bool:
    return divides_by_second_moment(optimizer) or any(
        "Muon" in base.__name__ for base in type(optimizer).__mro__
    )


def _unfit(parameters: Parameters, module: nn.Module, ignored: Collection[str]) -> str | None:
    listed = {id(parameter) for parameter in parameters.tensors}
    for name, own in module.named_parameters():
        if own.requires_grad and name not in ignored and id(own) not in listed:
            return f"parameter {name} has sparse gradients, which are averaged by themselves only under kind gradients. Use nn.Embedding(sparse=False)."
    for name, parameter in zip(parameters.names, parameters.tensors, strict=True):
        if getattr(parameter, "_in_backward_optimizers", None):
            return (
                f"parameter {name} has an optimizer that steps inside backward: under updates a "
                "step must see all gradients. "
                "Step after backward, or use a plan of kind gradients."
            )
        if not is_dense(parameter):
            return f"parameter {name} is not one dense piece of memory (strides {list(parameter.stride())}). Make it so: parameter.data = parameter.data.contiguous()"
    return None
