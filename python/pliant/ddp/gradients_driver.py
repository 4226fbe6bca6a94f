# SPDX-License-Identifier: MIT
"""Driver of kind gradients: hands DDP's buckets to the engine, and notices gradients that were
rescaled after their exchange."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future

from pliant import _native
from pliant.ddp import hook
from pliant.ddp.loss_scale import LossScale
from pliant.ddp.parameters import Parameters
from pliant.errors import ContractError
from pliant.log_once import LogOnce


class LocalTraining(Protocol):
    """The part of the updates driver that decides whether a bucket is exchanged."""

    @property
    def trains_locally(self) -> bool: ...
    def saw_bucket(self) -> None: ...


class GradientsDriver:
    """From the engine's start to its end. While a plan of kind updates is in force, buckets pass
    unchanged.

    group: the user's, for sparse gradients and for dense ones on a device. updates: None if kind updates is impossible. before_step: called before a step's first bucket is
    exchanged."""

    def __init__(
        self,
        engine: _native.Engine,
        group: dist.ProcessGroup,
        parameters: Parameters,
        *,
        scale: LossScale,
        updates: LocalTraining | None,
        before_step: Callable[[], None],
    ) -> None:
        self.scale = scale
        self._engine = engine
        self._group = group
        self._updates = updates
        self._before_step = before_step
        self._alone = dist.get_world_size(group) == 1
        self._in_step = False  # between a step's first bucket and its last
        self._local = False  # the backward under way belongs to a step of kind updates
        self._log_once = LogOnce()
        self._devices = {id(tensor): tensor.device for tensor in parameters.tensors}
        if not self._alone:
            engine.watch_gradients()

    def on_bucket(self, bucket: GradBucket) -> Future[torch.Tensor]:
        if bucket.buffer().is_sparse:
            self._in_step = self._in_step and not bucket.is_last()
            return hook.all_reduce(self._group, bucket)
        if self._alone:
            return hook.unchanged(bucket)
        begins, self._in_step = not self._in_step, not bucket.is_last()
        if begins:
            self._begin_step()
        if self._local:
            assert self._updates is not None
            self._updates.saw_bucket()
            return hook.unchanged(bucket)
        parameters = bucket.parameters()
        self._check_device(parameters[0], bucket.buffer())
        if bucket.buffer().device.type != "cpu":
            self._engine.begin_step()  # from here on the plan is this step's
            if self._engine.caller_may_average:
                work, future = hook.begin_all_reduce(self._group, bucket)
                self._engine.submit_averaged(parameters, work, bucket.buffer().device)
                return future
        return self._engine.submit(bucket.buffer(), parameters)

    def look_for_rescaling(self) -> None:
        """Warns if user code rescaled the averaged gradients. Under a sparse plan they are sums of
        several steps, so their norm is not that of one gradient."""
        if "rescaled" in self._log_once or self._alone or self._engine.is_updates:
            return
        if self._engine.plan.density == 1:
            return
        factor = self._engine.rescaled()
        if factor is None or self.scale.explains(factor):
            return
        self._log_once.warning(
            "rescaled",
            f"something multiplied the averaged gradients by {factor:.3g} (clip_grad_norm_?). "
            "Under a sparse plan they hold the sum of "
            "several steps, so their norm is not that of a gradient. Clip before the exchange "
            "instead: pliant.attach(..., clip_norm=...); "
            "if it was a GradScaler, pass it: pliant.attach(..., scaler=scaler)",
        )

    def _begin_step(self) -> None:
        self._local = self._updates is not None and self._updates.trains_locally
        if not self._local:
            self._before_step()
            self.scale.follow(self._engine)

    def _check_device(self, parameter: torch.Tensor, buffer: torch.Tensor) -> None:
        device = self._devices.get(id(parameter), parameter.device)
        if not device == parameter.device == buffer.device:
            raise ContractError(
                f"the model was on {device} when pliant was attached, and is on {parameter.device} "
                "now. Close the averager, move the model, wrap it in DDP anew and attach again."
            )
