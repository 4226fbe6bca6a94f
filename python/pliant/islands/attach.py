# SPDX-License-Identifier: MIT
"""Attachment to the model of an island, for `pliant.attach(..., across=...)`."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Mapping

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pliant.argument_checks import refusal
from pliant.attachment import Attachment, sharing
from pliant.ddp import parameters, process_groups
from pliant.ddp.loop_observer import LoopObserver
from pliant.ddp.new_parameters import NewParameters
from pliant.ddp.parameters import Parameters
from pliant.errors import ContractError, UnsupportedError
from pliant.islands.across import group_of, meet
from pliant.islands.nodes import check_sizes, ddp_over_all, islands_of, split
from pliant.islands.shards import Shards, check_shards, inside_ranks, is_sharded
from pliant.islands.slices import Slices
from pliant.options import Options
from pliant.updates.buffers import Buffers
from pliant.updates.driver import UpdatesDriver
from pliant.updates.frozen import FrozenParameters
from pliant.updates.model_tensors import ModelTensors
from pliant.updates.optimizers import Optimizers, divides_by_second_moment
from pliant.updates.support import UpdatesSupport

_KEPT = "_pliant_handler"
"""Attribute of the model that keeps its attachment alive."""


def attach_island(
    model: nn.Module, across: object, optimizers: Optimizers | None, options: Options
) -> Attachment:
    """Collective over all ranks of all islands."""
    group = group_of(across)
    if not isinstance(model, nn.Module):
        raise refusal(TypeError, "model", model, "a torch.nn.Module")
    if optimizers is None:
        raise ValueError(
            "islands exchange updates, which need the optimizer: "
            "pliant.attach(model, optimizer, across=...)"
        )
    inner: nn.Module = getattr(model, "_orig_mod", model)
    if _KEPT in inner.__dict__:
        raise ContractError("pliant is attached to this model already; close() that averager first")
    island = _Island(inner)
    deadline = options.deadline_seconds or process_groups.default_deadline(group)
    met = meet(group, island.inside, deadline)
    if options.lanes == 0 and len(island.inside) > 1:
        raise ValueError("lanes=0 with across= and islands of several ranks: allowed is 1 to 32")
    support = island.support(optimizers, options)
    support.check(options.plan)
    options = dataclasses.replace(
        options, plan=support.pins(options.plan), dials=_dials(options.dials)
    )
    attachment = Attachment(options, group, island.tensors.exchanged, support, across=met)
    try:
        attachment.start()
    except BaseException:
        attachment.close()  # the log, the port of the metrics
        raise
    inner.__dict__[_KEPT] = attachment
    reference = weakref.ref(inner)

    def let_go() -> None:
        if (alive := reference()) is not None:
            alive.__dict__.pop(_KEPT, None)

    watch = LoopObserver(attachment, inner, optimizers.each)
    newcomers = NewParameters(
        attachment,
        island.module,
        island.owners,
        ignored=island.ignored,
        exchanged=optimizers.each,
    )
    if dist.get_world_size(group) == 1:
        attachment.count_alone(optimizers.each)
    for action in (watch.stop, newcomers.stop, let_go):
        attachment.on_close(action)
    return attachment


def attach_nodes(
    model: nn.Module, optimizers: Optimizers | None, options: Options
) -> Attachment | None:
    """Collective over the ranks of a DDP object. None if each node has one rank: then there are no
    islands, and each rank exchanges the whole model."""
    ddp = ddp_over_all(model)
    if _KEPT in ddp.__dict__:
        raise ContractError("pliant is attached to this model already; close() that averager first")
    deadline = options.deadline_seconds or process_groups.default_deadline(ddp.process_group)
    islands = islands_of(ddp.process_group, deadline)
    check_sizes(islands)
    ranks = list(islands.values())
    if len(ranks[0]) == 1:
        return None
    across, undo = split(ddp, ranks)
    try:
        attachment = attach_island(model, across, optimizers, options)
    except BaseException:
        undo()
        raise
    attachment.on_close(undo)
    return attachment


class _Island:
    """How this rank's island holds its model. inside: the ranks of the island. owners: the
    parameters, as the module and its optimizers have them."""

    def __init__(self, model: nn.Module) -> None:
        self.model = self.module = model
        self.ignored: frozenset[str] = frozenset()
        self.inside = [dist.get_rank()]
        self._shards: Shards | None = None
        self._slices: Slices | None = None
        if isinstance(model, DistributedDataParallel):
            self.module = model.module
            self.ignored = frozenset(model.parameters_to_ignore)
            self.owners = parameters.of_ddp(model)
            self.inside = dist.get_process_group_ranks(model.process_group)
            if len(self.inside) > 1:
                self._slices = Slices(self.owners, model.process_group)
        elif is_sharded(model):
            self.owners = parameters.of(model)
            check_shards(self.owners)
            self.inside = inside_ranks(self.owners)
            self._shards = Shards(model, self.owners)
        else:
            self.owners = parameters.of(model)
        for _, name in sharing(self.owners):
            raise ContractError(
                f"parameter {name} belongs to another averager too. Call close() of that averager "
                "first"
            )

    def support(self, optimizers: Optimizers, options: Options) -> UpdatesSupport:
        objection = optimizers.objection(self.owners, self.module, self.ignored)
        if objection is not None:
            raise UnsupportedError(f"across=: {objection}")
        if self._slices is not None and options.clear_momentum:
            raise ValueError(
                "clear_momentum=True with across= and a DDP object: a rank knows what was sent of "
                "its own slice only. Allowed is None or False"
            )
        buffers = Buffers(self.module, self.ignored) if options.buffers else Buffers()
        frozen = FrozenParameters(self.module, self.owners, self.ignored)
        held: Parameters = self.owners if self._shards is None else self._shards.parameters
        self.tensors = ModelTensors(held, buffers, frozen, self._shards, self._slices)
        driver = UpdatesDriver(
            self.model, self.owners, self.tensors, optimizers, options, trains_alone=False
        )
        adam = any(divides_by_second_moment(optimizer) for optimizer in optimizers.each)
        return UpdatesSupport(driver, "", adam, across=True)


def _dials(given: Mapping[str, float] | None) -> dict[str, float]:
    """Between exchanges an island trains exactly as without pliant, so that Adam's steps keep
    their length."""
    dials = dict(given or {})
    if dials.get("lengthen", 0) != 0:
        raise ValueError(
            f"dials: lengthen={dials['lengthen']} with across=: allowed is 0, because an island "
            "trains between exchanges as it does without pliant"
        )
    return {**dials, "lengthen": 0.0}
