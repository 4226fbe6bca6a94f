# SPDX-License-Identifier: MIT
"""The long ones: every plan reaches dense, and on real data updates beat sparse gradients."""

from __future__ import annotations

import statistics

import pytest
import torch

import convergence
import models
import world
from convergence_test import every_plan, reach


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_plan_reaches_dense(ranks: int, seed: int) -> None:
    convergence.needs_clothes()
    assert world.run(reach, every_plan(), seed, ranks=ranks, timeout=1500)[0] == []


def compare(
    rank: int, size: int, plans: dict[str, str], optimizer_name: str, seeds: list[int], steps: int
) -> dict[str, list[float]]:
    """The loss on images held back, by plan and seed."""
    import pliant

    exam = convergence.clothes_held_back()
    results: dict[str, list[float]] = {name: [] for name in plans}
    for seed in seeds:
        for name, plan in plans.items():
            model = models.ddp(convergence.cnn_for_clothes(seed))
            optimizer = (
                torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
                if optimizer_name == "SGD"
                else torch.optim.AdamW(model.parameters(), lr=0.004)
            )
            averager = pliant.attach(model, optimizer, plan)
            for step in range(steps):
                convergence.train_step(
                    model, optimizer, convergence.clothes_batch(rank, step, seed)
                )
            with averager.on_base():
                results[name].append(convergence.evaluate(model.module, exam))
            averager.close()
    return results


PLANS = {
    "dense": "gradients dense",
    "gradients 0.1 %": "gradients union density=0.1%",
    "updates 0.1 %": "updates every=1 late=0 union density=0.1%",
    "every=1": "updates every=1 late=0 dense",
    "every=4": "updates every=4 late=0 dense",
    "late=1": "updates every=1 late=1 dense",
}


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_updates_beat_sparse_gradients(optimizer: str) -> None:
    convergence.needs_clothes()
    results = world.run(compare, PLANS, optimizer, [1, 2, 3], 300, ranks=4, timeout=900)[0]
    print(results)
    mean = {name: sum(losses) / len(losses) for name, losses in results.items()}
    spread = max(statistics.stdev(results[name]) for name in ("gradients 0.1 %", "updates 0.1 %"))
    assert mean["updates 0.1 %"] + spread < mean["gradients 0.1 %"], results
    for name in ("every=4", "late=1"):
        assert mean[name] < 1.1 * mean["dense"], (name, results)
