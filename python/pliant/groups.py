# SPDX-License-Identifier: MIT
"""Gloo groups of our own: one per lane, one for control, and one for the training thread.

The user's group is never used by a lane: Gloo tells collectives apart by the order in which they
are called, and a lane's order is not the training thread's. Ours are made over the same store under
names of our own and are in none of torch.distributed's tables, so that the last reference to one is
its end."""

from __future__ import annotations

import datetime
import hashlib
import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend, PrefixStore, ProcessGroupGloo, Store
from torch.distributed import distributed_c10d

from pliant.errors import CommError, DisagreementError, UnsupportedError

# Messages have deadlines of their own; Gloo's timeout is behind them, for what only Gloo waits for.
_BEHIND_DEADLINES = datetime.timedelta(seconds=30)

_made: dict[str, int] = {}
"""How often groups of these ranks have been made. All of them make them together, so all count alike."""


@dataclass(frozen=True)
class Groups:
    rank: int
    size: int
    lanes: list[Backend]
    control: Backend
    store: Store
    desk: Backend


def default_deadline(group: dist.ProcessGroup) -> float:
    """The timeout of the user's own group, in seconds: whoever changed that meant it."""
    for device in ("cpu", "cuda"):
        try:
            timeout = group._get_backend(torch.device(device)).options._timeout
        except (RuntimeError, AttributeError):
            continue
        return float(timeout.total_seconds())
    return float(distributed_c10d.default_pg_timeout.total_seconds())


def make(group: dist.ProcessGroup, lanes: int, deadline: float, *, updates: bool) -> Groups:
    """Collective over the ranks of `group`."""
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
                "  Did every rank of the process group make the same calls to pliant.attach(), in the same order?"
            ) from error

    control = connect("control")
    _same_groups(control, size, lanes, updates)
    made = [connect(f"lane{i}") for i in range(lanes)]
    return Groups(rank, size, made, control, PrefixStore("words", store), connect("desk"))


def _same_groups(control: Backend, size: int, lanes: int, updates: bool) -> None:
    """Before anybody waits for a lane that others do not have."""
    mine = torch.tensor([lanes, updates])
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
