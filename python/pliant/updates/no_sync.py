# SPDX-License-Identifier: MIT
"""Switch that keeps a DDP object as inside its own no_sync(): under updates no gradient is averaged,
so DDP need not prepare for it."""

from __future__ import annotations

import weakref

from torch.nn.parallel import DistributedDataParallel


class NoSync:
    """Sets the flag that no_sync() sets. A context that was entered would keep DDP alive."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self._ddp = weakref.ref(ddp)
        self._entered = False
        # With a static graph, DDP learns the graph from its first iteration, which must therefore
        # be synchronised.
        self._seen_backward = not ddp.static_graph

    def saw_backward(self) -> None:
        self._seen_backward = True

    def enter(self) -> None:
        """Before every forward, because users may leave no_sync() or set its flags themselves."""
        if (ddp := self._ddp()) is None:
            return
        # Otherwise the first forward would write rank 0's buffers to all ranks.
        ddp.require_forward_param_sync = False
        if self._seen_backward and ddp.require_backward_grad_sync:
            ddp.require_backward_grad_sync = False
            self._entered = True

    def leave(self) -> None:
        entered, self._entered = self._entered, False
        if entered and (ddp := self._ddp()) is not None:
            ddp.require_backward_grad_sync = True
