# SPDX-License-Identifier: MIT
"""Decision whether kind updates is possible for a model and its optimizers."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch
from torch.nn.parallel import DistributedDataParallel

from pliant import _native
from pliant.ddp.parameters import Parameters
from pliant.errors import UnsupportedError
from pliant.options import Options, pins_updates
from pliant.updates.buffers import Buffers
from pliant.updates.driver import UpdatesDriver
from pliant.updates.frozen import FrozenParameters
from pliant.updates.model_tensors import ModelTensors
from pliant.updates.optimizers import Optimizers, divides_by_second_moment

log = logging.getLogger("pliant")


@dataclass(frozen=True)
class UpdatesSupport:
    """driver: None if kind updates is impossible; `why_not` says why. adam: an attached optimizer
    divides by a second moment. across: the model is an island's, and other kinds are impossible."""

    driver: UpdatesDriver | None = None
    why_not: str = "plans of kind updates need the optimizer: pliant.attach(ddp, optimizer, plan)"
    adam: bool = False
    across: bool = False

    def pins(self, plan: str) -> str:
        """The text of a plan, with the kind pinned if there is one kind only."""
        if not self.across or _native.Pins(plan).kind is not None:
            return plan
        return "updates" if plan == "auto" else f"updates {plan}"

    def check(self, plan: str) -> None:
        """Refuses the text of a plan that asks for a kind that is impossible."""
        if self.across and _native.Pins(plan).kind == "gradients":
            raise ValueError(
                f"plan '{plan}': gradients are not exchanged across islands (across=). Use "
                "'updates' or 'auto'."
            )
        if self.driver is None and pins_updates(plan):
            raise UnsupportedError(f"plan '{plan}': {self.why_not}")

    def buffers(self) -> list[tuple[str, torch.Tensor]]:
        """The buffers that travel with exchanges, by name."""
        return [] if self.driver is None else self.driver.tensors.buffers.named()


def warn_of_gradients_only(plan: str, why_not: str) -> None:
    """Where the plan leaves the kind open, and only gradients are possible."""
    if _native.Pins(plan).kind is None:
        log.warning("only plans of kind gradients are used: %s", why_not)


def support_for(
    ddp: DistributedDataParallel,
    parameters: Parameters,
    optimizers: Optimizers | None,
    options: Options,
) -> UpdatesSupport:
    """For a DDP object over all ranks."""
    if optimizers is None:
        return UpdatesSupport()
    adam = any(divides_by_second_moment(optimizer) for optimizer in optimizers.each)
    ignored = frozenset(ddp.parameters_to_ignore)
    objection = optimizers.objection(parameters, ddp.module, ignored)
    if objection is not None:
        return UpdatesSupport(None, objection, adam)
    buffers = Buffers(ddp.module, ignored) if options.buffers else Buffers()
    frozen = FrozenParameters(ddp.module, parameters, ignored)
    tensors = ModelTensors(parameters, buffers, frozen)
    driver = UpdatesDriver(ddp, parameters, tensors, optimizers, options, trains_alone=True)
    return UpdatesSupport(driver, "", adam)
