# SPDX-License-Identifier: MIT
"""What a model keeps beside its parameters: statistics that travel, counters that are compared."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import nn

from pliant import model as models


_COUNTERS = (torch.int64, torch.int32, torch.uint8, torch.int8, torch.bool)
"""What Gloo can compare."""


@dataclass(frozen=True)
class Place:
    """Where a buffer is found: modules replace their buffers, so nobody keeps the tensor."""

    name: str
    owner: nn.Module
    attribute: str

    def now(self) -> torch.Tensor:
        tensor = self.owner._buffers[self.attribute]
        assert tensor is not None, f"buffer {self.name} is gone"
        return tensor


class Buffers:
    def __init__(self, module: nn.Module | None = None, ignored: Collection[str] = ()) -> None:
        self.floats: list[Place] = []  # float32, dense: these travel with every exchange
        self.counters: list[Place] = []
        self.left: list[str] = []  # of other types, or not dense: each rank keeps its own
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
                if buffer.dtype == torch.float32 and models.is_dense(buffer):
                    self.floats.append(place)
                elif buffer.dtype in _COUNTERS:
                    self.counters.append(place)
                else:
                    self.left.append(place.name)

    @property
    def names(self) -> list[str]:
        return [place.name for place in self.floats]

    def tensors(self) -> list[torch.Tensor]:
        return [place.now() for place in self.floats]

    def counts(self) -> list[torch.Tensor]:
        return [place.now() for place in self.counters]
