# SPDX-License-Identifier: MIT
"""Tensors of one model that exchanges of kind updates read and write, parameters and travelling
buffers, and its frozen parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pliant.ddp.parameters import Parameters
from pliant.islands.shards import Shards
from pliant.islands.slices import Slices
from pliant.updates.buffers import Buffers
from pliant.updates.frozen import FrozenParameters

Pair = tuple[list[torch.Tensor], list[torch.Tensor]]
"""Parameters and buffers, as the engine takes them."""


@dataclass(frozen=True)
class ModelTensors:
    """Every call looks the tensors up, because modules replace their buffers.

    parameters: those that get gradients, as this rank has them in its memory: of an FSDP2 module
    its shards. slices: under DDP inside an island this rank exchanges a slice only."""

    parameters: Parameters
    buffers: Buffers
    frozen: FrozenParameters
    shards: Shards | None = None
    slices: Slices | None = None

    @property
    def exchanged(self) -> Parameters:
        """What this rank exchanges: its part of the model."""
        return self.parameters if self.slices is None else self.slices.parameters

    def pair(self) -> Pair:
        return self.exchanged.tensors, self.buffers.tensors()

    def copies(self) -> Pair:
        parameters, buffers = self.pair()
        return copies_of(parameters), copies_of(buffers)

    def all(self) -> list[torch.Tensor]:
        return [*self.parameters.tensors, *self.buffers.tensors()]

    def strides(self) -> list[tuple[int, ...]]:
        return [tensor.stride() for tensor in self.all()]


def copies_of(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def write(tensors: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    with torch.no_grad():
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)
