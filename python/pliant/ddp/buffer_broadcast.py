# SPDX-License-Identifier: MIT
"""Timer of DDP's own broadcast of buffers, which takes place before every forward."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from pliant.ddp.loop_observer import CallHook, takes_hooks

log = logging.getLogger("pliant")

_BROADCASTS = 20
"""Number of broadcasts after which their cost is known well enough to speak of it."""

_WORTH_MENTIONING = 0.05
"""Share of the time between two forwards."""


class BroadcastTimer:
    """Reports each broadcast's seconds to `report`, and advises once to turn broadcasts off where
    they are slow. They lie between the hooks of the DDP object and those of its module."""

    def __init__(
        self, ddp: DistributedDataParallel, report: Callable[[float], None], *, advises: bool
    ) -> None:
        self._report = report
        self._advises = advises
        self._began: float | None = None  # the forward of DDP that has not come to its module yet
        self._first: float | None = None
        self._count = 0
        self._spent = 0.0
        self._handles: list[RemovableHandle] = []
        if takes_hooks(ddp.module) and ddp.will_sync_module_buffers():  # type: ignore[no-untyped-call]
            self._handles = [
                ddp.register_forward_pre_hook(CallHook(self._enter_ddp)),
                ddp.module.register_forward_pre_hook(CallHook(self._enter_module)),
            ]

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _enter_ddp(self, ddp: DistributedDataParallel, inputs: object) -> None:
        synchronizes = ddp.will_sync_module_buffers()  # type: ignore[no-untyped-call]
        self._began = time.perf_counter() if synchronizes else None

    def _enter_module(self, module: nn.Module, inputs: object) -> None:
        began, self._began = self._began, None
        if began is None:
            return
        now = time.perf_counter()
        self._report(now - began)
        if self._first is None:
            self._first = began
        self._count += 1
        self._spent += now - began
        elapsed = now - self._first
        if (
            self._count == _BROADCASTS
            and self._advises
            and self._spent > _WORTH_MENTIONING * elapsed
        ):
            log.warning(
                "DDP broadcasts the model's buffers before every forward, which takes %.0f ms of "
                "%.0f ms a step here. If every rank may keep its own running statistics, turn it "
                "off: DistributedDataParallel(..., broadcast_buffers=False)",
                1e3 * self._spent / self._count,
                1e3 * elapsed / self._count,
            )
