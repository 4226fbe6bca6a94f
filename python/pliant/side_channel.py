# SPDX-License-Identifier: MIT
"""Small collectives of the training thread, on a Gloo group that neither lanes nor the user's code
use.

A rank that is gone or late is named as in an exchange (`CommError`). The engine counts the bytes
that this rank sends."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from pliant import _native
from pliant.ddp.process_groups import Channel
from pliant.errors import CommError, DisagreementError

_AT_ONCE = 1 << 24
"""Number of bytes from which on a collective of small tensors takes no more of them."""

_ALIGNMENT = 16
"""Bytes of the widest type that a tensor may have."""


class SideChannel:
    def __init__(self, channel: Channel, deadline: float, engine: _native.Engine) -> None:
        self._native = _native.SideChannel(channel.backend, channel.store, deadline)
        self._engine = weakref.ref(engine)
        self._counted = 0  # bytes that the engine knows of
        self.rank = self._native.rank
        self.size = self._native.size

    def agree(self, tensors: Sequence[torch.Tensor], what: str) -> bool:
        """Writes rank 0's tensors to every rank, but for those that are equal already. Returns
        whether all were."""
        different = self.differing(tensors, what)
        if different:
            self.broadcast(different, what)
        return not different

    def differing(self, tensors: Sequence[torch.Tensor], what: str) -> list[torch.Tensor]:
        """Those that do not have the same bits on all ranks. Only hashes travel."""
        each = [_native.hash([tensor.detach()]) for tensor in tensors]
        if len(set(self.gather(_native.hash([torch.tensor(each, device="cpu")]), what))) == 1:
            return []
        every = zip(*self.gather(each, what), strict=True)
        return [
            tensor for tensor, hashes in zip(tensors, every, strict=True) if len(set(hashes)) > 1
        ]

    def broadcast(self, tensors: Sequence[torch.Tensor], what: str) -> None:
        """Writes rank 0's tensors to every rank: many small ones in one message."""
        with self._collective(what), torch.no_grad():
            for batch in _batches(tensors):
                room, places = _room_for(batch)
                _write(places, batch)
                self._native.broadcast(room)
                _write(batch, places)

    def reduce(self, tensors: Sequence[torch.Tensor], operation: str, what: str) -> None:
        """Every tensor becomes its "mean", "maximum" or "minimum" over the ranks, the same bits
        everywhere."""
        with self._collective(what), torch.no_grad():
            for dtype in sorted({tensor.dtype for tensor in tensors}, key=str):
                together = [tensor for tensor in tensors if tensor.dtype == dtype]
                flat = torch.cat([tensor.detach().reshape(-1).cpu() for tensor in together])
                if operation == "mean" and dtype == torch.float32:
                    self._native.sum(flat)
                    flat.mul_(1.0 / self.size)
                else:
                    flat = torch.cat(
                        [
                            self._reduce(part, operation)
                            for part in torch.split(flat, _AT_ONCE // flat.element_size())
                        ]
                    )
                for tensor, part in zip(
                    together,
                    torch.split(flat, [tensor.numel() for tensor in together]),
                    strict=True,
                ):
                    tensor.copy_(part.view(tensor.shape))

    def check_alike(self, value: object, what: str) -> None:
        """Raises DisagreementError on every rank unless all have the same value."""
        values = self.gather(value, what)
        for other, theirs in enumerate(values):
            if theirs != values[0]:
                raise DisagreementError(
                    f"{what}: rank 0 has {values[0]}, rank {other} has {theirs}"
                )

    def gather(self, value: object, what: str) -> list[Any]:
        """The values of all ranks, by rank. Plain values that JSON can write."""
        with self._collective(what):
            return [json.loads(text) for text in self._native.gather(json.dumps(value).encode())]

    @contextmanager
    def _collective(self, what: str) -> Iterator[None]:
        try:
            yield
        except CommError as error:
            named = CommError(f"{what}: {error}")
            named.rank, named.peer, named.culprit, named.epoch = (
                error.rank,
                error.peer,
                error.culprit,
                error.epoch,
            )
            raise named from error
        sent, self._counted = self._native.sent - self._counted, self._native.sent
        if (engine := self._engine()) is not None:
            engine.count_sent(sent)

    def _reduce(self, mine: torch.Tensor, operation: str) -> torch.Tensor:
        every = torch.stack(
            [_tensor(theirs, mine.dtype) for theirs in self._native.gather(_bytes(mine))]
        )
        if operation == "mean":
            return every.to(torch.float64).sum(0).mul_(1.0 / self.size).to(mine.dtype)
        return every.amax(0) if operation == "maximum" else every.amin(0)


def _batches(tensors: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """The tensors in order, those together that have about _AT_ONCE bytes. Empty ones are left
    out."""
    batch: list[torch.Tensor] = []
    size = 0
    for tensor in tensors:
        if tensor.numel() == 0:
            continue
        batch.append(tensor)
        size += tensor.numel() * tensor.element_size()
        if size >= _AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _room_for(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Host memory for all these tensors, as float32 for whoever only copies it, and the part of
    each, in its type and shape."""
    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    room = torch.zeros(
        sum(size + -size % _ALIGNMENT for size in sizes), dtype=torch.uint8, device="cpu"
    )
    places = []
    begin = 0
    for tensor, size in zip(tensors, sizes, strict=True):
        places.append(room[begin : begin + size].view(tensor.dtype).view(tensor.shape))
        begin += size + -size % _ALIGNMENT
    return room.view(torch.float32), places


def _write(tensors: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    for tensor, value in zip(tensors, values, strict=True):
        tensor.copy_(value)


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def _tensor(text: bytes, dtype: torch.dtype) -> torch.Tensor:
    return (
        torch.frombuffer(bytearray(text), dtype=torch.uint8).view(dtype)
        if text
        else torch.empty(0, dtype=dtype, device="cpu")
    )
