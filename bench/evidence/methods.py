# SPDX-License-Identifier: MIT
"""Methods of averaging: those that people use today, fixed plans of Pliant, the published system,
and Pliant choosing by itself.

A method is made from a DDP model and its optimizer on every rank, and then runs the loop's steps.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel

import pliant

# PowerSGD and local SGD start after this many plain steps, as their documentation advises (it says
# ten per cent of training).
WARM = 64


class Loop:
    """One rank's way through the steps. `begin`, then backward by the caller, then `end`; `link`
    when the network is known to change."""

    accumulate = 1  # backwards per optimizer step
    averager: pliant.Averager | None = None

    def __init__(self, ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> None:
        self.ddp, self.optimizer = ddp, optimizer

    def scope(self, step: int) -> Any:
        """Context in which forward and backward of a step run."""
        return nullcontext()

    def end(self, step: int) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def parameters(self) -> list[torch.Tensor]:
        """The agreed model now, as copies."""
        return [tensor.detach().clone() for tensor in self.ddp.module.state_dict().values()]

    def enter(self, phase: int) -> None:
        """The network enters this phase."""

    def close(self) -> None:
        pass


class PowerSGD(Loop):
    def __init__(
        self, ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, rank: int
    ) -> None:
        super().__init__(ddp, optimizer)
        state = powerSGD_hook.PowerSGDState(
            None,
            matrix_approximation_rank=rank,
            start_powerSGD_iter=WARM,
            warm_start=True,
            use_error_feedback=True,
        )
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


class Fp16(Loop):
    def __init__(self, ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(ddp, optimizer)
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)


class LocalSGD(Loop):
    """torch's own: gradients are averaged in the first steps, then parameters every `period` steps.
    Its averager acts a step after each multiple of the period; begun a step sooner it acts where
    models are evaluated, which would else be one rank's own."""

    def __init__(
        self, ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, period: int
    ) -> None:
        super().__init__(ddp, optimizer)
        state = local.PostLocalSGDState(
            process_group=None,
            subgroup=dist.new_group([dist.get_rank()], use_local_synchronization=True),
            start_localSGD_iter=WARM,
        )
        ddp.register_comm_hook(state, local.post_localSGD_hook)
        self.optimizer = PostLocalSGDOptimizer(
            optimizer, PeriodicModelAverager(period=period, warmup_steps=WARM - 1)
        )


class Accumulate(Loop):
    """One exchange of the mean gradient of so many batches. The rate may be raised, as people do
    with larger batches."""

    def __init__(
        self,
        ddp: DistributedDataParallel,
        optimizer: torch.optim.Optimizer,
        times: int,
        rate: float,
    ) -> None:
        super().__init__(ddp, optimizer)
        self.accumulate = times
        for group in optimizer.param_groups:
            group["lr"] *= rate

    def scope(self, step: int) -> Any:
        return nullcontext() if (step + 1) % self.accumulate == 0 else self.ddp.no_sync()

    def end(self, step: int) -> None:
        if (step + 1) % self.accumulate == 0:
            super().end(step)


class Pliant(Loop):
    def __init__(
        self,
        ddp: DistributedDataParallel,
        optimizer: torch.optim.Optimizer,
        plan: str,
        *,
        log: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(ddp, optimizer)
        self.averager = pliant.attach(ddp, optimizer, plan, log=log, **options)

    def parameters(self) -> list[torch.Tensor]:
        assert self.averager is not None
        with self.averager.on_base():
            return super().parameters()

    def close(self) -> None:
        assert self.averager is not None
        self.averager.close()


class Scripted(Pliant):
    """A plan for each phase, decided beforehand: the published system, told the network."""

    def __init__(
        self,
        ddp: DistributedDataParallel,
        optimizer: torch.optim.Optimizer,
        plans: list[str],
        **options: Any,
    ) -> None:
        super().__init__(ddp, optimizer, plans[0], **options)
        self._plans = plans

    def enter(self, phase: int) -> None:
        assert self.averager is not None
        if phase > 0 and self._plans[phase] != self._plans[phase - 1]:
            self.averager.set_plan(self._plans[phase])


class Warmed(Pliant):
    """The plan after dense gradients, as `auto` begins with Adam."""

    STEPS = 100

    def __init__(
        self, ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, plan: str
    ) -> None:
        super().__init__(ddp, optimizer, "gradients dense")
        self._plan = plan

    def end(self, step: int) -> None:
        super().end(step)
        if step + 1 == self.STEPS:
            assert self.averager is not None
            self.averager.set_plan(self._plan)


class Told(Pliant):
    """Auto that is told the true link instead of measuring it."""

    def __init__(
        self,
        ddp: DistributedDataParallel,
        optimizer: torch.optim.Optimizer,
        links: list[str],
        **options: Any,
    ) -> None:
        super().__init__(ddp, optimizer, "auto", goal="time", **options)
        self._links = links
        self.enter(0)

    def enter(self, phase: int) -> None:
        assert self.averager is not None
        self.averager.tell_network(self._links[phase])


Make = Callable[[DistributedDataParallel, torch.optim.Optimizer], Loop]


@dataclass(frozen=True)
class Method:
    name: str
    make: Make | None  # None: made by the run, which knows the network
    family: str  # "plain", "peer", "static", "paper", "adaptive"
    period: int = 1  # steps after which it repeats itself
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def looks_at_the_network(self) -> bool:
        return self.family in ("paper", "adaptive")


def _static(plan: str) -> Method:
    words = plan.split()
    every = next(
        (int(word.removeprefix("every=")) for word in words if word.startswith("every=")), 1
    )
    return Method(
        "static: " + plan, lambda ddp, optimizer: Pliant(ddp, optimizer, plan), "static", every
    )


CODED = "values=int8 indices=rice"
GRID = [
    "gradients dense",
    "gradients dense values=f16",
    f"gradients union density=10% {CODED} fuse=all",
    f"gradients union density=1% {CODED} fuse=all",
    f"gradients srs density=3% {CODED} fuse=all",
    "updates every=1 late=0 dense",
    "updates every=4 late=1 dense",
    f"updates every=1 late=0 union density=3% {CODED}",
    f"updates every=1 late=1 union density=10% {CODED}",
    f"updates every=4 late=1 union density=10% {CODED}",
    f"updates every=4 late=1 union density=3% {CODED}",
    f"updates every=8 late=4 union density=10% {CODED}",
    f"updates every=4 late=1 srs density=10% {CODED}",
]  # fmt: skip

METHODS = {
    method.name: method
    for method in (
        Method("ddp", Loop, "plain"),
        Method("fp16", Fp16, "peer"),
        Method("powersgd-1", lambda d, o: PowerSGD(d, o, 1), "peer"),
        Method("powersgd-4", lambda d, o: PowerSGD(d, o, 4), "peer"),
        Method("local-8", lambda d, o: LocalSGD(d, o, 8), "peer", 8),
        Method("local-32", lambda d, o: LocalSGD(d, o, 32), "peer", 32),
        Method("accumulate-8", lambda d, o: Accumulate(d, o, 8, 1.0), "peer", 8),
        Method("accumulate-8-rate-4", lambda d, o: Accumulate(d, o, 8, 4.0), "peer", 8),
        *map(_static, GRID),
        Method("paper", None, "paper"),
        Method("auto-gradients", None, "adaptive"),
        Method("auto", None, "adaptive"),
        Method("auto-steps", None, "adaptive"),
        Method("oracle", None, "adaptive"),
    )
}

WARM_METHODS = ("powersgd-1", "powersgd-4", "local-8", "local-32")


def warm_steps(method: str) -> int:
    """Plain steps that the method begins with."""
    return WARM if method in WARM_METHODS else 0
