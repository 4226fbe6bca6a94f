# SPDX-License-Identifier: MIT
"""Buffers of a model: floating ones (BatchNorm's statistics) travel with every exchange, counters
are made equal when ranks settle, masks stay as they are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import nn

from pliant.ddp.parameters import is_dense

_COUNTERS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)


@dataclass(frozen=True)
class Place:
    """The place of a buffer in its module. Modules replace their buffers, so the tensor itself is
    looked up every time."""

    name: str
    owner: nn.Module
    attribute: str

    def tensor(self) -> torch.Tensor:
        tensor = self.owner._buffers[self.attribute]
        assert tensor is not None, f"buffer {self.name} is gone"
        return tensor


class Buffers:
    def __init__(self, module: nn.Module | None = None, ignored: Collection[str] = ()) -> None:
        self.floats: list[Place] = []  # float32, dense: these travel with every exchange
        self.counters: list[Place] = []  # of whole numbers
        self.masks: list[Place] = []  # boolean: each rank keeps its own
        self.left: list[str] = []  # other types, or not dense: each rank keeps its own
        if module is None:
            return
        known: set[int] = set()
        for prefix, owner in module.named_modules():
            for attribute, buffer in owner._buffers.items():
                name = f"{prefix}.{attribute}" if prefix else attribute
                if buffer is None or name in ignored or id(buffer) in known:
                    continue
                known.add(id(buffer))
                place = Place(name.replace("_orig_mod.", ""), owner, attribute)
                if buffer.dtype == torch.float32 and is_dense(buffer):
                    self.floats.append(place)
                elif buffer.dtype in _COUNTERS:
                    self.counters.append(place)
                elif buffer.dtype == torch.bool:
                    self.masks.append(place)
                else:
                    self.left.append(place.name)

    def named(self) -> list[tuple[str, torch.Tensor]]:
        return [(place.name, place.tensor()) for place in self.floats]

    def tensors(self) -> list[torch.Tensor]:
        return [place.tensor() for place in self.floats]

    def counts(self) -> list[torch.Tensor]:
        return [place.tensor() for place in self.counters]
