# SPDX-License-Identifier: MIT
"""Switch that keeps a DDP object inside its own no_sync(): under updates no gradient is averaged,
so DDP need not prepare for it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from torch.nn.parallel import DistributedDataParallel


class NoSync:
    def __init__(self, ddp: DistributedDataParallel) -> None:
        self._ddp = ddp
        self._context: AbstractContextManager[None] | None = None
        # With a static graph, DDP learns the graph from its first iteration, which must therefore
        # be synchronised.
        self._seen_backward = not ddp.static_graph

    def saw_backward(self) -> None:
        self._seen_backward = True

    def enter(self) -> None:
        """Before every forward, because users may leave no_sync() or set its flags themselves."""
        # Otherwise the first forward would write rank 0's buffers to all ranks.
        self._ddp.require_forward_param_sync = False
        if not self._seen_backward or not self._ddp.require_backward_grad_sync:
            return
        self.leave()
        self._context = self._ddp.no_sync()
        self._context.__enter__()

    def leave(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            context.__exit__(None, None, None)
