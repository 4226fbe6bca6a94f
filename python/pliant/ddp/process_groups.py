# SPDX-License-Identifier: MIT
"""Process groups (Gloo) of one averager: one per lane, one for control, and one for the training
thread.

Lanes never use the user's group: Gloo tells collectives apart by the order in which they are
called, and a lane's order is not the training thread's. The groups are made over the same store
under names of their own. They are not in torch.distributed's tables, so a group ends with the last
reference to it."""

from __future__ import annotations

import datetime
import hashlib
import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend, PrefixStore, ProcessGroupGloo, Store
from torch.distributed import distributed_c10d

from pliant import _native
from pliant.errors import CommError, DisagreementError, UnsupportedError

# Messages have deadlines of their own. Gloo's timeout is later, for what only Gloo waits for.
_BEHIND_DEADLINES = datetime.timedelta(seconds=30)

_made: dict[str, int] = {}
"""How often groups of these ranks were made. The ranks make them together, so all count the
same."""


@dataclass(frozen=True)
class Channel:
    """Group of the training thread, and the store where its ranks write which rank they wait
    for."""

    backend: Backend
    store: Store


@dataclass(frozen=True)
class Groups:
    """rank, size: among all ranks of all islands. across: of the ranks that exchange with each
    other. Without islands both channels are the same."""

    rank: int
    size: int
    exchange: _native.Groups  # lanes and control, for the engine
    side_channel: Channel
    across: Channel


def default_deadline(group: dist.ProcessGroup) -> float:
    """The timeout of the user's own group, in seconds."""
    for device in ("cpu", "cuda"):
        try:
            timeout = group._get_backend(torch.device(device)).options._timeout
        except (RuntimeError, AttributeError):
            continue
        return float(timeout.total_seconds())
    return float(distributed_c10d.default_pg_timeout.total_seconds())


def make(
    group: dist.ProcessGroup,
    lanes: int,
    deadline: float,
    *,
    updates: bool,
    everybody: list[int] | None = None,
    part: int = 0,
) -> Groups:
    """Collective over the ranks of `group`, or over `everybody`: all ranks of all islands, where
    `group` joins those that hold the same part. updates: whether this rank can use kind updates."""
    if not dist.is_gloo_available():
        raise UnsupportedError("pliant exchanges over Gloo, and this torch was built without it")
    ranks = dist.get_process_group_ranks(group)
    across = _Ranks(ranks, deadline)
    has_parts = everybody is not None and len(everybody) != len(ranks)
    all_ranks = _Ranks(everybody, deadline) if has_parts and everybody is not None else across
    control = all_ranks.connect("control")
    _same_groups(control, all_ranks.size, lanes, updates)
    made = [across.connect(f"lane{i}") for i in range(lanes)]
    exchange = _native.Groups(
        lanes=made,
        control=control,
        store=across.words,
        control_store=all_ranks.words,
        part=part,
    )
    side_channel = Channel(all_ranks.connect("desk"), all_ranks.words)
    inner = Channel(across.connect("desk"), across.words) if has_parts else side_channel
    return Groups(all_ranks.rank, all_ranks.size, exchange, side_channel, inner)


class _Ranks:
    """Ranks between which groups are made, and the part of the store that is theirs."""

    def __init__(self, ranks: list[int], deadline: float) -> None:
        key = hashlib.sha1(",".join(map(str, ranks)).encode()).hexdigest()[:16]
        number = _made.get(key, 0)
        _made[key] = number + 1
        # Workers that torchrun starts again may find the store of the attempt before, with the
        # addresses of processes that are gone.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._store = PrefixStore(
            f"pliant/{attempt}/{key}/{number}", distributed_c10d._get_default_store()
        )
        self._timeout = datetime.timedelta(seconds=deadline) + _BEHIND_DEADLINES
        self.rank, self.size = ranks.index(dist.get_rank()), len(ranks)
        self.words = PrefixStore("words", self._store)

    def connect(self, name: str) -> Backend:
        try:
            store = PrefixStore(name, self._store)
            return ProcessGroupGloo(store, self.rank, self.size, self._timeout)
        except RuntimeError as error:
            raise CommError(
                f"rank {self.rank} of {self.size}: connecting to the others for {name}: {error}\n"
                "  Did every rank of the process group make the same calls to pliant.attach(), in "
                "the same order?"
            ) from error


def _same_groups(control: Backend, size: int, lanes: int, updates: bool) -> None:
    """Raises unless all ranks make the same groups: a lane that others lack would wait for ever."""
    mine = torch.tensor([lanes, updates], device="cpu")
    every = [torch.empty_like(mine) for _ in range(size)]
    control.allgather([every], [mine]).wait()  # type: ignore[attr-defined]
    for other, theirs in enumerate(every):
        for what, here, there in zip(
            ("lanes", "optimizers that updates may use"), every[0], theirs, strict=True
        ):
            if int(here) != int(there):
                raise DisagreementError(
                    f"{what}: rank 0 has {int(here)}, rank {other} has {int(there)}"
                )
