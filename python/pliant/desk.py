# SPDX-License-Identifier: MIT
"""Small collectives of the training thread, on a Gloo group of our own: lanes never sit here, and the user's group keeps its order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend

from pliant import _native
from pliant.errors import CommError


class Desk:
    def __init__(self, backend: Backend, rank: int, size: int) -> None:
        self._backend: Any = backend
        self.rank = rank
        self.size = size

    def agree(self, tensors: Sequence[torch.Tensor], what: str) -> bool:
        """Rank 0's, bit for bit, on every rank; sent only if somebody has others. Returns whether they were alike."""
        mine = torch.tensor([_native.hash([tensor.detach() for tensor in tensors])])
        every = [torch.empty_like(mine) for _ in range(self.size)]
        self._run(what, lambda: self._backend.allgather([every], [mine]))
        alike = all(int(other) == int(every[0]) for other in every)
        if not alike:
            self.broadcast(tensors, what)
        return alike

    def broadcast(self, tensors: Sequence[torch.Tensor], what: str) -> None:
        for tensor in tensors:
            flat = tensor.detach().contiguous().view(-1).clone()
            self._run(what, lambda: self._backend.broadcast(flat, 0))  # noqa: B023
            with torch.no_grad():
                tensor.copy_(flat.view(tensor.shape))

    def reduce(self, tensors: Sequence[torch.Tensor], operation: str, what: str) -> None:
        """Every tensor becomes its "mean", "maximum" or "minimum" over the ranks, the same bits everywhere."""
        operations = {"mean": dist.ReduceOp.SUM, "maximum": dist.ReduceOp.MAX, "minimum": dist.ReduceOp.MIN}
        for dtype in sorted({tensor.dtype for tensor in tensors}, key=str):
            together = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.detach().reshape(-1) for tensor in together])
            as_sent = flat.to(torch.uint8) if dtype == torch.bool else flat
            self._run(what, lambda: self._backend.allreduce(as_sent, operations[operation]))  # noqa: B023
            if operation == "mean":
                as_sent.mul_(1.0 / self.size)
            with torch.no_grad():
                for tensor, part in zip(together, torch.split(as_sent, [tensor.numel() for tensor in together]), strict=True):
                    tensor.copy_(part.view(tensor.shape))

    def gather(self, value: object, what: str) -> list[Any]:
        """What every rank has to say, by rank: plain values, as JSON."""
        text = torch.tensor(list(json.dumps(value).encode()), dtype=torch.uint8)
        length = torch.tensor([text.numel()])
        self._run(what, lambda: self._backend.allreduce(length, dist.ReduceOp.MAX))
        mine = torch.full((int(length),), ord(" "), dtype=torch.uint8)
        mine[: text.numel()] = text
        every = [torch.empty_like(mine) for _ in range(self.size)]
        self._run(what, lambda: self._backend.allgather([every], [mine]))
        return [json.loads(bytes(other.tolist())) for other in every]

    def _run(self, what: str, collective: Any) -> None:
        try:
            collective().wait()
        except RuntimeError as error:
            raise CommError(f"rank {self.rank} of {self.size}: {what}: {error}") from error
