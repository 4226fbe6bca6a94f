# SPDX-License-Identifier: MIT
"""Tensors of one model that exchanges of kind updates read and write, parameters and travelling
buffers, and its frozen parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pliant.ddp.parameters import Parameters
from pliant.updates.buffers import Buffers
from pliant.updates.frozen import FrozenParameters

Pair = tuple[list[torch.Tensor], list[torch.Tensor]]
"""Parameters and buffers, as the engine takes them."""


@dataclass(frozen=True)
class ModelTensors:
    """Every call looks the tensors up, because modules replace their buffers."""

    parameters: Parameters
    buffers: Buffers
    frozen: FrozenParameters

    def pair(self) -> Pair:
        return self.parameters.tensors, self.buffers.tensors()

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
