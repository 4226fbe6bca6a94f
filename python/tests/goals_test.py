# SPDX-License-Identifier: MIT
"""Goals: which plans `auto` may take, what steps are worth, and schedules that follow it."""

from __future__ import annotations

import math

import pytest
import torch

import pliant
from support import models
from support.training import loss_of
from support.updates import begin
from support.world import on_ranks

SLOW_LINK = "1mbit,20ms"  # slower than any machine computes these models


def adam(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, rank: int, count: int) -> None:
    for number in range(count):
        optimizer.zero_grad()
        loss_of(model, rank, number).backward()
        optimizer.step()


@on_ranks(2)
def test_goal_steps_never_trains_locally_for_long(rank: int) -> None:
    for goal, local in (("steps", False), ("time", True)):
        model, optimizer, averager = begin("auto", goal=goal, dials={"warm_up_steps": 0})
        averager.tell_network(SLOW_LINK)
        train(model, optimizer, rank, 30)
        summary = averager.summary()
        assert (summary.worth < 0.97) == local, summary
        assert ("every=" in summary.plan and "every=1 late=0" not in summary.plan) == local
        assert models.alike_on_all_ranks(torch.tensor([averager.effective_steps]))
        averager.close()
        assert averager.effective_steps == averager.summary().effective_steps > 0


@on_ranks(2)
def test_a_stretched_schedule_ends_after_as_much_progress(rank: int) -> None:
    model, optimizer, averager = begin("updates every=4 late=0 dense")
    rate = optimizer.param_groups[0]["lr"]
    half = torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.5)
    schedule = pliant.stretch(half, averager)
    done = 0
    while averager.effective_steps < 30 and done < 100:
        done += 1
        train(model, optimizer, rank, 1)
        schedule.step()
        due = math.floor(averager.effective_steps + 1e-6)
        assert half.last_epoch == due == schedule.last_epoch
        assert schedule.get_last_lr() == [rate if due < 20 else rate / 2]
    assert 31 <= done < 36, "more steps than plain DDP's 30, because each is worth less"
    saved, state = schedule.state_dict(), averager.state_dict()
    averager.close()

    model, optimizer, averager = begin("updates every=4 late=0 dense")
    again = pliant.stretch(
        torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.5), averager
    )
    averager.load_state_dict(state)
    again.load_state_dict(saved)
    again.step()
    assert again.last_epoch == half.last_epoch, "nothing is due: no step has been done since"
    averager.close()


@on_ranks(2)
def test_dense_gradients_in_few_bits_stay_close_to_ddp(rank: int) -> None:
    def trained(plan: str | None) -> torch.Tensor:
        model = models.ddp(models.mlp())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        averager = None if plan is None else pliant.attach(model, optimizer, plan)
        train(model, optimizer, rank, 40)
        flat = models.flat(model)
        assert models.alike_on_all_ranks(flat)
        if averager is not None:
            averager.close()
        return flat

    plain = trained(None)
    begun = models.flat(models.mlp())
    for values, most in (("int8", 0.1), ("int4", 0.4)):
        coded = trained(f"gradients dense values={values}")
        distance = (coded - plain).norm() / (plain - begun).norm()
        assert 0 < distance < most, f"{values}: {distance}"


def test_steps_of_one_process_count_in_full() -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    averager = pliant.attach(model, optimizer)
    for _ in range(3):
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    assert averager.effective_steps == 3
    assert averager.worth == 1
    saved = averager.state_dict()
    averager.close()
    assert averager.effective_steps == averager.summary().effective_steps == 3

    averager = pliant.attach(model, optimizer)
    averager.load_state_dict(saved)
    assert averager.effective_steps == 3
    averager.close()
    averager = pliant.attach(model)
    with pytest.raises(pliant.ContractError, match="effective_steps.*optimizer"):
        _ = averager.effective_steps
    averager.close()


@on_ranks(1)
def test_steps_of_one_rank_count_in_full_and_are_saved(rank: int) -> None:
    model, optimizer, averager = begin("auto")
    train(model, optimizer, rank, 3)
    assert averager.effective_steps == 3
    saved = averager.state_dict()
    averager.close()
    model, optimizer, averager = begin("auto")
    averager.load_state_dict(saved)
    train(model, optimizer, rank, 2)
    assert averager.effective_steps == averager.summary().effective_steps == 5
    averager.close()

    model = models.ddp(models.mlp())
    averager = pliant.attach(model)  # no optimizer: backward passes are counted
    train(model, models.sgd(model), rank, 4)
    assert averager.effective_steps == 4
    averager.close()


@on_ranks(2)
def test_worth_of_a_pinned_plan_is_the_same_after_a_restart(rank: int) -> None:
    plan = "gradients union density=10% values=int8"
    model, optimizer, averager = begin(plan)
    train(model, optimizer, rank, 5)
    worth, steps, state = averager.worth, averager.effective_steps, averager.state_dict()
    averager.close()
    model, optimizer, averager = begin(plan)
    averager.load_state_dict(state)
    assert (averager.worth, averager.effective_steps) == (worth, steps)
    train(model, optimizer, rank, 1)
    assert averager.worth == worth
    averager.close()


@on_ranks(2)
def test_goal_steps_takes_the_most_worth_where_pins_leave_too_little(rank: int) -> None:
    model, optimizer, averager = begin("updates", optimizer=adam, dials={"warm_up_steps": 0})
    averager.tell_network("100mbit,5ms")
    train(model, optimizer, rank, 30)
    assert "every=1 late=0" in averager.plan, averager.summary()
    averager.close()


def test_refusals_name_the_argument() -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    averager = pliant.attach(model, optimizer)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    with pytest.raises(TypeError, match="scheduler"):
        pliant.stretch(torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer), averager)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="stretched schedule"):
        pliant.stretch(schedule, averager).load_state_dict({})
    with pytest.raises(TypeError, match="averager"):
        pliant.stretch(schedule, model)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="goal.*'step'.*steps.*time"):
        pliant.attach(model, optimizer, goal="step")  # type: ignore[arg-type]
    averager.close()


@on_ranks(2)
def test_ranks_that_load_different_effective_steps_are_noticed(rank: int) -> None:
    model, optimizer, averager = begin("gradients dense values=int8")
    train(model, optimizer, rank, 3)
    state = averager.state_dict()
    averager.load_state_dict(state | {"effective_steps": state["effective_steps"] + rank})
    with pytest.raises(pliant.DisagreementError, match="rank 0 has .*3 effective steps.*rank 1"):
        train(model, optimizer, rank, 1)
    averager.close()
