# SPDX-License-Identifier: MIT
"""Keeps a DDP object inside its own no_sync(): under updates no gradient is averaged, and DDP need
not prepare for it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from torch.nn.parallel import DistributedDataParallel


class Quiet:
    def __init__(self, ddp: DistributedDataParallel) -> None:
        self._ddp = ddp
        self._inside: AbstractContextManager[None] | None = None
        # With a static graph, the first iteration must be synchronised: DDP learns the graph from
        # it.
        self._seen_a_backward = not ddp.static_graph

    def saw_a_backward(self) -> None:
        self._seen_a_backward = True

    def enter(self) -> None:
        """Before every forward: users leave no_sync(), or set what it sets, as they please."""
        self._ddp.require_forward_param_sync = (
            False  # else the first forward would write rank 0's buffers over everybody's
        )
        if not self._seen_a_backward or not self._ddp.require_backward_grad_sync:
            return
        self.leave()
        self._inside = self._ddp.no_sync()
        self._inside.__enter__()

    def leave(self) -> None:
        inside, self._inside = self._inside, None
        if inside is not None:
            inside.__exit__(None, None, None)
