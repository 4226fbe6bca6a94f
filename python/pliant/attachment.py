# SPDX-License-Identifier: MIT
"""Attachment of the engine to one model: from start() to close() it connects DDP's hooks and the
averager that the user holds with the engine."""

from __future__ import annotations

import dataclasses
import logging
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from pliant import _native
from pliant.averager_state import AveragerState, Running
from pliant.ddp import device_selector, hook, process_groups
from pliant.ddp.buffer_broadcast import BroadcastTimer
from pliant.ddp.device_selector import DeviceSelector
from pliant.ddp.gradients_driver import GradientsDriver
from pliant.ddp.hook import FirstStep
from pliant.ddp.loss_scale import LossScale
from pliant.ddp.parameters import Parameters
from pliant.engine_setup import make_engine
from pliant.errors import ContractError
from pliant.monitoring import ending
from pliant.monitoring.monitor import RunMonitor
from pliant.options import Options
from pliant.side_channel import SideChannel
from pliant.summary import Summary
from pliant.updates.support import UpdatesSupport

log = logging.getLogger("pliant")


class Attachment:
    """Used by the thread that trains. parameters: None for a bare hook that was made without the
    model; then the first step shows them."""

    def __init__(
        self,
        options: Options,
        group: dist.ProcessGroup | None,
        parameters: Parameters | None,
        support: UpdatesSupport,
        ddp: DistributedDataParallel | None = None,
    ) -> None:
        self.options = options
        self._ddp = None if ddp is None else weakref.ref(ddp)
        self._known_exception = sys.exc_info()[1]
        self.support = support
        self.state = AveragerState()
        self.monitor = RunMonitor(options)
        self._group = group
        self._parameters = parameters
        self._first_step = FirstStep()
        self._running: Running | None = None
        self._closed: Summary | None = None
        self._on_close: list[Callable[[], None]] = []
        self._end: weakref.finalize[..., Attachment] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # a copy of the DDP object is not attached

    # --- from start to close ---

    def start(self) -> None:
        """Collective: makes process groups and the engine, and checks that all ranks agree."""
        parameters, options, group = self.parameters, self.options, self.group
        alone = dist.get_world_size(group) == 1
        if alone:
            log.warning("world size 1: nothing to average, everything stays as it is")
        selector = self._device_selector(parameters)
        deadline = options.deadline_seconds
        if deadline is None:
            deadline = process_groups.default_deadline(group)
        self.support.check(options.plan)
        support = self.support
        made = process_groups.make(
            group, options.lanes, deadline, updates=support.driver is not None
        )
        engine = make_engine(
            options,
            made,
            parameters,
            support,
            self.monitor,
            on_device=selector is not None,
            deadline=deadline,
        )
        self.monitor.start(engine)
        self._end = weakref.finalize(self, _end, engine, self.monitor, self._on_close)
        side_channel = SideChannel(made.side_channel, made.store, deadline, engine)
        state = self.state
        gradients = GradientsDriver(
            engine,
            group,
            scale=LossScale(options.scaler, options.clip_norm or 0.0),
            selector=selector,
            updates=support.driver,
            before_step=lambda: state.before_step(engine, side_channel),
        )
        self._running = Running(engine, side_channel, parameters, gradients, support)
        if self._ddp is not None and (ddp := self._ddp()) is not None and not alone:
            broadcasts = BroadcastTimer(ddp, engine.note_other_wait, advises=made.rank == 0)
            self.on_close(broadcasts.stop)
        if support.driver is not None:
            self.on_close(support.driver.stop)
            support.driver.start(engine, side_channel, alone=alone)
        self.state.load_pending(self._running)

    def close(self) -> None:
        """Collective under updates, where it settles first, unless an exception is on its way."""
        if self._closed is not None:
            return
        updates = self.support.driver
        fails = ending.on_its_way(self._known_exception) is not None
        if updates is not None and not updates.failed and not fails:
            updates.settle()
        engine = None if self._running is None else self._running.engine
        if engine is not None:
            ending.close(engine, known=self._known_exception)
        self._closed = self.summary()
        self._running = None
        for action in self._on_close:
            action()
        self._on_close.clear()
        if self._end is not None:
            self._end.detach()
        self.monitor.stop(engine)

    def on_close(self, action: Callable[[], None]) -> None:
        """action: must not refer to this object, which it would keep alive."""
        self._on_close.append(action)

    # --- what Averager asks ---

    @property
    def running(self) -> Running | None:
        return self._running

    @property
    def trains_locally(self) -> bool:
        return self.support.driver is not None and self.support.driver.trains_locally

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    @property
    def parameters(self) -> Parameters:
        if self._parameters is None:
            raise ContractError("pliant: a bare hook knows its model after the first step")
        return self._parameters

    @property
    def group(self) -> dist.ProcessGroup:
        """The user's."""
        group = self._group if self._group is not None else dist.group.WORLD
        if group is None:
            raise ContractError(
                "pliant: there is no process group yet; call "
                "torch.distributed.init_process_group() first"
            )
        return group

    def set_plan(self, plan: str) -> None:
        self.support.check(plan)
        running = self._running
        if running is not None:
            if running.gradients.selector is not None:
                device_selector.check(plan)
            running.side_channel.check_alike(str(_native.Pins(plan)), "set_plan")
            running.engine.set_plan(plan)
        elif self.is_closed:
            raise ContractError("set_plan: this averager is closed")
        else:
            self.options = dataclasses.replace(self.options, plan=plan)

    def tell_network(self, link: str | None) -> None:
        if self._running is None:
            raise ContractError(
                "tell_network: there is no engine "
                + ("any more" if self.is_closed else "before the first step")
            )
        self._running.side_channel.check_alike(link, "tell_network")
        self._running.engine.tell_network(link)

    def summary(self) -> Summary:
        if self._closed is not None:
            return self._closed
        if self._running is None:
            return Summary(plan=str(_native.Pins(self.options.plan)))
        selector = self._running.gradients.selector
        return Summary.of(
            self._running.engine.summary(),
            self._running.parameters.entries,
            0 if selector is None else selector.bytes,
        )

    # --- what the hooks call ---

    def on_bucket(self, bucket: GradBucket) -> Future[torch.Tensor]:
        if self._running is None and not self.is_closed:
            if self._parameters is None:
                self._parameters = self._first_step.take(bucket)
            elif not bucket.buffer().is_sparse:
                self.start()
        if self._running is None:
            return hook.all_reduce(self.group, bucket)
        return self._running.gradients.on_bucket(bucket)

    def before_training_forward(self) -> None:
        updates = self.support.driver
        if updates is not None and updates.trains_locally:
            self.state.warn_if_not_restored()

    def look_for_rescaling(self) -> None:
        if self._running is not None:
            self._running.gradients.look_for_rescaling()

    def optimizer_was_restored(self) -> None:
        self.state.optimizer_was_restored()

    def _device_selector(self, parameters: Parameters) -> DeviceSelector | None:
        """Where torch selects, updates are impossible."""
        in_host_memory = all(tensor.device.type == "cpu" for tensor in parameters.tensors)
        if in_host_memory and self.options.selector == "native":
            return None
        device_selector.check(self.options.plan)
        self.support = dataclasses.replace(
            self.support,
            driver=None,
            why_not="plans of kind updates work on parameters in host memory, with selector='native'",
        )
        return DeviceSelector(parameters, self.options.clip_norm or 0.0)


class InertAttachment(Attachment):
    """Attachment to a model that is not wrapped in DDP, in a process without others: nothing is
    exchanged, and nothing is kept."""

    def __init__(self, options: Options, parameters: Parameters) -> None:
        super().__init__(options, None, parameters, UpdatesSupport())
        self.state.load(None, {})
        log.warning("one process and no DDP: nothing to average, everything stays as it is")

    def set_plan(self, plan: str) -> None:
        self.options = dataclasses.replace(self.options, plan=plan)

    def tell_network(self, link: str | None) -> None:
        pass


def _end(engine: _native.Engine, monitor: RunMonitor, on_close: list[Callable[[], None]]) -> None:
    """Called when nobody refers to the DDP object any more, or when the script ends, and close()
    was not called."""
    ending.close(engine, at_exit=True)
    for action in on_close:
        action()
    on_close.clear()
    monitor.stop(engine)
