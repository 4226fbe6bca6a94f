# SPDX-License-Identifier: MIT
"""Parameters that are averaged, by name, and the check that their types are supported."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pliant import _native
from pliant.errors import UnsupportedError

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
"""Types of parameters that are averaged."""


@dataclass(frozen=True)
class Parameters:
    """The parameters of a model that get gradients, in the order that all ranks have them."""

    names: list[str]
    tensors: list[torch.Tensor]

    @property
    def entries(self) -> int:
        return sum(tensor.numel() for tensor in self.tensors)

    def named(self) -> list[tuple[str, torch.Tensor]]:
        return list(zip(self.names, self.tensors, strict=True))

    def shape(self, position: int) -> list[int]:
        return list(self.tensors[position].shape)

    def unflatten(self, position: int, flat: torch.Tensor) -> torch.Tensor:
        """A flat gradient or residual in the shape of its parameter."""
        return unflatten(self.tensors[position], flat)

    def flatten(self, position: int, shaped: torch.Tensor) -> torch.Tensor:
        return flatten(self.tensors[position], shaped)


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a tensor on this rank: of a DTensor its local part, else the tensor itself."""
    if not hasattr(tensor, "to_local"):
        return tensor
    local: torch.Tensor = tensor.detach().to_local()  # type: ignore[attr-defined]
    return local


def unflatten(like: torch.Tensor, flat: torch.Tensor) -> torch.Tensor:
    """A flat tensor in the shape and memory layout of another one."""
    return flat.as_strided(like.shape, _native.layout(like))


def flatten(like: torch.Tensor, shaped: torch.Tensor) -> torch.Tensor:
    """The entries of a tensor in the memory order of another one, as a flat float32 tensor."""
    laid_out = torch.empty_strided(
        like.shape, _native.layout(like), dtype=torch.float32, device="cpu"
    )
    laid_out.copy_(shaped)
    return laid_out.as_strided((like.numel(),), (1,))


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the tensor is one piece of memory with every entry once."""
    return _native.layout(tensor) == list(tensor.stride())


def of(
    module: nn.Module, ignored: frozenset[str] = frozenset(), frozen: Collection[int] = ()
) -> Parameters:
    """The parameters whose gradients DDP passes to its hook: those that require gradients, each
    once, without those whose gradients are sparse tensors. frozen: ids of others that belong to
    them."""
    sparse = _with_sparse_gradients(module)
    names: list[str] = []
    parameters: list[torch.Tensor] = []
    for name, parameter in module.named_parameters():
        if name in ignored or id(parameter) in sparse:
            continue
        if not parameter.requires_grad and id(parameter) not in frozen:
            continue
        _check(name, parameter)
        names.append(name.replace("_orig_mod.", ""))
        parameters.append(parameter)
    if not parameters:
        raise UnsupportedError(
            "pliant: this model has no parameters with dense gradients, so there is nothing to "
            "average"
        )
    return Parameters(names, parameters)


def of_ddp(ddp: DistributedDataParallel) -> Parameters:
    """The parameters that DDP has in its buckets: those that required gradients when DDP was made.
    They may be frozen now, and unfrozen later."""
    ignored = frozenset(ddp.parameters_to_ignore)
    bucketed = _in_buckets(ddp, ignored)
    if bucketed is None:
        return of(ddp.module, ignored)
    for name, parameter in ddp.module.named_parameters():
        if parameter.requires_grad and name not in ignored and id(parameter) not in bucketed:
            raise UnsupportedError(
                f"parameter {name} was frozen, or not there, when the model was wrapped in DDP: "
                "DDP does not average it. Wrap the model after unfreezing it."
            )
    return of(ddp.module, ignored, bucketed)


def _in_buckets(ddp: DistributedDataParallel, ignored: frozenset[str]) -> set[int] | None:
    """The ids of the parameters in DDP's buckets, if they may be others than those that require
    gradients now. Otherwise None: looking at the buckets costs memory of their size."""
    parameters = [each for name, each in ddp.module.named_parameters() if name not in ignored]
    trained = sum(parameter.requires_grad for parameter in parameters)
    count = ddp._get_ddp_logging_data()["num_parameter_tensors"]  # type: ignore[no-untyped-call]
    if trained == len(parameters) == count:
        return None
    if _with_sparse_gradients(ddp.module):
        return None  # DDP cannot show its buckets then
    buckets = ddp.reducer._get_zeros_like_grad_buckets()
    return {id(parameter) for bucket in buckets for parameter in bucket.parameters()}


def anonymous(parameters: list[torch.Tensor]) -> Parameters:
    """Parameters that are known from buckets only, named by their position."""
    for position, parameter in enumerate(parameters):
        _check(str(position), parameter)
    return Parameters([str(position) for position in range(len(parameters))], parameters)


def _check(name: str, parameter: torch.Tensor) -> None:
    if parameter.is_complex():
        raise UnsupportedError(
            f"pliant does not average complex gradients, and parameter {name} is "
            f"{parameter.dtype}. Keep real and imaginary part as two parameters."
        )
    if parameter.dtype not in FLOATS:
        raise UnsupportedError(
            f"parameter {name} is {parameter.dtype}; pliant averages float32, bfloat16 and float16"
        )


def _with_sparse_gradients(module: nn.Module) -> set[int]:
    return {
        id(part.weight)
        for part in module.modules()
        if isinstance(part, (nn.Embedding, nn.EmbeddingBag)) and part.sparse
    }
