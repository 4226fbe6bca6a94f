# SPDX-License-Identifier: MIT
"""Attachment of the engine to one model: from start() to close() it connects DDP's hooks and the
averager that the user holds with the engine."""

from __future__ import annotations

import dataclasses
import gc
import logging
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from pliant import _native
from pliant.averager_state import AveragerState, Running
from pliant.ddp import hook, process_groups
from pliant.ddp.buffer_broadcast import BroadcastTimer
from pliant.ddp.gradients_driver import GradientsDriver
from pliant.ddp.hook import FirstStep
from pliant.ddp.loss_scale import LossScale
from pliant.ddp.parameters import Parameters
from pliant.engine_setup import make_engine
from pliant.errors import ContractError
from pliant.islands.across import Across
from pliant.monitoring import ending
from pliant.monitoring.monitor import RunMonitor
from pliant.options import Options
from pliant.side_channel import SideChannel
from pliant.summary import Summary
from pliant.updates.support import UpdatesSupport

log = logging.getLogger("pliant")

_running: weakref.WeakSet[Attachment] = weakref.WeakSet()
"""All that were started and not closed."""


def sharing(parameters: Parameters) -> list[tuple[Attachment, str]]:
    """Other attachments that average some of these parameters, each with the name of one."""
    found = _sharing(parameters)
    if found:  # an older DDP object around the same model may be garbage
        gc.collect()
        found = _sharing(parameters)
    return found


def _sharing(parameters: Parameters) -> list[tuple[Attachment, str]]:
    names = {id(tensor): name for name, tensor in parameters.named()}
    found = []
    for other in list(_running):
        shared = [id(tensor) for tensor in other.parameters.tensors if id(tensor) in names]
        if shared:
            found.append((other, names[shared[0]]))
    return found


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
        across: Across | None = None,
    ) -> None:
        self.options = options
        self._ddp = None if ddp is None else weakref.ref(ddp)
        self._device = None if ddp is None else _device_of(ddp)
        self._known_exception = sys.exc_info()[1]
        self.support = support
        self.state = AveragerState()
        self.monitor = RunMonitor(options)
        self._group = group
        self._across = across
        self._parameters = parameters
        self._first_step = FirstStep()
        self._running: Running | None = None
        self._closed: Summary | None = None
        self._on_close: list[Callable[[], None]] = []
        self._end: weakref.finalize[..., Attachment] | None = None
        self.alone_steps: StepsAlone | None = None  # one process: the engine counts nothing
        self._loaded_steps = 0.0  # effective ones, of a state
        self._pins = options.plan  # as the user has set them last

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # a copy of the DDP object is not attached

    # --- from start to close ---

    def start(self) -> None:
        """Collective: makes process groups and the engine, and checks that all ranks agree."""
        parameters, options, group = self.parameters, self.options, self.group
        alone = dist.get_world_size(group) == 1
        if alone:
            self.alone_steps = StepsAlone()
            self.alone_steps.count = self._loaded_steps
            log.warning(
                "%s: nothing to average, everything stays as it is",
                "world size 1" if self._across is None else "one island",
            )
        deadline = options.deadline_seconds
        if deadline is None:
            deadline = process_groups.default_deadline(group)
        self.support.check(options.plan)
        support = self.support
        made = process_groups.make(
            group,
            options.lanes,
            deadline,
            updates=support.driver is not None,
            everybody=None if self._across is None else self._across.everybody,
            part=0 if self._across is None else self._across.part,
        )
        engine = make_engine(
            options,
            made,
            parameters,
            support,
            self.monitor,
            deadline=deadline,
        )
        self.monitor.start(engine)
        self._end = weakref.finalize(self, _end, engine, self.monitor, self._on_close)
        side_channel = across = SideChannel(made.side_channel, deadline, engine)
        if made.across is not made.side_channel:
            across = SideChannel(made.across, deadline, engine)
        state = self.state
        gradients = GradientsDriver(
            engine,
            group,
            parameters,
            scale=LossScale(options.scaler, options.clip_norm or 0.0),
            updates=support.driver,
            before_step=lambda: state.before_step(engine, side_channel),
        )
        self._running = Running(engine, side_channel, parameters, gradients, support)
        _running.add(self)
        if self._ddp is not None and (ddp := self._ddp()) is not None and not alone:
            broadcasts = BroadcastTimer(ddp, engine.note_other_wait, advises=made.rank == 0)
            self.on_close(broadcasts.stop)
        if support.driver is not None:
            self.on_close(support.driver.stop)
            support.driver.start(engine, side_channel, across, alone=alone)
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
        _running.discard(self)
        for action in self._on_close:
            action()
        self._on_close.clear()
        if self._end is not None:
            self._end.detach()
        self.monitor.stop(engine)

    def count_alone(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """For a process without others."""
        if optimizers:
            before = 0.0 if self.alone_steps is None else self.alone_steps.count
            self.alone_steps = StepsAlone(optimizers[0])
            self.alone_steps.count = before
            self.on_close(self.alone_steps.stop)

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
        plan = self.support.pins(plan)
        running = self._running
        if running is not None:
            running.side_channel.check_alike(str(_native.Pins(plan)), "set_plan")
            running.engine.set_plan(plan)
            self._pins = plan
        elif self.is_closed:
            raise ContractError("set_plan: this averager is closed")
        else:
            self.options = dataclasses.replace(self.options, plan=plan)

    def rule_out_updates(self, why: str) -> None:
        """From now on only plans of kind gradients are chosen. Every rank must call it at the same
        step, while training locally is not under way."""
        running = self._running
        if running is None or self.support.driver is None:
            return
        if _native.Pins(self._pins).kind is None:
            log.warning("%s: from now on only plans of kind gradients are used", why)
            self._pins = "gradients" if self._pins == "auto" else f"gradients {self._pins}"
            running.engine.set_plan(self._pins)

    def tell_network(self, link: str | None) -> None:
        if self._running is None:
            raise ContractError(
                "tell_network: there is no engine "
                + ("any more" if self.is_closed else "before the first step")
            )
        self._running.side_channel.check_alike(link, "tell_network")
        self._running.engine.tell_network(link)

    @property
    def worth(self) -> float:
        return self.summary().worth if self._running is None else self._running.engine.worth

    @property
    def effective_steps(self) -> float:
        if self.alone_steps is not None:
            return self.alone_steps.count
        running = self._running
        return self.summary().effective_steps if running is None else running.engine.effective_steps

    def load_alone(self, state: Mapping[str, Any]) -> None:
        """The effective steps of a saved state, for a process without others."""
        self._loaded_steps = float(state.get("effective_steps", 0.0))
        if self.alone_steps is not None:
            self.alone_steps.count = self._loaded_steps

    def summary(self) -> Summary:
        if self._closed is not None:
            return self._closed
        if self._running is None:
            summary = Summary(plan=str(_native.Pins(self.options.plan)))
        else:
            summary = Summary.of(self._running.engine.summary(), self._running.parameters.entries)
        if self.alone_steps is None:
            return summary
        return dataclasses.replace(summary, effective_steps=self.alone_steps.count)

    # --- what the hooks call ---

    def on_bucket(self, bucket: GradBucket) -> Future[torch.Tensor]:
        if self._running is None and not self.is_closed:
            if self._parameters is None:
                self._parameters = self._first_step.take(bucket)
            elif not bucket.buffer().is_sparse:
                self.start()
        if self._running is None:
            return hook.all_reduce(self.group, bucket)
        if self.alone_steps is not None and self.alone_steps.by_backward and bucket.is_last():
            self.alone_steps.count += 1
        return self._running.gradients.on_bucket(bucket)

    def before_training_forward(self) -> None:
        self._check_device()
        updates = self.support.driver
        if updates is not None and updates.trains_locally:
            self.state.warn_if_not_restored()

    def look_for_rescaling(self) -> None:
        if self._running is not None:
            self._running.gradients.look_for_rescaling()

    def optimizer_was_restored(self) -> None:
        self.state.optimizer_was_restored()

    def _check_device(self) -> None:
        """Moving a model gives it other parameters on some devices, which nobody would average."""
        if self._ddp is None or (ddp := self._ddp()) is None:
            return
        if (device := _device_of(ddp)) != self._device:
            raise ContractError(
                f"the model was on {self._device} when pliant was attached, and is on {device} "
                "now. Close the averager, move the model, wrap it in DDP anew and attach again."
            )


class StepsAlone:
    """Count of the steps of a process without others: by an optimizer, else by backward passes."""

    def __init__(self, optimizer: torch.optim.Optimizer | None = None) -> None:
        self.count = 0.0
        self.by_backward = optimizer is None
        reference = weakref.ref(self)

        def stepped(*_: object) -> None:
            if (steps := reference()) is not None:
                steps.count += 1

        self.stop: Callable[[], None] = (
            (lambda: None)
            if optimizer is None
            else optimizer.register_step_post_hook(stepped).remove
        )


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

    @property
    def effective_steps(self) -> float:
        if self.alone_steps is None:
            raise ContractError(
                "effective_steps: without DDP steps are counted by the optimizer; pass it: "
                "pliant.attach(model, optimizer)"
            )
        return self.alone_steps.count


def _device_of(module: nn.Module) -> torch.device | None:
    """That of the first parameter."""
    return next((parameter.device for parameter in module.parameters()), None)


def _end(engine: _native.Engine, monitor: RunMonitor, on_close: list[Callable[[], None]]) -> None:
    """Called when nobody refers to the DDP object any more, or when the script ends, and close()
    was not called."""
    ending.close(engine, at_exit=True)
    for action in on_close:
        action()
    on_close.clear()
    monitor.stop(engine)
