# SPDX-License-Identifier: MIT
"""Kind updates: nothing is lost, and all ranks agree on the base."""

from __future__ import annotations

import torch
from torch import nn

import pliant
from support import models
from support.training import loss_of
from support.updates import DENSE, Progress, begin, flat_base, mean_of, residual_of
from support.world import on_ranks, slow


@on_ranks(slow(2), 3, slow(4))
def test_sgd_dense_every_step_is_ddp(rank: int) -> None:
    ours, plain = models.ddp(models.mlp()), models.ddp(models.mlp())
    optimizers = [
        torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3, nesterov=True)
        for model in (ours, plain)
    ]
    averager = pliant.attach(ours, optimizers[0], DENSE)
    for number in range(200):
        models.step(ours, optimizers[0], rank, number)
        models.step(plain, optimizers[1], rank, number)
    torch.testing.assert_close(models.flat(ours), models.flat(plain), rtol=1e-3, atol=1e-4)
    assert models.alike_on_all_ranks(models.flat(ours))
    averager.close()


@on_ranks(slow(2), 3, slow(4))
def test_nothing_is_lost(rank: int) -> None:
    """The mean over ranks of (parameters + residual) changes by optimizer steps only, and the base
    is the same everywhere."""
    plans = (
        "updates every=1 late=4 srs density=10% values=f16",
        "updates every=1 late=0 shared/star density=10%",
        "updates every=2 late=4 dense",
        "updates every=3 late=1 union density=5% values=int4",
    )
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    made = Progress(model, optimizer)  # its hook comes before pliant's
    averager = pliant.attach(
        model, optimizer, "updates every=1 late=8 union density=5% values=int8"
    )
    expected = mean_of(models.flat(model))
    for number in range(60):
        if number % 12 == 11:
            averager.set_plan(plans[number // 12 % len(plans)])
        spoilt = (
            number in (5, 18) and rank == 1
        )  # under every=1, with exchanges in flight: the exchange is void
        optimizer.zero_grad()
        loss_of(model, rank, number).backward()
        if spoilt:
            next(model.parameters()).grad[0, 0] = float("nan")  # type: ignore[index]
        optimizer.step()
        # What was not finite is lost; the rest of that step is in the residual.
        expected += mean_of(made.by_the_last_step.nan_to_num(nan=0.0))
        torch.testing.assert_close(
            mean_of(models.flat(model) + residual_of(averager)),
            expected,
            rtol=1e-4,
            atol=1e-5,
            msg=lambda text: f"step {number}: {text}",
        )  # noqa: B023
        assert models.alike_on_all_ranks(flat_base(averager)), number
    assert averager.summary().voids == 2
    with averager.settled():
        assert models.alike_on_all_ranks(models.flat(model))
        assert torch.equal(models.flat(model), flat_base(averager))
    torch.testing.assert_close(
        mean_of(models.flat(model) + residual_of(averager)), expected, rtol=1e-4, atol=1e-5
    )
    averager.close()


@on_ranks(slow(2), 3, slow(4))
def test_right_after_sending_only_own_parts_differ_from_the_base(rank: int) -> None:
    """And there they are base + own parts, bit for bit, added oldest first."""
    for scheme in ("union density=5% values=int8", "srs density=5% values=f16", "dense"):
        model, optimizer, averager = begin(f"updates every=2 late=4 {scheme}")
        for number in range(12):
            models.step(model, optimizer, rank, number)
            if number % 2 == 1:
                reference = averager.base()
                flights = averager.state_dict(parameters=False, optimizers=False)["in_flight"]
                assert len(flights) == min(2, number // 2 + 1)
                for flight in flights:
                    for name, own_part in flight["own_part"].items():
                        reference[name] += own_part.to(reference[name].device)
                for name, parameter in model.module.named_parameters():
                    assert torch.equal(parameter, reference[name]), (scheme, number, name)
                if scheme != "dense":
                    assert 0 < (models.flat(model) != flat_base(averager)).float().mean() <= 0.11, (
                        "of at most two exchanges"
                    )
        averager.close()


@on_ranks(slow(2), 3, slow(4))
def test_the_base_is_alike_through_changes_of_plan_and_kind(rank: int) -> None:
    inputs, targets = models.batch(9, 9, size=512)
    calm = lambda model: torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)  # noqa: E731
    for optimizer_of in (calm, lambda model: torch.optim.AdamW(model.parameters(), lr=0.005)):
        model, optimizer, averager = begin(
            "updates every=1 late=8 union density=10%", models.conv, optimizer_of
        )
        losses = [nn.functional.mse_loss(model.module(inputs), targets).item()]
        number = 0
        for plan in (
            "updates every=1 late=4 union density=10%",
            "updates every=1 late=0 union density=10%",
            "updates every=2 late=4 srs density=10% values=int8",
            "gradients union density=20%",
            "updates every=4 late=1 union density=20% values=int8",
            "gradients dense",
            DENSE,
        ):
            averager.set_plan(plan)
            for _ in range(12):
                batch = models.batch(rank, number, size=128)
                optimizer.zero_grad()
                nn.functional.mse_loss(model(batch[0]), batch[1]).backward()
                optimizer.step()
                number += 1
                assert models.alike_on_all_ranks(flat_base(averager)), (plan, number)
            if plan.startswith("gradients"):
                assert averager.plan.startswith("gradients")
                assert models.alike_on_all_ranks(models.flat(model)), plan
                assert model.require_backward_grad_sync
                for _, parameter, key, state in pliant.updates.optimizers.Optimizers(
                    optimizer
                ).tensors():
                    assert models.alike_on_all_ranks(state.reshape(-1)), (
                        plan,
                        key,
                        parameter.shape,
                    )
            else:
                assert averager.plan.startswith("updates")
                assert not model.require_backward_grad_sync
            with averager.on_base(), torch.no_grad():
                losses.append(nn.functional.mse_loss(model.module(inputs), targets).item())
            assert losses[-1] < 1.2 * min(losses), f"a spike: {losses}"
        averager.close()
