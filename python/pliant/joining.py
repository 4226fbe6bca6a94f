# SPDX-License-Identifier: MIT
"""Uneven inputs under updates: `with Join([ddp, averager])`.

A rank that has run out of data settles in a thread: it answers the others' exchanges, sending
nothing new, until everybody has come to the end. It does so on copies, because DDP writes the last
joiner's parameters everywhere at the end; ours come after."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.algorithms.join import Join, JoinHook
from torch.nn.parallel import DistributedDataParallel

from pliant.errors import ContractError

if TYPE_CHECKING:
    from pliant.averager import Averager
    from pliant.updates import Updates


log = logging.getLogger("pliant")


class Joining:
    def __init__(self, updates: Updates, ddp: DistributedDataParallel) -> None:
        self._updates = updates
        self._ddp = ddp
        self._averager: Averager | None = None  # inside Join
        self._expected: object = None  # DDP's own mark of the Join that we are part of
        self._copies: tuple[list[torch.Tensor], list[torch.Tensor]] | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def begin(self, averager: Averager) -> JoinHook:
        self._updates.check_as_trained()
        self._averager = averager
        self._copy()
        return _Hook(self)

    def before_forward(self) -> None:
        config = self._ddp._join_config
        if self._averager is not None and not self._averager._join_config.enable:
            self._averager = self._copies = None  # Join(..., enable=False)
        if self._averager is not None:
            self._expected = config
            Join.notify_join_context(self._averager)
        elif config.enable and config is not self._expected:
            raise ContractError(
                "under updates ddp.join() alone would leave the others waiting for exchanges: use Join([ddp, averager])"
            )

    def completed_step(self) -> None:
        if self._averager is not None:
            self._copy()

    def serve(self) -> None:
        """This rank has no more data; others have."""
        if self._thread is None and self._updates.training_alone:
            self._thread = threading.Thread(target=self._settle, name="pliant-join", daemon=True)
            self._thread.start()

    def end(self) -> None:
        self._averager = None
        if not self._updates.training_alone:
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
        with torch.no_grad():
            for tensors, copies in zip(
                (self._updates.model.parameters, self._updates.buffers.tensors()),
                self._copies,
                strict=True,
            ):
                for tensor, copy in zip(tensors, copies, strict=True):
                    tensor.copy_(copy)
        self._copies = None

    def _settle(self) -> None:
        assert self._copies is not None
        try:
            self._updates.settle_on(*self._copies)
        except BaseException as error:  # noqa: BLE001  raised by end(), unless torch's own part of Join fails first
            log.error("settling inside Join: %s", error)
            self._failure = error

    def _copy(self) -> None:
        now = (self._updates.model.parameters, self._updates.buffers.tensors())
        if self._copies is None:
            self._copies = tuple([tensor.detach().clone() for tensor in tensors] for tensors in now)  # type: ignore[assignment]
            return
        for tensors, copies in zip(now, self._copies, strict=True):
            for tensor, copy in zip(tensors, copies, strict=True):
                copy.copy_(tensor.detach())


class _Hook(JoinHook):
    def __init__(self, joining: Joining) -> None:
        self._joining = joining

    def main_hook(self) -> None:
        self._joining.serve()

    def post_hook(self, is_last_joiner: bool) -> None:
        self._joining.end()


class Idle(JoinHook):
    """Kind gradients: DDP's own hook does all there is to do."""

    def __init__(self, **kwargs: Any) -> None:
        pass
