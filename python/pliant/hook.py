# SPDX-License-Identifier: MIT
"""The communication hook of DDP. It can be registered once per DDP object and never taken away
again, so what is registered is a seat: averagers come and go, and while there is none, gradients
are averaged as DDP would."""

import weakref
from typing import Protocol

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from pliant.errors import UnsupportedError


class Averaging(Protocol):
    def on_bucket(self, bucket: GradBucket) -> Future[torch.Tensor]: ...


def hook(state: Averaging, bucket: GradBucket) -> Future[torch.Tensor]:
    return state.on_bucket(bucket)


class Seat:
    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group
        self.averager: Averaging | None = None

    def on_bucket(self, bucket: GradBucket) -> Future[torch.Tensor]:
        if self.averager is None:
            return all_reduce(self.group, bucket)
        return self.averager.on_bucket(bucket)


_seats: weakref.WeakKeyDictionary[DistributedDataParallel, Seat] = weakref.WeakKeyDictionary()


def seat_of(ddp: DistributedDataParallel) -> Seat:
    """The seat of this DDP object; registered at the first call."""
    if (seat := _seats.get(ddp)) is not None:
        return seat
    seat = Seat(ddp.process_group)
    hooks = getattr(ddp, "_comm_hooks", [])
    try:
        if hooks:
            raise RuntimeError(getattr(hooks[0][0], "__qualname__", "a hook"))
        ddp.register_comm_hook(seat, hook)
    except RuntimeError as error:
        if hooks:
            del hooks[1:]  # DDP notes a hook before it finds that there is one
        raise UnsupportedError(
            f"this DDP object has a communication hook already ({error}), and DDP takes one only. "
            "Leave out register_comm_hook(): pliant exchanges the gradients itself."
        ) from None
    _seats[ddp] = seat
    return seat


def all_reduce(group: dist.ProcessGroup, bucket: GradBucket) -> Future[torch.Tensor]:
    """Bit for bit what DDP does without a hook: scaled first, then summed; on the user's own group,
    by the thread that DDP calls from."""
    buffer = bucket.buffer()
    buffer.mul_(1.0 / dist.get_world_size(group))
    work = dist.all_reduce(buffer, group=group, async_op=True)
    assert work is not None
    first: Future[torch.Tensor] = work.get_future().then(lambda future: future.value()[0])
    return first


def unchanged(bucket: GradBucket) -> Future[torch.Tensor]:
    future: Future[torch.Tensor] = Future()
    future.set_result(bucket.buffer())
    return future
