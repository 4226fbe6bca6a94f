# SPDX-License-Identifier: MIT
"""Groups of a job of islands: the across group, which the user gives, and what follows from it."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore
from torch.distributed import distributed_c10d
from torch.distributed.device_mesh import DeviceMesh

from pliant.argument_checks import refusal
from pliant.errors import CommError

_ALLOWED = (
    "a process group or a DeviceMesh of one dimension: the ranks that hold the same part of the "
    "model, one from each island"
)

_met: dict[str, int] = {}
"""How often the ranks of an island have read each other's across groups. They do so together."""


@dataclass(frozen=True)
class Across:
    """group: of this rank. everybody: all ranks of all islands, in order. part: number of the part
    of the model that this rank exchanges, the same on all ranks of its across group."""

    group: dist.ProcessGroup
    everybody: list[int]
    part: int


def group_of(across: object) -> dist.ProcessGroup:
    """The process group that the user means; anything else is refused by name."""
    if isinstance(across, DeviceMesh):
        if across.ndim != 1:
            raise ValueError(
                f"across= is a DeviceMesh of {across.ndim} dimensions: allowed is one of one "
                "dimension, such as mesh['across']"
            )
        across = across.get_group()
    # torch gives this to a rank that asks for a group it does not belong to.
    if across is dist.GroupMember.NON_GROUP_MEMBER:
        raise ValueError(
            "across= is a process group without this rank: each rank gives the group that it "
            "belongs to itself"
        )
    if not isinstance(across, dist.ProcessGroup):
        raise refusal(TypeError, "across", across, _ALLOWED)
    if dist.get_rank(across) < 0:
        raise ValueError(
            f"across= is the group of ranks {dist.get_process_group_ranks(across)}, and this is "
            f"rank {dist.get_rank()}: each rank gives the group that it belongs to itself"
        )
    return across


def meet(group: dist.ProcessGroup, inside: Sequence[int], deadline: float) -> Across:
    """Collective over the island, whose ranks are `inside`: reads the across groups of all its
    ranks, and checks that each joins one rank of each island."""
    mine = dist.get_process_group_ranks(group)
    together = sorted(set(mine) & set(inside))
    if together != [dist.get_rank()]:
        raise ValueError(
            f"across= joins ranks {together} of the same island (its ranks are {sorted(inside)}): "
            "an across group has one rank from each island, and the model is sharded or wrapped "
            "over the island's own group only"
        )
    groups = {rank: _ranks(theirs) for rank, theirs in _across_of(mine, inside, deadline).items()}
    for rank, theirs in groups.items():
        if len(theirs) != len(mine):
            raise ValueError(
                f"across= joins {len(mine)} islands on rank {dist.get_rank()} and {len(theirs)} "
                f"on rank {rank} of the same island"
            )
    parts = sorted(set(groups.values()))
    everybody = sorted({rank for theirs in parts for rank in theirs})
    if len(everybody) != len(mine) * len(inside):
        raise ValueError(
            "across= on the ranks of this island: two of them give groups with a rank in common "
            f"({[list(theirs) for theirs in parts]})"
        )
    return Across(group, everybody, parts.index(_ranks(mine)))


def _ranks(ranks: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(ranks))


def _across_of(
    mine: Sequence[int], inside: Sequence[int], deadline: float
) -> dict[int, Sequence[int]]:
    """The ranks of the across groups of all ranks of this island, by rank. They travel by the
    store, because the island's own group may want tensors on a device."""
    key = hashlib.sha1(repr(sorted(inside)).encode()).hexdigest()[:16]
    number = _met.get(key, 0)
    _met[key] = number + 1
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = PrefixStore(
        f"pliant/islands/{attempt}/{key}/{number}", distributed_c10d._get_default_store()
    )
    store.set(str(dist.get_rank()), json.dumps(list(mine)))
    others = sorted(inside)
    try:
        store.wait([str(rank) for rank in others], datetime.timedelta(seconds=deadline))
    except RuntimeError as error:
        raise CommError(
            f"rank {dist.get_rank()}: waiting for pliant.attach(across=...) on the other ranks of "
            f"its island ({others}): {error}"
        ) from error
    return {rank: json.loads(store.get(str(rank))) for rank in others}
