# SPDX-License-Identifier: MIT
"""Short training loops, and the comparison of a loop under pliant with the same loop under DDP."""

from __future__ import annotations

import torch
from torch import nn

import pliant
from support import models

EVERYTHING = "gradients union density=100% values=f32"  # sparse by name, dense in effect: comparable to plain DDP
SOME = "gradients union density=10% values=f32"


def close_to(ours: nn.Module, plain: nn.Module, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(
        models.flat(ours), models.flat(plain), rtol=tolerance, atol=tolerance
    )
    assert models.alike_on_all_ranks(models.flat(ours))


def compare(
    rank: int,
    make: object,
    loop: object,
    plan: str = EVERYTHING,
    tolerance: float = 1e-5,
    optimizer: object = models.sgd,
    **options: object,
) -> pliant.Summary:
    """The same loop with plain DDP and with pliant must come to the same parameters."""
    ours, plain = models.ddp(make(), **options), models.ddp(make(), **options)  # type: ignore[operator]
    optimizers = [optimizer(ours), optimizer(plain)]  # type: ignore[operator]
    averager = pliant.attach(ours, optimizers[0], plan)
    loop(ours, optimizers[0], rank)  # type: ignore[operator]
    loop(plain, optimizers[1], rank)  # type: ignore[operator]
    close_to(ours, plain, tolerance)
    summary = averager.summary()
    assert summary.steps > 0 and summary.bytes_sent > 0
    averager.close()
    return summary


def loss_of(model: nn.Module, rank: int, number: int) -> torch.Tensor:
    inputs, targets = models.batch(rank, number)
    return nn.functional.mse_loss(model(inputs).float(), targets)


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int, count: int = 5) -> None:
    for number in range(count):
        models.step(model, optimizer, rank, number)
