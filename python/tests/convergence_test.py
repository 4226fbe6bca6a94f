# SPDX-License-Identifier: MIT
"""Plans of both kinds reach, on real data, what plain DDP reaches, and updates beat sparse
gradients."""

from __future__ import annotations

import statistics

import pytest
import torch

from support import models, vision, world


STEPS_OF_DENSE, STEPS_ALLOWED, LOOK_EVERY = 200, 300, 20
DENSITY = "5%"
DENSITY_OF_GRADIENTS = "3%"


def every_plan() -> list[str]:
    plans = [
        f"gradients {scheme} density={DENSITY_OF_GRADIENTS} values={values}"
        for scheme in ("union", "srs", "shared/star", "shared/var")
        for values in ("f32", "f16", "int8")
    ]
    for every in (1, 4):
        for values in ("f32", "f16", "int8"):
            for late in (0, 1):
                timing = f"updates every={every} late={late}"
                plans += [
                    f"{timing} {scheme} density={DENSITY} values={values}"
                    for scheme in ("union", "srs")
                ]
                plans.append(
                    f"{timing} dense" + ("" if values == "f32" else f" reduce=ring values={values}")
                )
            plans += [
                f"updates every={every} late=0 {scheme} density={DENSITY} values={values}"
                for scheme in ("shared/star", "shared/var")
            ]
    return plans


QUICK = [
    f"updates every=4 late=1 union density={DENSITY} values=int8",
    f"updates every=1 late=1 srs density={DENSITY} values=f16",
    f"updates every=1 late=0 shared/star density={DENSITY} values=f32",
    f"updates every=4 late=0 shared/var density={DENSITY} values=int8",
    "updates every=1 late=1 dense",
    f"gradients srs density={DENSITY_OF_GRADIENTS} values=int8",
    f"gradients shared/var density={DENSITY_OF_GRADIENTS} values=f16",
]


def reach(rank: int, size: int, plans: list[str], seed: int) -> list[str]:
    """Returns the plans that do not come within 10 % of dense."""
    import pliant

    exam = vision.clothes_held_back()
    # The same data for all plans; ranks see different ones.
    batches = [vision.clothes_batch(rank, step, seed) for step in range(STEPS_ALLOWED)]
    plain = models.ddp(vision.cnn_for_clothes(seed))
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS_OF_DENSE):
        vision.train_step(plain, optimizer, batches[step])
    wanted = 1.1 * vision.evaluate(plain.module, exam)

    missed = []
    for plan in plans:
        model = models.ddp(vision.cnn_for_clothes(seed))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        averager = pliant.attach(model, optimizer, plan)
        losses = []
        for step in range(STEPS_ALLOWED):
            vision.train_step(model, optimizer, batches[step])
            if (step + 1) % LOOK_EVERY == 0:
                with averager.on_base():
                    losses.append(vision.evaluate(model.module, exam))
                if size > 1 and (step + 1) % (5 * LOOK_EVERY) == 0:
                    assert models.alike_on_all_ranks(
                        torch.cat([tensor.flatten() for tensor in averager.base().values()])
                    ), (plan, step)
                if min(losses) <= wanted:
                    break
        if rank == 0:
            print(
                f"{plan}, {size} ranks, seed {seed}: {min(losses):.3f} of {wanted:.3f} after "
                f"{LOOK_EVERY * len(losses)} steps",
                flush=True,
            )
        if min(losses) > wanted:
            missed.append(
                f"{plan}, {size} ranks, seed {seed}: wanted {wanted:.3f}, came to "
                f"{[round(loss, 3) for loss in losses]}"
            )
        averager.close()
    return missed


@pytest.mark.parametrize("ranks", [1, 3])
def test_some_plans_reach_dense(ranks: int) -> None:
    vision.needs_clothes()
    assert world.run(reach, QUICK if ranks > 1 else QUICK[:1], 0, ranks=ranks)[0] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_plan_reaches_dense(ranks: int, seed: int) -> None:
    vision.needs_clothes()
    assert world.run(reach, every_plan(), seed, ranks=ranks, timeout=1500)[0] == []


def compare(
    rank: int, size: int, plans: dict[str, str], optimizer_name: str, seeds: list[int], steps: int
) -> dict[str, list[float]]:
    """The loss on images held back, by plan and seed."""
    import pliant

    exam = vision.clothes_held_back()
    results: dict[str, list[float]] = {name: [] for name in plans}
    for seed in seeds:
        for name, plan in plans.items():
            model = models.ddp(vision.cnn_for_clothes(seed))
            optimizer = (
                torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
                if optimizer_name == "SGD"
                else torch.optim.AdamW(model.parameters(), lr=0.004)
            )
            averager = pliant.attach(model, optimizer, plan)
            for step in range(steps):
                vision.train_step(model, optimizer, vision.clothes_batch(rank, step, seed))
            with averager.on_base():
                results[name].append(vision.evaluate(model.module, exam))
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


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_updates_beat_sparse_gradients(optimizer: str) -> None:
    vision.needs_clothes()
    results = world.run(compare, PLANS, optimizer, [1, 2, 3], 300, ranks=4, timeout=900)[0]
    print(results)
    mean = {name: sum(losses) / len(losses) for name, losses in results.items()}
    spread = max(statistics.stdev(results[name]) for name in ("gradients 0.1 %", "updates 0.1 %"))
    assert mean["updates 0.1 %"] + spread < mean["gradients 0.1 %"], results
    for name in ("every=4", "late=1"):
        assert mean[name] < 1.1 * mean["dense"], (name, results)
