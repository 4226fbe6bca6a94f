# SPDX-License-Identifier: MIT
"""Slices of a replica: rank j of an island of g ranks under DDP exchanges the j-th of g equal
slices of the flattened model, and the ranks of the island give each other what has landed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from pliant.ddp.parameters import Parameters


class Slices:
    """whole: the parameters, each one dense piece of memory. group: the island's own."""

    def __init__(self, whole: Parameters, group: dist.ProcessGroup) -> None:
        self._whole = whole
        self._group = group
        self._rank = dist.get_rank(group)
        size = dist.get_world_size(group)
        entries = whole.entries
        bounds = [entries * rank // size for rank in range(size + 1)]
        # By rank of the island: (parameter, begin, end) of each piece.
        self._pieces = [
            _pieces(whole, begin, end) for begin, end in zip(bounds, bounds[1:], strict=False)
        ]
        self._base: list[torch.Tensor] = []

    @property
    def parameters(self) -> Parameters:
        """The pieces that this rank exchanges, where they are in the model."""
        names = [
            f"{self._whole.names[place]}[{begin}:{end}]"
            for place, begin, end in self._pieces[self._rank]
        ]
        return Parameters(names, self.of(self._whole.tensors))

    def of(self, whole: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """This rank's pieces of tensors that are laid out as the parameters."""
        return self._of(whole, self._rank)

    def base(self) -> list[torch.Tensor]:
        """Copies of the base of the whole model, in the shapes of the parameters."""
        return [
            value.to(tensor.dtype, copy=True)
            for value, tensor in zip(self._base, self._whole.tensors, strict=True)
        ]

    def note_base(self) -> None:
        """The parameters are the base now."""
        self._base = [tensor.detach().clone() for tensor in self._whole.tensors]

    def share(self, base: Sequence[torch.Tensor], *, flag: bool = False) -> bool:
        """Collective over the island: every rank takes the others' pieces of the model and of the
        base. base: this rank's pieces. Returns whether a rank has set its flag."""
        with torch.no_grad():
            for piece, value in zip(self.of(self._base), base, strict=True):
                piece.copy_(value.view(-1))
            flags = self._gather(self._base, flag)
            self._gather(self._whole.tensors, flag)
        return flags

    def _of(self, whole: Sequence[torch.Tensor], rank: int) -> list[torch.Tensor]:
        return [
            whole[place].detach().as_strided((whole[place].numel(),), (1,))[begin:end]
            for place, begin, end in self._pieces[rank]
        ]

    def _gather(self, whole: Sequence[torch.Tensor], flag: bool) -> bool:
        """Every rank's pieces of tensors, bit for bit, and its flag behind them."""
        each = [self._of(whole, rank) for rank in range(len(self._pieces))]
        sizes = [sum(piece.nbytes for piece in pieces) for pieces in each]
        device = whole[0].device
        mine = torch.zeros(max(sizes) + 1, dtype=torch.uint8, device=device)
        mine[: sizes[self._rank]] = torch.cat(
            [piece.view(torch.uint8) for piece in each[self._rank]]
        )
        mine[-1] = flag
        every = [torch.empty_like(mine) for _ in each]
        dist.all_gather(every, mine, group=self._group)
        for rank, (pieces, theirs) in enumerate(zip(each, every, strict=True)):
            if rank == self._rank:
                continue
            parts = torch.split(theirs[: sizes[rank]], [piece.nbytes for piece in pieces])
            for piece, part in zip(pieces, parts, strict=True):
                piece.view(torch.uint8).copy_(part)
        return any(bool(theirs[-1]) for theirs in every)


def _pieces(whole: Parameters, begin: int, end: int) -> list[tuple[int, int, int]]:
    """What lies between two positions of the flattened model: (parameter, begin, end)."""
    pieces = []
    first = 0
    for place, tensor in enumerate(whole.tensors):
        low, high = max(begin, first), min(end, first + tensor.numel())
        if low < high:
            pieces.append((place, low - first, high - first))
        first += tensor.numel()
    return pieces
