# SPDX-License-Identifier: MIT
"""The one line: `averager = pliant.attach(ddp, optimizer)`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future

from pliant import _native, hook, model as models, telling
from pliant.averager import Averager, Options, pins_updates
from pliant.buffers import Buffers
from pliant.errors import ContractError, UnsupportedError
from pliant.optimizers import Optimizers
from pliant.updates import Updates
from pliant.watch import Watch

Hook = Callable[[Any, GradBucket], Future[torch.Tensor]]


def attach(
    ddp: nn.Module,
    optimizer: object = None,
    plan: str = "auto",
    *,
    deadline: float | str | None = None,
    lanes: int = 2,
    clip_norm: float | None = None,
    warm_up: int | None = None,
    ramp: bool = False,
    check_every: int = 100,
    selector: Literal["native", "torch"] = "native",
    scaler: object = None,
    buffers: bool = True,
    clear_momentum: bool | None = None,
    policy: Literal["auto", "knee", "fixed"] = "auto",
    dials: Mapping[str, float] | None = None,
    log: str | os.PathLike[str] | None = None,
    name: str | None = None,
    metrics: str | None = None,
) -> Averager:
    """From now on pliant exchanges what this DDP object learns. Collective: every rank of its
    process group calls it, with the same arguments, which is checked; only deadline, log, name and
    metrics are each rank's own.

    optimizer: the one, or a list of all. Plans of kind updates need it. plan: "auto", or any part
    of a plan, as docs/plans.md has it. deadline: for each message, in seconds or as "30s"; left
    out, the timeout of the process group. lanes: exchanges under way at once, each in a thread with
    connections of its own; 0: in the training thread. clip_norm: each rank's own gradient is
    clipped to this norm before it is exchanged. warm_up: so many steps are dense at first; with
    ramp=True they get sparser step by step. Where density is not pinned, so many steps are as dense
    as the network lets them be (docs/control.md), and then always get sparser step by step.
    check_every: exchanges between two comparisons of what the ranks applied; 0: never. selector:
    "torch" accumulates and selects with torch operations where the gradients are, and moves only
    what is kept to the host. Gradients on a device other than the CPU always do. scaler: the
    GradScaler, if there is one: what is not sent yet is rescaled with the loss. buffers: under
    updates, floating buffers (BatchNorm's statistics) travel with every exchange; False leaves them
    to each rank. clear_momentum: under updates with every=1 and a density of at most 1 %, momentum
    is cleared at entries that were sent; left out, that of SGD and its kin (momentum_buffer); True:
    also that of Adam, RMSprop and Muon; False: none. policy: how what is not pinned is chosen:
    "auto", the most progress per second; "knee", as the published system; "fixed", not at all.
    dials: numbers that steer it, by name, as docs/control.md lists them: {"p": 0.3} leans towards
    accuracy. log: rank 0 writes a run log there (docs/formats/run-log.md), every rank its own if
    the path has {rank} in it. name: of the run, in log and metrics; left out, the log's. metrics:
    Prometheus text of rank 0: "127.0.0.1:9095" (a port alone is on loopback), or a file that ends
    in .prom (docs/metrics.md)."""
    module = models.unwrap(ddp)
    optimizers = None if optimizer is None else Optimizers(optimizer)
    options = _options(
        plan,
        deadline,
        lanes,
        clip_norm,
        warm_up,
        ramp,
        check_every,
        selector,
        policy,
        dials,
        log,
        name,
        metrics,
    )
    if optimizers is not None:
        adam = any(models.divides_by_second_moment(one) for one in optimizers.each)
        options = dataclasses.replace(options, adam=adam, clear_momentum=clear_momentum)
    model = models.of_ddp(module)
    seat = hook.seat_of(module)
    if seat.averager is not None:
        raise ContractError(
            "pliant is attached to this DDP object already; close() that averager first"
        )
    ignored = frozenset(module.parameters_to_ignore)
    if optimizers is None:
        averager = Averager(options, module.process_group, model, scaler)
    else:
        objection = optimizers.objection(model, module.module, ignored)
        travelling = Buffers(module.module, ignored) if buffers else Buffers()
        updates = objection or Updates(
            module, model, optimizers, travelling, clear_momentum, scaler
        )
        averager = Averager(options, module.process_group, model, scaler, updates)
    averager.start()
    watch = Watch(averager, module, optimizers.each if optimizers is not None else [])
    seat.averager = averager

    def leave() -> None:
        watch.stop()
        seat.averager = None

    averager.on_close(leave)
    return averager


def comm_hook(
    plan: str = "auto",
    *,
    model: nn.Module | None = None,
    process_group: dist.ProcessGroup | None = None,
    deadline: float | str | None = None,
    lanes: int = 2,
    clip_norm: float | None = None,
    warm_up: int | None = None,
    ramp: bool = False,
    check_every: int = 100,
    scaler: object = None,
    policy: Literal["auto", "knee", "fixed"] = "auto",
    dials: Mapping[str, float] | None = None,
    log: str | os.PathLike[str] | None = None,
    name: str | None = None,
    metrics: str | None = None,
) -> tuple[Averager, Hook]:
    """The bare pair for `register_comm_hook(state, hook)`; it may be made before the process group.
    `state` is the averager.

    model: the module inside DDP. With it, parameters have their names in state_dict() and every
    step is exchanged by the plan; without it the first step is a plain all-reduce, which shows the
    hook what there is. process_group: the one DDP was given. The rest is as attach() has it; log
    and metrics begin with the first step."""
    options = _options(
        plan,
        deadline,
        lanes,
        clip_norm,
        warm_up,
        ramp,
        check_every,
        "native",
        policy,
        dials,
        log,
        name,
        metrics,
    )
    if pins_updates(plan):
        raise UnsupportedError(
            f"plan '{plan}': a bare hook sees gradients only; plans of kind updates need pliant.attach(ddp, optimizer, plan)"
        )
    averager = Averager(options, process_group, None if model is None else models.of(model), scaler)
    if model is not None:
        watch = Watch(averager, model, [])
        averager.on_close(watch.stop)
    return averager, hook.hook


def _options(
    plan: str,
    deadline: float | str | None,
    lanes: int,
    clip_norm: float | None,
    warm_up: int | None,
    ramp: bool,
    check_every: int,
    selector: str,
    policy: str,
    dials: Mapping[str, float] | None,
    log: str | os.PathLike[str] | None,
    name: str | None,
    metrics: str | None,
) -> Options:
    path = telling.check(log, metrics)
    _native.read_plan(plan)
    _native.check_steering(policy, dials or {})
    if selector not in ("native", "torch"):
        raise ValueError(f"selector='{selector}': 'native' or 'torch'")
    if isinstance(deadline, str):
        deadline = _native.read_duration(deadline, "deadline")
    for what, value, least in (
        ("lanes", lanes, 0),
        ("warm_up", warm_up or 0, 0),
        ("check_every", check_every, 0),
    ):
        if value < least:
            raise ValueError(f"{what}={value}: at least {least}")
    if deadline is not None and not deadline > 0:
        raise ValueError(f"deadline={deadline}: more than 0 seconds")
    if ramp and not warm_up:
        raise ValueError("ramp=True: say with warm_up= how many steps it takes")
    if clip_norm is not None and not clip_norm > 0:
        raise ValueError(f"clip_norm={clip_norm}: more than 0")
    return Options(
        plan=plan,
        deadline=deadline,
        lanes=lanes,
        clip_norm=clip_norm or 0.0,
        warm_up=warm_up,
        ramp=ramp,
        check_every=check_every,
        selector=selector,
        policy=policy,
        dials=dict(dials or {}),
        log=path,
        name=name,
        metrics=metrics,
    )
