# SPDX-License-Identifier: MIT
"""Attaching, switching plans, looking at it, leaving: checks that two ranks run together."""

from __future__ import annotations

import copy

import torch

import pliant
from support import models
from support.messages import Messages
from support.training import SOME, steps
from support.world import on_ranks


@on_ranks(2)
def test_close_and_attach_again(rank: int) -> None:
    ours, plain = models.ddp(models.mlp()), models.ddp(models.mlp())
    optimizers = [models.sgd(ours), models.sgd(plain)]
    for _ in range(2):
        averager = pliant.attach(ours, optimizers[0], SOME)
        steps(ours, optimizers[0], rank, 2)
        try:
            pliant.attach(ours, optimizers[0])
            raise AssertionError("attached twice")
        except pliant.ContractError as error:
            assert "close()" in str(error)
        averager.close()
        averager.close()
        assert averager.summary().steps == 2
    steps(plain, optimizers[1], rank, 3)
    plain.load_state_dict(ours.state_dict())
    optimizers[1].load_state_dict(copy.deepcopy(optimizers[0].state_dict()))
    for number in range(3):
        models.step(ours, optimizers[0], rank, number)
        models.step(plain, optimizers[1], rank, number)
    assert torch.equal(models.flat(ours), models.flat(plain)), "closed is not plain DDP"
    again = models.ddp(ours.module)
    averager = pliant.attach(again, optimizers[0], SOME)
    steps(again, optimizers[0], rank, 2)
    assert averager.summary().steps == 2 and models.alike_on_all_ranks(models.flat(again))
    averager.close()


@on_ranks(2)
def test_replicas_stay_alike_while_plans_switch(rank: int) -> None:
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, "gradients dense")
    number = 0
    for plan in (
        SOME,
        "gradients srs density=5% values=int8",
        "gradients",
        "gradients shared/star density=10%",
        "gradients union",
        "gradients shared/var density=3% fuse=all",
        "gradients dense",
    ):
        averager.set_plan(plan)
        for _ in range(3):
            models.step(model, optimizer, rank, number)
            number += 1
            assert models.alike_on_all_ranks(models.flat(model)), plan
    assert averager.plan.startswith("gradients dense")
    assert not averager.state_dict()["residual"], "dense leaves nothing unsent"
    assert averager.summary().decisions
    averager.close()


@on_ranks(2)
def test_auto_decides(rank: int) -> None:
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    with Messages() as messages:
        averager = pliant.attach(model, optimizer)
        steps(model, optimizer, rank, 12)
    assert models.alike_on_all_ranks(
        torch.cat([tensor.flatten() for tensor in averager.base().values()])
    )
    assert averager.summary().decisions and messages.count("step 0: start: ") == 1, messages.texts
    averager.load_state_dict(averager.state_dict())
    averager.close()


@on_ranks(2)
def test_warm_up_is_dense_or_a_ramp(rank: int) -> None:
    for ramp in (False, True):
        model = models.ddp(models.mlp())
        optimizer = models.sgd(model)
        averager = pliant.attach(model, optimizer, SOME, warm_up=4, ramp=ramp)
        plans = []
        for number in range(6):
            models.step(model, optimizer, rank, number)
            plans.append(averager.plan)
        assert all("density=10%" in plan for plan in plans[4:]), plans
        assert plans[0] != plans[4] and all(("dense" in plan) != ramp for plan in plans[1:4]), plans
        assert models.alike_on_all_ranks(models.flat(model))
        averager.close()


@on_ranks(2)
def test_warming_up_where_density_is_chosen(rank: int) -> None:
    """As dense as possible until the warm-up is over; on a network like this one, no longer."""
    for warm_up in (5, None):
        model = models.ddp(models.mlp())
        optimizer = models.sgd(model)
        averager = pliant.attach(
            model,
            optimizer,
            "gradients union",
            goal="time",
            warm_up=warm_up,
            dials={"warm_up_slowdown": 1e9, "dwell_steps": 0},
        )
        averager.tell_network("100kbit,1ms")
        plans = []
        for number in range(20):
            models.step(model, optimizer, rank, number)
            plans.append(averager.plan)
        assert len(set(plans[1:5])) == 1 and (len(set(plans)) > 1) == (warm_up == 5), (
            warm_up,
            plans,
        )
        averager.close()


@on_ranks(2)
def test_the_profiler_sees_exchanges(rank: int) -> None:
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, SOME)
    steps(model, optimizer, rank, 3)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        steps(model, optimizer, rank, 2)
    assert any(event.name.startswith("pliant::exchange") for event in profile.events()), {
        event.name for event in profile.events()
    }
    averager.close()


@on_ranks(2)
def test_an_optimizer_restored_alone_is_warned_about(rank: int) -> None:
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, SOME)
    steps(model, optimizer, rank, 2)
    saved = optimizer.state_dict()
    with Messages() as messages:
        optimizer.load_state_dict(saved)
        steps(model, optimizer, rank, 3)
        averager.load_state_dict(None)
        averager.load_state_dict({})
    assert messages.count("the averager was not") == 1, messages.texts
    assert messages.count("no averager state") == 1, messages.texts
    averager.close()


@on_ranks(2)
def test_steps_before_attach_are_no_restart(rank: int) -> None:
    """Steps before attach() are no restart."""
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    steps(model, optimizer, rank, 2)
    with Messages() as messages:
        averager = pliant.attach(model, optimizer, SOME)
        steps(model, optimizer, rank, 2)
    assert messages.count("the averager was not") == 0, messages.texts
    averager.close()


@on_ranks(2)
def test_training_without_lanes(rank: int) -> None:
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, SOME, lanes=0)
    steps(model, optimizer, rank)
    assert models.alike_on_all_ranks(models.flat(model))
    averager.close()
