# SPDX-License-Identifier: MIT
"""Islands of a DDP object over all ranks: the ranks of one node are one island. While pliant is
attached, DDP averages gradients and broadcasts buffers inside the island only."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import socket
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import PrefixStore
from torch.distributed import distributed_c10d
from torch.nn.parallel import DistributedDataParallel

from pliant.ddp import process_groups
from pliant.errors import CommError, DisagreementError, UnsupportedError

_met: dict[str, int] = {}
"""How often the ranks of a DDP object have read each other's nodes. They do so together."""

_groups: dict[tuple[tuple[int, ...], str], dist.ProcessGroup] = {}
"""Groups of this rank by their ranks and backend."""


@dataclass(frozen=True)
class Node:
    """host: name of the machine. first: lowest rank that the same launcher has started there, or
    None if it does not say so."""

    host: str
    first: int | None

    @staticmethod
    def here() -> Node:
        """torchrun starts LOCAL_WORLD_SIZE ranks in a row. So two launchers that stand for two
        nodes on one machine are told apart."""
        rank = _whole("LOCAL_RANK")
        if rank is None or _whole("LOCAL_WORLD_SIZE") is None:
            return Node(socket.gethostname(), None)
        return Node(socket.gethostname(), dist.get_rank() - rank)

    def __str__(self) -> str:
        return self.host if self.first is None else f"{self.host} from rank {self.first}"


def islands_of(group: dist.ProcessGroup, deadline: float) -> dict[Node, list[int]]:
    """Collective over the group: its ranks by node."""
    ranks = dist.get_process_group_ranks(group)
    found: dict[Node, list[int]] = {}
    for rank, node in zip(ranks, _nodes(ranks, deadline), strict=True):
        found.setdefault(node, []).append(rank)
    return found


def check_sizes(islands: dict[Node, list[int]]) -> None:
    """Refuses islands of different sizes: each part of the model is exchanged by one rank of every
    island."""
    (first, ranks), *others = islands.items()
    for other, theirs in others:
        if len(theirs) != len(ranks):
            raise DisagreementError(
                f"islands='node': node {first} has {len(ranks)} ranks and node {other} has "
                f"{len(theirs)}. Start equally many ranks on each node, or one on each."
            )


def ddp_over_all(model: nn.Module) -> DistributedDataParallel:
    """The DDP object, also from under torch.compile; anything else is refused by name."""
    inner = getattr(model, "_orig_mod", model)
    if not isinstance(inner, DistributedDataParallel):
        raise UnsupportedError(
            "islands='node' works on a DistributedDataParallel object over all ranks, not on "
            f"{type(inner).__name__}. For FSDP2 and plain modules use across= (docs/islands.md)."
        )
    if getattr(inner, "_comm_hooks", None):
        hook, state = inner._comm_hooks[0]
        if not hasattr(state, "on_bucket"):  # a slot of pliant's own follows DDP's group
            raise UnsupportedError(
                "islands='node': this DDP object has a communication hook already "
                f"({getattr(hook, '__qualname__', 'a hook')}), which would average over all ranks. "
                "Leave out register_comm_hook()."
            )
    return inner


def split(
    ddp: DistributedDataParallel, islands: Sequence[Sequence[int]]
) -> tuple[dist.ProcessGroup, Callable[[], None]]:
    """Collective: makes the groups of this rank and lets DDP work inside its island. Returns the
    across group, and what undoes all this."""
    whole = ddp.process_group
    mine = next(ranks for ranks in islands if dist.get_rank() in ranks)
    place = list(mine).index(dist.get_rank())
    inside = _group(mine, whole)
    across = _group([ranks[place] for ranks in islands], whole)
    ddp._update_process_group(inside)  # type: ignore[no-untyped-call]
    reference = weakref.ref(ddp)

    def undo() -> None:
        if (alive := reference()) is not None and alive.process_group is inside:
            alive._update_process_group(whole)  # type: ignore[no-untyped-call]

    return across, undo


def _group(ranks: Sequence[int], like: dist.ProcessGroup) -> dist.ProcessGroup:
    """Collective over these ranks: a group of the same backend. It is made once, because torch
    gives a second group of the same ranks the name of the first, if that was destroyed."""
    backend = dist.get_backend(like)
    made = _groups.get((tuple(ranks), backend))
    if made is None or made not in distributed_c10d._world.pg_map:
        made = dist.new_group(
            list(ranks),
            timeout=datetime.timedelta(seconds=process_groups.default_deadline(like)),
            backend=backend,
            use_local_synchronization=True,
        )
        _groups[tuple(ranks), backend] = made
    return made


def _whole(variable: str) -> int | None:
    """A whole number from the environment, None if there is none."""
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else None


def _nodes(ranks: Sequence[int], deadline: float) -> list[Node]:
    """The nodes of these ranks. They travel by the store, because the group of the user may want
    tensors on a device."""
    key = hashlib.sha1(repr(list(ranks)).encode()).hexdigest()[:16]
    number = _met.get(key, 0)
    _met[key] = number + 1
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = PrefixStore(
        f"pliant/nodes/{attempt}/{key}/{number}", distributed_c10d._get_default_store()
    )
    here = Node.here()
    store.set(str(dist.get_rank()), json.dumps([here.host, here.first]))
    names = [str(rank) for rank in ranks]
    try:
        store.wait(names, datetime.timedelta(seconds=deadline))
    except RuntimeError as error:
        raise CommError(
            f"rank {dist.get_rank()}: waiting for pliant.attach(islands='node') on the other ranks "
            f"({list(ranks)}): {error}"
        ) from error
    return [Node(*json.loads(store.get(name))) for name in names]
