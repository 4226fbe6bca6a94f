# SPDX-License-Identifier: MIT
"""Buffers of a model: floating ones (BatchNorm's statistics) travel with every exchange, counters
are made equal when ranks settle, masks stay as they are."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

import torch
from torch import nn

from pliant.ddp.parameters import is_dense

log = logging.getLogger("pliant")

_COUNTERS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)


class Place:
    """The place of a buffer in its module. Modules replace their buffers, so the tensor itself is
    looked up every time.

    A module may also give a buffer another size or type (caches of positions), or drop it. Ranks do
    so at different times, and exchanges need tensors that stay as they are. So the buffer then
    stays as it is on this rank, and its last tensor from before takes its place in exchanges. If it
    becomes what it was, it travels again."""

    def __init__(self, name: str, owner: nn.Module, attribute: str, tensor: torch.Tensor) -> None:
        self.name = name
        self._owner = owner
        self._attribute = attribute
        self._like = (tensor.shape, tensor.dtype, tensor.device, tensor.stride())
        self._seen = tensor
        # Of the same memory, but it keeps its size when the module resizes the buffer in place.
        self._alias = tensor.detach()

    def current(self) -> torch.Tensor | None:
        """The buffer as the module has it, or None if it has none that can be exchanged."""
        tensor = self._owner._buffers.get(self._attribute)
        if tensor is None or not self._fits(tensor):
            return None
        if tensor is not self._seen or tensor.data_ptr() != self._alias.data_ptr():
            self._seen, self._alias = tensor, tensor.detach()
        return tensor

    def tensor(self) -> torch.Tensor:
        tensor = self.current()
        return self._alias if tensor is None else tensor

    def note_layout(self) -> None:
        """The memory format may have changed, if the base is taken anew."""
        tensor = self._owner._buffers.get(self._attribute)
        if tensor is not None and tensor.shape == self._like[0] and is_dense(tensor):
            self._like = (*self._like[:3], tensor.stride())

    def _fits(self, tensor: torch.Tensor) -> bool:
        return (tensor.shape, tensor.dtype, tensor.device, tensor.stride()) == self._like


class Buffers:
    def __init__(self, module: nn.Module | None = None, ignored: Collection[str] = ()) -> None:
        self.floats: list[Place] = []  # float32, dense: these travel with every exchange
        self.counters: list[Place] = []  # of whole numbers
        self.masks: list[Place] = []  # boolean: each rank keeps its own
        self.left: list[str] = []  # other types, or not dense: each rank keeps its own
        self._changed: set[str] = set()  # those of which a log line says that they changed
        if module is None:
            return
        known: set[int] = set()
        for prefix, owner in module.named_modules():
            for attribute, buffer in owner._buffers.items():
                name = f"{prefix}.{attribute}" if prefix else attribute
                if buffer is None or name in ignored or id(buffer) in known:
                    continue
                known.add(id(buffer))
                place = Place(name.replace("_orig_mod.", ""), owner, attribute, buffer)
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
        return self._of(self.floats)

    def counts(self) -> list[torch.Tensor]:
        return self._of(self.counters)

    def note_layout(self) -> None:
        for place in self.floats:
            place.note_layout()

    def _of(self, places: Sequence[Place]) -> list[torch.Tensor]:
        changed = [
            place.name
            for place in places
            if place.name not in self._changed and place.current() is None
        ]
        if changed:
            self._changed.update(changed)
            log.warning(
                "buffers that changed their size, type or memory format, or are gone, stay as they "
                "are on each rank while the others travel: %s",
                ", ".join(changed),
            )
        return [place.tensor() for place in places]
