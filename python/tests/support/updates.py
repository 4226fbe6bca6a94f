# SPDX-License-Identifier: MIT
"""Helpers that the checks of kind updates share."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

import pliant
from support import models

SOME = "updates every=2 late=1 union density=10% values=f32"
DENSE = "updates every=1 late=0 dense"
OWN = "updates every=3 late=1 union density=10% values=f32"  # ranks differ after any step


def begin(
    plan: str = SOME, make: object = models.mlp, optimizer: object = models.sgd, **options: object
) -> tuple[nn.Module, torch.optim.Optimizer, pliant.Averager]:
    model = models.ddp(make())  # type: ignore[operator]
    chosen = optimizer(model)  # type: ignore[operator]
    return model, chosen, pliant.attach(model, chosen, plan, **options)  # type: ignore[arg-type]


def flat_base(averager: pliant.Averager) -> torch.Tensor:
    return torch.cat([tensor.flatten().cpu() for tensor in averager.base().values()])


def mean_of(tensor: torch.Tensor) -> torch.Tensor:
    total = tensor.double()
    dist.all_reduce(total)
    return total / dist.get_world_size()


def residual_of(averager: pliant.Averager) -> torch.Tensor:
    state = averager.state_dict(parameters=False, optimizers=False)
    return torch.cat(
        [
            state["residual"].get(name, torch.zeros(shape)).flatten().cpu()
            for name, shape in state["parameters"].items()
        ]
    )


def in_flight_of(averager: pliant.Averager) -> torch.Tensor:
    """What this rank has sent and what has not landed yet."""
    state = averager.state_dict(parameters=False, optimizers=False)
    return torch.cat(
        [
            sum(
                (flight["own_part"][name].cpu() for flight in state["in_flight"]),
                torch.zeros(shape, device="cpu"),
            ).flatten()
            for name, shape in state["parameters"].items()
        ]
    )


class Progress:
    """What an optimizer alone did to the parameters."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._model = model
        self._before = self.by_the_last_step = torch.zeros(0)
        optimizer.register_step_pre_hook(self._note)
        optimizer.register_step_post_hook(self._compare)

    def _note(self, *_: object) -> None:
        self._before = models.flat(self._model)

    def _compare(self, *_: object) -> None:
        self.by_the_last_step = models.flat(self._model) - self._before


def flat_state(state: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([value.flatten() for value in state.values() if value.dtype == torch.float32])


def outputs(model: nn.Module, batch: int = 0) -> torch.Tensor:
    was = model.training
    model.eval()
    with torch.no_grad():
        result: torch.Tensor = model(models.batch(0, batch)[0])
    model.train(was)
    return result
