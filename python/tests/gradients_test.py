# SPDX-License-Identifier: MIT
"""Does it train? A small CNN under every scheme and code comes as far as dense averaging does, and on the way nothing is lost and
no two ranks ever differ."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn

import models
import world

SCHEMES = ("union density=3%", "shared/star density=5%", "shared/var density=5%", "srs density=5%")
CODES = ("f32", "f16", "int8")
DENSE_STEPS, SPARSE_STEPS = 200, 300
EVERY_STEP = 25  # replicas are compared at every step of these first ones, then at every 25th


def cnn(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10)
    )


def images(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ten patterns of 8 x 8, under noise."""
    patterns = torch.randn(10, 1, 8, 8, generator=torch.Generator().manual_seed(7))
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (count,), generator=random)
    return patterns[labels] + 1.5 * torch.randn(count, 1, 8, 8, generator=random), labels


def train(rank: int, plan: str | None, seed: int, steps: int) -> float:
    """The loss on held-out images after so many steps."""
    import pliant

    model = models.ddp(cnn(seed))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    averager = None if plan is None else pliant.attach(model, optimizer, plan)
    for number in range(steps):
        inputs, labels = images(100_000 * (seed + 1) + 1000 * number + rank, 16)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        if averager is not None and (number < EVERY_STEP or number % EVERY_STEP == 0):
            assert models.alike_on_all_ranks(models.flat(model)), (plan, number)
    if averager is not None:
        assert averager.summary().bytes_sent > 0
        averager.close()
    inputs, labels = images(1, 1000)
    with torch.no_grad():
        return nn.functional.cross_entropy(model.module(inputs), labels).item()


def reach_dense(rank: int, size: int, seeds: list[int], codes: list[str]) -> None:
    plans = [f"gradients {scheme} values={code}" for scheme in SCHEMES for code in codes] + ["gradients dense reduce=ring values=f16"]
    for seed in seeds:
        dense = train(rank, None, seed, DENSE_STEPS)
        for plan in plans:
            reached = train(rank, plan, seed, SPARSE_STEPS)
            assert reached <= 1.1 * dense, f"{plan}, seed {seed}: {reached:.4f} after {SPARSE_STEPS} steps, dense had {dense:.4f} after {DENSE_STEPS}"


@pytest.mark.parametrize(("ranks", "seeds", "codes"), [(2, [0], ["f16"]), (3, [1], ["int8"]), (4, [0, 1, 2], list(CODES))])
def test_every_scheme_reaches_what_dense_does(ranks: int, seeds: list[int], codes: list[str]) -> None:
    world.run(reach_dense, seeds, codes, ranks=ranks, timeout=1200)


SWITCHES = (
    "gradients union density=5% values=int8 fuse=all",
    "gradients dense",
    "gradients srs density=10% values=f16",
    "gradients shared/var density=5% values=int4",
    "gradients dense reduce=ring values=f16",
    "gradients shared/star density=5% fuse=2",
)


def residual_sum(averager: object) -> float:
    return sum(float(residual.double().sum()) for residual in averager.state_dict()["residual"].values())  # type: ignore[attr-defined]


def lose_nothing(rank: int, size: int) -> None:
    """N x average + new residuals = gradients + old residuals, in live training through plan switches."""
    import pliant

    model = models.ddp(cnn(0), bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    averager = pliant.attach(model, optimizer, SWITCHES[0])
    for number in range(3 * len(SWITCHES)):
        if number % 3 == 2:
            averager.set_plan(SWITCHES[(number // 3 + 1) % len(SWITCHES)])
        inputs, labels = images(1000 * number + rank, 16)
        alone = copy.deepcopy(model.module)
        nn.functional.cross_entropy(alone(inputs), labels).backward()
        own = sum(float(parameter.grad.double().sum()) for parameter in alone.parameters() if parameter.grad is not None)
        before = residual_sum(averager)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        average = sum(float(parameter.grad.double().sum()) for parameter in model.parameters() if parameter.grad is not None)
        sums = torch.tensor([own + before, residual_sum(averager)], dtype=torch.float64)
        dist.all_reduce(sums)
        assert abs(float(sums[0]) - (size * average + float(sums[1]))) < 1e-3 * (1 + abs(float(sums[0]))), (number, averager.plan)
        optimizer.step()
        assert models.alike_on_all_ranks(models.flat(model)), (number, averager.plan)
    averager.close()


@pytest.mark.parametrize("ranks", [2, 4])
def test_nothing_is_lost_in_live_training(ranks: int) -> None:
    world.run(lose_nothing, ranks=ranks)
