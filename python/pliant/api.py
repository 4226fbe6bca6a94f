# SPDX-License-Identifier: MIT
"""Functions of the public interface that connect pliant with DDP: `attach` and `comm_hook`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.distributed.device_mesh import DeviceMesh
from torch.futures import Future

from pliant.argument_checks import check_word, refusal
from pliant.attachment import Attachment, InertAttachment, sharing
from pliant.averager import Averager
from pliant.ddp import hook, parameters
from pliant.ddp.loop_observer import LoopObserver
from pliant.ddp.new_parameters import NewParameters
from pliant.errors import ContractError, UnsupportedError
from pliant.islands.attach import attach_island, attach_nodes
from pliant.options import Options, pins_updates
from pliant.updates.optimizers import Optimizers
from pliant.updates.support import UpdatesSupport, support_for, warn_of_gradients_only

Hook = Callable[[Any, GradBucket], Future[torch.Tensor]]


def attach(
    ddp: nn.Module,
    optimizer: object = None,
    plan: str = "auto",
    *,
    across: dist.ProcessGroup | DeviceMesh | None = None,
    islands: Literal["node"] | None = None,
    deadline: float | str | None = None,
    lanes: int = 2,
    clip_norm: float | None = None,
    warm_up: int | None = None,
    ramp: bool = False,
    check_every: int = 100,
    scaler: object = None,
    buffers: bool = True,
    clear_momentum: bool | None = None,
    goal: Literal["steps", "time"] = "steps",
    policy: Literal["auto", "knee", "fixed"] = "auto",
    dials: Mapping[str, float] | None = None,
    log: str | os.PathLike[str] | None = None,
    name: str | None = None,
    metrics: str | int | os.PathLike[str] | None = None,
) -> Averager:
    """Attaches pliant to a DDP object: from now on pliant exchanges its gradients or updates.

    Collective: every rank of the process group calls it with the same arguments, which is checked.
    Only deadline, log, name and metrics may differ between ranks.

    optimizer: the optimizer, or a list of all of them. Plans of kind updates need it.
    plan: "auto", or any part of a plan (docs/plans.md).
    across: for islands (docs/islands.md), the process group or DeviceMesh of the ranks that hold
        the same part of the model, one from each island. The first argument is then the model as
        the island trains it: an FSDP2 module, a DDP object over the island's own group, or a plain
        module. Plans are of kind updates.
    islands: "node" makes an island of the ranks of each node, of a DDP object over all ranks. DDP
        then averages inside the island, and pliant exchanges updates between islands.
    deadline: for each message, in seconds or as "30s". By default the timeout of the process group.
    lanes: number of exchanges under way at once, each in a thread with its own connections. 0 runs
        them in the training thread.
    clip_norm: each rank's own gradient is clipped to this norm before it is exchanged.
    warm_up: number of dense steps at the start; with ramp=True density falls step by step. Where
        density is not pinned, these steps are as dense as the network allows (docs/control.md), and
        density always falls step by step.
    check_every: number of exchanges between two comparisons of what the ranks applied. 0 turns them
        off.
    scaler: the GradScaler, if there is one. Residuals are rescaled with the loss.
    buffers: under updates, floating buffers (BatchNorm's statistics) travel with every exchange.
        False leaves them to each rank.
    clear_momentum: under updates with every=1 and a density of at most 1 %, momentum is cleared at
        entries that were sent. By default that of SGD and its relatives (momentum_buffer); True:
        also that of Adam, RMSprop and Muon; False: none.
    goal: "steps", the same quality after the same number of steps, as fast as that allows; "time",
        the soonest to any loss: steps may then make less progress than plain DDP's, and a schedule
        of fixed length ends with a worse model (docs/goals.md).
    policy: how the parts that are not pinned are chosen: "auto", by the goal; "knee", as the
        published system does; "fixed", not at all.
    dials: numbers that steer the choice, by name (docs/control.md): {"p": 0.3} favours accuracy.
    log: path of the run log (docs/formats/run-log.md). Rank 0 writes it; with {rank} in the path
        every rank writes its own.
    name: of the run, in log and metrics. By default the log's.
    metrics: Prometheus text of rank 0: "127.0.0.1:9095", a port alone, which is on loopback, or a
        file that ends in .prom (docs/metrics.md)."""
    optimizers = None if optimizer is None else Optimizers(optimizer)
    options = Options(
        plan=plan,
        deadline=deadline,
        lanes=lanes,
        clip_norm=clip_norm,
        warm_up=warm_up,
        ramp=ramp,
        check_every=check_every,
        scaler=scaler,
        buffers=buffers,
        clear_momentum=clear_momentum,
        goal=goal,
        policy=policy,
        dials=dials,
        log=log,
        name=name,
        metrics=metrics,
    )
    if islands is not None:
        check_word("islands", islands, ("node",))
        if across is not None:
            raise ValueError(
                "islands='node' with across=: allowed is one of them. islands= makes the groups by "
                "itself, across= takes yours"
            )
        if (island := attach_nodes(ddp, optimizers, options)) is not None:
            return Averager(island)
    if across is not None:
        return Averager(attach_island(ddp, across, optimizers, options))
    if hook.is_alone_without_ddp(ddp):
        inert = InertAttachment(options, parameters.of(ddp))
        inert.count_alone([] if optimizers is None else optimizers.each)
        return Averager(inert)
    module = hook.unwrap(ddp)
    averaged = parameters.of_ddp(module)
    slot = hook.slot_of(module)
    if slot.handler is not None:
        raise ContractError(
            "pliant is attached to this DDP object already; close() that averager first"
        )
    support = support_for(module, averaged, optimizers, options)
    for other, name in sharing(averaged):
        support = _share(other, name, support)
    if support.driver is None and optimizers is not None:
        warn_of_gradients_only(plan, support.why_not)
    attachment = Attachment(options, module.process_group, averaged, support, module)
    try:
        attachment.start()
    except BaseException:
        attachment.close()  # the log, the port of the metrics
        raise
    each = [] if optimizers is None else optimizers.each
    watch = LoopObserver(attachment, module, each)
    newcomers = NewParameters(
        attachment,
        module.module,
        averaged,
        ignored=module.parameters_to_ignore,
        exchanged=each if support.driver is not None else (),
    )
    if dist.get_world_size(module.process_group) == 1:
        attachment.count_alone(each)
    slot.enter(attachment)
    for action in (watch.stop, newcomers.stop, slot.leave):
        attachment.on_close(action)
    return Averager(attachment)


def _share(other: Attachment, name: str, support: UpdatesSupport) -> UpdatesSupport:
    """Two averagers of one parameter: under gradients each averages the gradients of its own
    backward, as two DDP objects do. Under updates both would exchange the same progress."""
    why = f"parameter {name} belongs to another averager too"
    if other.trains_locally:
        raise ContractError(
            f"{why}, which trains locally (kind updates). Call close() of that averager first"
        )
    other.rule_out_updates(why)
    return dataclasses.replace(support, driver=None, why_not=why)


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
    goal: Literal["steps", "time"] = "steps",
    policy: Literal["auto", "knee", "fixed"] = "auto",
    dials: Mapping[str, float] | None = None,
    log: str | os.PathLike[str] | None = None,
    name: str | None = None,
    metrics: str | int | os.PathLike[str] | None = None,
) -> tuple[Averager, Hook]:
    """The pair (state, hook) for `ddp.register_comm_hook(state, hook)`. `state` is the averager. It
    may be made before the process group.

    model: the module inside DDP. With it, parameters have their names in state_dict() and every
    step is exchanged by the plan. Without it the first step is a plain all-reduce, from which the
    hook learns the parameters. process_group: the one that DDP was given. The other arguments are
    those of attach(). Log and metrics begin with the first step."""
    options = Options(
        plan=plan,
        deadline=deadline,
        lanes=lanes,
        clip_norm=clip_norm,
        warm_up=warm_up,
        ramp=ramp,
        check_every=check_every,
        scaler=scaler,
        goal=goal,
        policy=policy,
        dials=dials,
        log=log,
        name=name,
        metrics=metrics,
    )
    if pins_updates(plan):
        raise UnsupportedError(
            f"plan '{plan}': a bare hook sees gradients only; plans of kind updates need "
            "pliant.attach(ddp, optimizer, plan)"
        )
    if model is not None and not isinstance(model, nn.Module):
        raise refusal(TypeError, "model", model, "the torch.nn.Module inside DDP, or None")
    if process_group is not None and not isinstance(process_group, dist.ProcessGroup):
        raise refusal(
            TypeError, "process_group", process_group, "the process group of DDP, or None"
        )
    averaged = None if model is None else parameters.of(model)
    attachment = Attachment(options, process_group, averaged, UpdatesSupport())
    if model is not None and averaged is not None:
        attachment.on_close(LoopObserver(attachment, model, []).stop)
        attachment.on_close(NewParameters(attachment, model, averaged).stop)
    return Averager(attachment), hook.hook
