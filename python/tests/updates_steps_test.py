# SPDX-License-Identifier: MIT
"""Kind updates: clipping, steps that are skipped, and optimizers that were not attached."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

import pliant
from support import models
from support.messages import Messages
from support.training import loss_of, steps
from support.updates import OWN, begin
from support.world import on_ranks


@on_ranks(2)
def test_clip_norm_clips_each_ranks_own_gradient(rank: int) -> None:
    """Dense updates of SGD in every step, clipped, are plain SGD on clipped gradients, averaged."""
    for closure in (False, True):
        model = models.ddp(models.mlp())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        averager = pliant.attach(model, optimizer, "updates every=1 late=0 dense", clip_norm=0.01)
        for number in range(3):
            before = models.flat(model)
            optimizer.zero_grad()

            def backward(number: int = number) -> torch.Tensor:
                optimizer.zero_grad()
                loss = loss_of(model, rank, number)
                loss.backward()
                return loss

            if closure:
                optimizer.step(backward)
            else:
                backward()
                optimizer.step()
            gradient = torch.cat([tensor.grad.flatten().cpu() for tensor in model.parameters()])
            torch.testing.assert_close(gradient.norm().item(), 0.01, rtol=1e-4, atol=0)
            dist.all_reduce(gradient)
            torch.testing.assert_close(models.flat(model), before - 0.5 * gradient / 2)
        averager.close()


@on_ranks(1)
def test_clip_norm_clips_on_one_rank_alone(rank: int) -> None:
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, clip_norm=0.01)
    steps(model, optimizer, rank, 2)
    gradient = torch.cat([tensor.grad.flatten() for tensor in model.parameters()])
    torch.testing.assert_close(gradient.norm().item(), 0.01, rtol=1e-4, atol=0)
    averager.close()


def skip_on_one_rank(model: nn.Module, rank: int, number: int) -> None:
    if rank == 1 and number in (4, 9):
        next(model.parameters()).grad[0, 0] = float("inf")  # type: ignore[index]


@on_ranks(2)
def test_a_skipped_step_in_a_loop_with_collectives(rank: int) -> None:
    for plan in (OWN, "updates every=1 late=0 union density=10%"):
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        model, optimizer, averager = begin(plan, scaler=scaler, deadline=60)
        for number in range(16):
            optimizer.zero_grad()
            loss = loss_of(model, rank, number)
            scaler.scale(loss).backward()
            skip_on_one_rank(model, rank, number)
            scaler.step(optimizer)
            scaler.update()
            dist.all_reduce(loss.detach())
        assert averager.summary().steps == 16
        with averager.settled():
            assert models.alike_on_all_ranks(models.flat(model))
        averager.close()
        assert "step" not in vars(scaler), "the scaler is left as it was"


@on_ranks(2)
def test_two_averagers_and_a_skipped_step(rank: int) -> None:
    """As in a GAN: one scaler, known to one of the averagers, and one of the steps is skipped."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    plan = "updates every=1 late=0 dense"
    first, first_optimizer, first_averager = begin(plan, scaler=scaler, deadline=60)
    second, second_optimizer, second_averager = begin(plan, deadline=60)
    for number in range(12):
        for model, optimizer in ((first, first_optimizer), (second, second_optimizer)):
            optimizer.zero_grad()
            scaler.scale(loss_of(model, rank, number)).backward()
            if model is second:
                skip_on_one_rank(model, rank, number)
            scaler.step(optimizer)
        scaler.update()
    for averager in (first_averager, second_averager):
        assert averager.summary().steps == 12
        averager.close()


@on_ranks(2)
def test_an_optimizer_that_was_not_attached_is_refused(rank: int) -> None:
    model, optimizer, averager = begin(OWN)
    steps(model, optimizer, rank, 3)
    other = models.sgd(model)
    with pytest.raises(pliant.UnsupportedError, match="was not given to pliant.attach"):
        steps(model, other, rank, 1)
    steps(model, optimizer, rank, 3)
    averager.close()
    steps(model, other, rank, 1)


@on_ranks(2)
def test_an_optimizer_that_was_not_attached_rules_updates_out(rank: int) -> None:
    """A second phase of training with an optimizer of its own, before `auto` changes the kind."""
    model, optimizer, averager = begin("density=100%", policy="fixed")
    steps(model, optimizer, rank, 3)
    assert averager.plan.startswith("gradients"), averager.plan
    other = models.sgd(model)
    with Messages() as messages:
        steps(model, other, rank, 4)
    assert messages.count("was not given to pliant.attach(): from now on only") == 1
    assert models.alike_on_all_ranks(models.flat(model))
    averager.close()
