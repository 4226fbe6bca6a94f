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
class Groups:
    rank: int
    size: int
    exchange: _native.Groups  # lanes and control, for the engine
    side_channel: Backend
    store: Store  # where ranks write which rank they wait for


def default_deadline(group: dist.ProcessGroup) -> float:
    """The timeout of the user's own group, in seconds."""
    for device in ("cpu", "cuda"):
        try:
            timeout = group._get_backend(torch.device(device)).options._timeout
        except (RuntimeError, AttributeError):
            continue
        return float(timeout.total_seconds())
    return float(distributed_c10d.default_pg_timeout.total_seconds())


def make(group: dist.ProcessGroup, lanes: int, deadline: float, *, updates: bool) -> Groups:
    """Collective over the ranks of `group`. updates: whether this rank can use kind updates."""
    if not dist.is_gloo_available():
        raise UnsupportedError("pliant exchanges over Gloo, and this torch was built without it")
    ranks = dist.get_process_group_ranks(group)
    key = hashlib.sha1(",".join(map(str, ranks)).encode()).hexdigest()[:16]
    number = _made.get(key, 0)
    _made[key] = number + 1
    # Workers that torchrun starts again may find the store of the attempt before, with the
    # addresses of processes that are gone.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = PrefixStore(f"pliant/{attempt}/{key}/{number}", distributed_c10d._get_default_store())
    rank, size = dist.get_rank(group), len(ranks)
    timeout = datetime.timedelta(seconds=deadline)

    def connect(name: str, timeout: datetime.timedelta = timeout + _BEHIND_DEADLINES) -> Backend:
        try:
            return ProcessGroupGloo(PrefixStore(name, store), rank, size, timeout)
        except RuntimeError as error:
            raise CommError(
                f"rank {rank} of {size}: connecting to the others for {name}: {error}\n"
                "  Did every rank of the process group make the same calls to pliant.attach(), in "
                "the same order?"
            ) from error

    control = connect("control")
    _same_groups(control, size, lanes, updates)
    made = [connect(f"lane{i}") for i in range(lanes)]
    words = PrefixStore("words", store)
    exchange = _native.Groups(lanes=made, control=control, store=words)
    return Groups(rank, size, exchange, connect("desk"), words)


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
