# SPDX-License-Identifier: MIT
"""Which parameters are averaged, by name, and which models and optimizers are refused."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pliant import _native
from pliant.errors import UnsupportedError

_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Model:
    """The parameters that get gradients, in the order that all ranks have them."""

    names: list[str]
    parameters: list[torch.Tensor]

    @property
    def entries(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters)

    def shape(self, position: int) -> list[int]:
        return list(self.parameters[position].shape)

    def unflatten(self, position: int, flat: torch.Tensor) -> torch.Tensor:
        """A flat gradient or residual in the shape of its parameter."""
        parameter = self.parameters[position]
        return flat.as_strided(parameter.shape, _native.layout(parameter))

    def flatten(self, position: int, shaped: torch.Tensor) -> torch.Tensor:
        parameter = self.parameters[position]
        laid_out = torch.empty_strided(
            parameter.shape, _native.layout(parameter), dtype=torch.float32
        )
        laid_out.copy_(shaped)
        return laid_out.as_strided((parameter.numel(),), (1,))


def is_dense(tensor: torch.Tensor) -> bool:
    """One piece of memory, every entry once."""
    return _native.layout(tensor) == list(tensor.stride())


def unwrap(model: nn.Module) -> DistributedDataParallel:
    """The DDP object, also from under torch.compile; anything else is refused by name."""
    inner = getattr(model, "_orig_mod", model)
    if isinstance(inner, DistributedDataParallel):
        return inner
    name = type(inner).__name__
    families = [base.__name__ for base in type(inner).__mro__]
    if "FullyShardedDataParallel" in families or "FSDPModule" in families:
        raise UnsupportedError(
            f"pliant.attach() works on DistributedDataParallel, and {name} is FSDP: its ranks hold different parts of the parameters, "
            "so there is no gradient that all of them average. Use DDP, or FSDP without pliant."
        )
    raise UnsupportedError(
        f"pliant.attach() works on torch.nn.parallel.DistributedDataParallel, not on {name}. Wrap the model first: "
        "pliant.attach(DistributedDataParallel(model), optimizer)"
    )


def of(module: nn.Module, ignored: frozenset[str] = frozenset()) -> Model:
    """What DDP hands to its hook: parameters that require gradients, each once, without those whose
    gradients are sparse tensors."""
    sparse = _with_sparse_gradients(module)
    names: list[str] = []
    parameters: list[torch.Tensor] = []
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad or name in ignored or id(parameter) in sparse:
            continue
        _check(name, parameter)
        names.append(name.replace("_orig_mod.", ""))
        parameters.append(parameter)
    if not parameters:
        raise UnsupportedError(
            "pliant: this model has no parameters with dense gradients, so there is nothing to average"
        )
    return Model(names, parameters)


def of_ddp(ddp: DistributedDataParallel) -> Model:
    return of(ddp.module, frozenset(ddp.parameters_to_ignore))


def anonymous(parameters: list[torch.Tensor]) -> Model:
    """Of parameters that are known from buckets only."""
    for position, parameter in enumerate(parameters):
        _check(str(position), parameter)
    return Model([str(position) for position in range(len(parameters))], parameters)


def check_optimizer(optimizer: object) -> torch.optim.Optimizer:
    """The optimizer itself, from under Accelerate's wrapper; ZeRO is refused by name."""
    inner = getattr(optimizer, "optimizer", optimizer)
    if "ZeroRedundancyOptimizer" in [base.__name__ for base in type(inner).__mro__]:
        raise UnsupportedError(
            "pliant does not work with ZeroRedundancyOptimizer: each rank steps only its own part of the parameters. "
            "Use the optimizer it wraps; with sparse plans the network is no reason to split it."
        )
    if not isinstance(inner, torch.optim.Optimizer):
        raise UnsupportedError(
            f"optimizer= must be a torch.optim.Optimizer, not {type(inner).__name__}"
        )
    return inner


def divides_by_second_moment(optimizer: torch.optim.Optimizer) -> bool:
    """Adam and its kin: they bear late and rare exchanges less well, and the policy knows. Before
    its first step an optimizer has no state that would show it: then its name counts, and whether
    it has betas."""
    kept = {key for state in optimizer.state.values() for key in state}
    names = " ".join(base.__name__ for base in type(optimizer).__mro__)
    return (
        not kept.isdisjoint({"exp_avg_sq", "exp_avg_sq_row", "square_avg"})
        or "betas" in optimizer.defaults
        or any(word in names for word in ("Adam", "Adafactor", "Adagrad", "Adadelta", "RMSprop"))
    )


def _check(name: str, parameter: torch.Tensor) -> None:
    if parameter.is_complex():
        raise UnsupportedError(
            f"pliant does not average complex gradients, and parameter {name} is {parameter.dtype}. Keep real and imaginary part as two parameters."
        )
    if parameter.dtype not in _FLOATS:
        raise UnsupportedError(
            f"parameter {name} is {parameter.dtype}; pliant averages float32, bfloat16 and float16"
        )


def _with_sparse_gradients(module: nn.Module) -> set[int]:
    return {
        id(part.weight)
        for part in module.modules()
        if isinstance(part, (nn.Embedding, nn.EmbeddingBag)) and part.sparse
    }
