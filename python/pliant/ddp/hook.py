# SPDX-License-Identifier: MIT
"""Communication hook of DDP.

A hook is registered once per DDP object and cannot be removed. So a slot is registered, which
averagers enter and leave. While the slot is empty, gradients are averaged as DDP would."""

import atexit
import os
import weakref
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from pliant import _native
from pliant.ddp import parameters
from pliant.ddp.parameters import Parameters
from pliant.errors import UnsupportedError


class BucketHandler(Protocol):
    def on_bucket(self, bucket: GradBucket) -> Future[torch.Tensor]: ...


def hook(state: BucketHandler, bucket: GradBucket) -> Future[torch.Tensor]:
    return state.on_bucket(bucket)


class HookSlot:
    """Refers weakly to its handler: DDP's reducer holds the slot where Python's garbage collector
    cannot look. The DDP object itself keeps the handler alive."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self._ddp = weakref.ref(ddp)
        self._handler: weakref.ref[BucketHandler] | None = None

    @property
    def handler(self) -> BucketHandler | None:
        return None if self._handler is None else self._handler()

    def enter(self, handler: BucketHandler) -> None:
        self._handler = weakref.ref(handler)
        if (ddp := self._ddp()) is not None:
            ddp.__dict__[_KEPT] = handler

    def leave(self) -> None:
        self._handler = None
        if (ddp := self._ddp()) is not None:
            ddp.__dict__.pop(_KEPT, None)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # a copy of the DDP object is not attached

    def on_bucket(self, bucket: GradBucket) -> Future[torch.Tensor]:
        if (handler := self.handler) is not None:
            return handler.on_bucket(bucket)
        ddp = self._ddp()
        assert ddp is not None, "only its own reducer calls"
        return all_reduce(ddp.process_group, bucket)


_KEPT = "_pliant_handler"
"""Attribute of a DDP object that keeps the handler of its slot alive."""

_slots: weakref.WeakKeyDictionary[DistributedDataParallel, HookSlot] = weakref.WeakKeyDictionary()


def slot_of(ddp: DistributedDataParallel) -> HookSlot:
    """The slot of this DDP object, registered at the first call."""
    if (slot := _slots.get(ddp)) is not None:
        return slot
    slot = HookSlot(ddp)
    hooks = getattr(ddp, "_comm_hooks", [])
    try:
        if hooks:
            raise RuntimeError(getattr(hooks[0][0], "__qualname__", "a hook"))
        ddp.register_comm_hook(slot, hook)
    except RuntimeError as error:
        if hooks:
            del hooks[1:]  # DDP lists a hook before it finds that there is one already
        raise UnsupportedError(
            f"this DDP object has a communication hook already ({error}), and DDP takes one only. "
            "Leave out register_comm_hook(): pliant exchanges the gradients itself."
        ) from None
    _slots[ddp] = slot
    return slot


def is_alone_without_ddp(model: nn.Module) -> bool:
    """Whether this is the only process, and nobody has wrapped the model, as Accelerate does not
    then."""
    inner = getattr(model, "_orig_mod", model)
    if not isinstance(inner, nn.Module) or isinstance(inner, DistributedDataParallel):
        return False
    if dist.is_initialized():
        size = dist.get_world_size()
    else:  # somebody may have forgotten init_process_group()
        size = int(os.environ.get("WORLD_SIZE", "1"))
    return size == 1 and not _is_fsdp(inner)


def unwrap(model: nn.Module) -> DistributedDataParallel:
    """The DDP object, also from under torch.compile; anything else is refused by name."""
    inner = getattr(model, "_orig_mod", model)
    if isinstance(inner, DistributedDataParallel):
        return inner
    name = type(inner).__name__
    if _is_fsdp(inner):
        raise UnsupportedError(
            f"pliant.attach() works on DistributedDataParallel, and {name} is FSDP: its ranks hold "
            "different parts of the parameters, "
            "so there is no gradient that all of them average. Use DDP, or FSDP without pliant."
        )
    raise UnsupportedError(
        f"pliant.attach() works on torch.nn.parallel.DistributedDataParallel, not on {name}. Wrap "
        "the model first: "
        "pliant.attach(DistributedDataParallel(model), optimizer)"
    )


def _is_fsdp(model: nn.Module) -> bool:
    families = [base.__name__ for base in type(model).__mro__]
    return "FullyShardedDataParallel" in families or "FSDPModule" in families


class FirstStep:
    """Collects a model's parameters from the buckets of its first step, for a bare hook that was
    made without the model."""

    def __init__(self) -> None:
        self._seen: list[torch.Tensor] = []

    def take(self, bucket: GradBucket) -> Parameters | None:
        """All parameters after the last bucket, None before. Sparse gradients are not exchanged, so
        their parameters do not count."""
        if not bucket.buffer().is_sparse:
            self._seen.extend(bucket.parameters())
        if not bucket.is_last() or not self._seen:
            return None
        found = parameters.anonymous(list(reversed(self._seen)))
        self._seen.clear()
        return found


def all_reduce(group: dist.ProcessGroup, bucket: GradBucket) -> Future[torch.Tensor]:
    """The average that DDP computes without a hook, bit for bit: scaled first, then summed, on the
    user's own group, by the thread that DDP calls from."""
    return begin_all_reduce(group, bucket)[1]


def begin_all_reduce(
    group: dist.ProcessGroup, bucket: GradBucket
) -> tuple[Future[list[torch.Tensor]], Future[torch.Tensor]]:
    """The same: the process group's own future, and the one for DDP."""
    buffer = bucket.buffer()
    buffer.mul_(1.0 / dist.get_world_size(group))
    started = dist.all_reduce(buffer, group=group, async_op=True)
    assert started is not None
    work: Future[list[torch.Tensor]] = started.get_future()
    if buffer.device.type == "cpu":  # a callback of Python's may not outlive the interpreter
        return work, _native.completed_with(work, buffer)
    return work, work.then(lambda future: future.value()[0])


atexit.register(_native.wait_for_completions)


def unchanged(bucket: GradBucket) -> Future[torch.Tensor]:
    future: Future[torch.Tensor] = Future()
    future.set_result(bucket.buffer())
    return future
