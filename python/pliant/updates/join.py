# SPDX-License-Identifier: MIT
"""Support of uneven inputs under updates: `with Join([ddp, averager])`.

A rank that has run out of data settles in a thread: it takes part in the others' exchanges, sending
nothing new, until every rank has come to its end. It does so on copies, because DDP writes the last
joiner's parameters to every rank at the end; the copies are written after that."""

from __future__ import annotations

import logging
import threading
import weakref
from typing import TYPE_CHECKING

from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.nn.parallel import DistributedDataParallel

from pliant.errors import ContractError, UnsupportedError
from pliant.updates.model_tensors import Pair, write

if TYPE_CHECKING:
    from pliant.updates.driver import UpdatesDriver

log = logging.getLogger("pliant")


class JoinSupport:
    def __init__(self, updates: UpdatesDriver, ddp: DistributedDataParallel) -> None:
        self._updates = weakref.proxy(updates)  # neither keeps the other alive
        self._ddp = weakref.proxy(ddp)
        self._joinable: Joinable | None = None  # the averager, inside Join
        self._expected: object = None  # DDP's own mark of the Join that we are part of
        self._copies: Pair | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def begin(self, joinable: Joinable) -> JoinHook:
        if self._updates.trains_locally:
            self._check_in_host_memory()
        self._updates.make_loaded_the_base()
        self._updates.check_as_trained()
        self._joinable = joinable
        self._copy()
        return _Hook(self)

    def _check_in_host_memory(self) -> None:
        """On a device the thread's work would queue behind collectives of Join, and these wait for
        ranks that wait for this thread."""
        for name, parameter in self._updates.tensors.parameters.named():
            if parameter.device.type != "cpu":
                raise UnsupportedError(
                    "under updates Join works with parameters in host memory only, and "
                    f"{name} is on {parameter.device}; plan='gradients' works on devices"
                )

    def before_forward(self) -> None:
        config = self._ddp._join_config
        if self._joinable is not None and not self._joinable._join_config.enable:
            self._joinable = self._copies = None  # Join(..., enable=False)
        if self._joinable is not None:
            self._check_in_host_memory()
            self._expected = config
            Join.notify_join_context(self._joinable)
        elif config.enable and config is not self._expected:
            raise ContractError(
                "under updates ddp.join() alone would leave the others waiting for exchanges: use "
                "Join([ddp, averager])"
            )

    def completed_step(self) -> None:
        if self._joinable is not None:
            self._copy()

    def serve(self) -> None:
        """Called when this rank has no more data and others have."""
        if self._thread is None and self._updates.trains_locally:
            self._thread = threading.Thread(target=self._settle, name="pliant-join", daemon=True)
            self._thread.start()

    def end(self) -> None:
        self._joinable = None
        if not self._updates.trains_locally:
            self._copies = None
            return
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        else:
            self._settle()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        assert self._copies is not None
        parameters, buffers = self._copies
        write(self._updates.tensors.all(), [*parameters, *buffers])
        self._updates.note_trained()
        self._copies = None

    def _settle(self) -> None:
        assert self._copies is not None
        try:
            self._updates.settle_on(self._copies, unbounded=True)
        except BaseException as error:  # noqa: BLE001  raised by end()
            log.error("settling inside Join: %s", error)
            self._failure = error

    def _copy(self) -> None:
        if self._copies is None:
            self._copies = self._updates.tensors.copies()
            return
        parameters, buffers = self._copies
        for tensor, copy in zip(self._updates.tensors.all(), [*parameters, *buffers], strict=True):
            copy.copy_(tensor.detach())


class _Hook(JoinHook):
    def __init__(self, join: JoinSupport) -> None:
        self._join = join

    def main_hook(self) -> None:
        self._join.serve()

    def post_hook(self, is_last_joiner: bool) -> None:
        self._join.end()
