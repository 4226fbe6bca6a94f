# SPDX-License-Identifier: MIT
"""Shards of an FSDP2 module: the local memory of its parameters, which this rank exchanges, and
the DTensors that the module and its optimizers hold."""

from __future__ import annotations

import weakref

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from pliant.ddp.parameters import Parameters, is_dense, local_of
from pliant.errors import ContractError, UnsupportedError


class Shards:
    """owners: the parameters of `module`, some or all of them DTensors."""

    def __init__(self, module: nn.Module, owners: Parameters) -> None:
        # The root keeps the averager alive, not the reverse.
        self._modules = [
            weakref.ref(part) for part in module.modules() if isinstance(part, FSDPModule)
        ]
        self._owners = owners
        self.parameters = Parameters(owners.names, [local_of(one) for one in owners.tensors])
        self._local = {
            id(owner): local
            for owner, local in zip(owners.tensors, self.parameters.tensors, strict=True)
        }
        self._sharded = {
            id(local)
            for owner, local in zip(owners.tensors, self.parameters.tensors, strict=True)
            if isinstance(owner, DTensor)
        }
        for name, local in self.parameters.named():
            if not is_dense(local):
                raise UnsupportedError(
                    f"parameter {name}: its shard is not one dense piece of memory (strides "
                    f"{list(local.stride())}). Shard it along its first dimension."
                )

    def local(self, tensor: torch.Tensor) -> torch.Tensor:
        """The memory of a parameter on this rank; other tensors as they are."""
        return self._local.get(id(tensor), tensor)

    def is_shard(self, local: torch.Tensor) -> bool:
        """Whether FSDP2 reads this memory by itself, so that it must be written in place."""
        return id(local) in self._sharded

    def reshard(self) -> None:
        """Frees gathered parameters, which the root keeps after a forward: they are older than
        shards that were written since."""
        for reference in self._modules:
            if (module := reference()) is not None:
                module.reshard()

    def check(self) -> None:
        """Raises if a parameter has other memory than when pliant was attached."""
        for name, owner, local in zip(
            self._owners.names, self._owners.tensors, self.parameters.tensors, strict=True
        ):
            if local.numel() > 0 and local_of(owner).data_ptr() != local.data_ptr():
                raise ContractError(
                    f"parameter {name} has other memory than when pliant was attached (the model "
                    "was moved, or loaded with assign=True). Close the averager and attach again."
                )


def is_sharded(module: nn.Module) -> bool:
    return any(isinstance(each, FSDPModule) for each in module.modules()) or any(
        isinstance(each, DTensor) for each in module.parameters()
    )


def check_shards(parameters: Parameters) -> None:
    """Refuses parameters of which several ranks of the island hold the same entries: each would
    exchange them, and they would come to differ."""
    for name, tensor in parameters.named():
        if not isinstance(tensor, DTensor):
            raise ValueError(
                f"across= with an FSDP2 module: parameter {name} is not sharded (ignored_params?). "
                "Shard all parameters that are trained."
            )
        if tensor.device_mesh.ndim != 1 or not all(each.is_shard() for each in tensor.placements):
            raise ValueError(
                f"across= with parameter {name} on a mesh of {tensor.device_mesh.ndim} dimensions, "
                f"placed as {tensor.placements}: allowed are shards on the island's mesh of one "
                "dimension"
            )


def inside_ranks(parameters: Parameters) -> list[int]:
    """The ranks over which the parameters are sharded."""
    meshes = {
        tuple(tensor.device_mesh.mesh.flatten().tolist())
        for tensor in parameters.tensors
        if isinstance(tensor, DTensor)
    }
    if len(meshes) != 1:
        raise ValueError(
            f"across= with parameters on several meshes (ranks {sorted(meshes)}): allowed is the "
            "island's one mesh"
        )
    return list(meshes.pop())


def as_dtensor(like: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
    """A local value in the form of its parameter."""
    if not isinstance(like, DTensor):
        return local
    return DTensor.from_local(
        local,
        like.device_mesh,
        like.placements,
        run_check=False,
        shape=like.shape,
        stride=like.stride(),
    )
