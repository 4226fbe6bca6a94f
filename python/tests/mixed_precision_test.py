# SPDX-License-Identifier: MIT
"""Kind updates with bfloat16 and float16 parameters, and with torch.autocast and GradScaler.

Pliant keeps the base in float32; what rounding takes from parameters is in the residual."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import pliant
from support import models, world
from support.training import loss_of, steps
from support.updates import Progress, flat_state, in_flight_of, mean_of, outputs, residual_of
from support.world import on_ranks

NARROW = (torch.bfloat16, torch.float16)
PLANS = (
    "updates every=1 late=0 dense",
    "updates every=2 late=1 union density=10% values=f32",
    "updates every=2 late=2 srs density=10% values=int8",
    "updates every=2 late=0 shared/star density=10%",
)


def narrow(dtype: torch.dtype, plan: str | None, **options: Any) -> Any:
    """A model, its optimizer, what that does by itself, and the averager (None without a plan)."""
    model = models.ddp(_Narrow(dtype))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    progress = Progress(model, optimizer)  # its hooks come before those of the averager
    averager = pliant.attach(model, optimizer, plan, **options) if plan else None
    return model, optimizer, progress, averager


class _Narrow(nn.Module):
    """Takes and returns float32; its parameters, one of them a matrix of odd size, are narrow."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner = models.mlp(width=33).to(dtype)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        weight = next(self.inner.parameters())
        result: torch.Tensor = self.inner(inputs.to(weight.dtype)).float()
        return result


def base_of(averager: pliant.Averager) -> torch.Tensor:
    """As it is kept, in float32."""
    base = averager.state_dict(parameters=False, optimizers=False)["base"]
    assert all(tensor.dtype == torch.float32 for tensor in base.values())
    return torch.cat([tensor.flatten().cpu() for tensor in base.values()])


@on_ranks(2, world.slow(3))
def test_the_base_is_float32_and_nothing_is_lost(rank: int) -> None:
    """The mean over ranks of (parameters + residual) changes by optimizer steps only, and the base
    has the same bits everywhere."""
    for dtype in NARROW:
        for plan in PLANS:
            model, optimizer, progress, averager = narrow(dtype, plan)
            total = mean_of(models.flat(model) + residual_of(averager))
            for number in range(8):
                models.step(model, optimizer, rank, number)
                total += mean_of(progress.by_the_last_step)
                now = mean_of(models.flat(model) + residual_of(averager))
                torch.testing.assert_close(now, total, rtol=0, atol=1e-6, msg=f"{dtype} {plan}")
                assert models.alike_on_all_ranks(base_of(averager)), (dtype, plan, number)
            rounded = base_of(averager).to(dtype).float()
            assert not torch.equal(rounded, base_of(averager)), "no more than the narrow type has"
            if not in_flight_of(averager).any():
                assert torch.equal(outputs(model), outputs(model.module))
            averager.close()
            assert models.alike_on_all_ranks(models.flat(model)), (dtype, plan)
            assert all(parameter.dtype == dtype for parameter in model.parameters())


@on_ranks(2)
def test_it_trains_as_well_as_plain_ddp(rank: int) -> None:
    """After the same steps, by the same narrow type and by float32."""
    for dtype in NARROW:
        losses = []
        for plan in (None, PLANS[0], PLANS[1]):
            model, optimizer, _, averager = narrow(dtype, plan)
            steps(model, optimizer, rank, 60)
            if averager is not None:
                averager.close()
            with torch.no_grad():
                losses.append(mean_of(loss_of(model, rank, 1000).reshape(1).cpu()).item())
        plain, dense, sparse = losses
        assert dense < 1.1 * plain and sparse < 1.3 * plain, losses


@on_ranks(2)
def test_a_checkpoint_resumes(rank: int) -> None:
    for dtype in NARROW:
        model, optimizer, _, averager = narrow(dtype, PLANS[1])
        steps(model, optimizer, rank, 5)
        saved = copy.deepcopy(
            [model.module.state_dict(), optimizer.state_dict(), averager.state_dict()]
        )
        assert models.alike_on_all_ranks(
            torch.cat([value.float().flatten() for value in saved[0].values()])
        )
        for number in range(5, 9):
            models.step(model, optimizer, rank, number)
        expected = models.flat(model)
        averager.close()

        model, optimizer, _, averager = narrow(dtype, PLANS[1])
        model.module.load_state_dict(saved[0])
        optimizer.load_state_dict(saved[1])
        averager.load_state_dict(saved[2])
        for number in range(5, 9):
            models.step(model, optimizer, rank, number)
        assert torch.equal(models.flat(model), expected), dtype
        averager.close()


@on_ranks(2)
def test_changes_of_kind_loading_and_swapping(rank: int) -> None:
    for dtype in NARROW:
        model, optimizer, _, averager = narrow(dtype, PLANS[1])
        steps(model, optimizer, rank, 5)
        live = models.flat(model)
        model.load_state_dict(model.state_dict())  # the base: this rank goes on with its own
        steps(model, optimizer, rank, 1)
        assert not torch.equal(models.flat(model), live)
        before = [parameter.detach().clone() for parameter in model.parameters()]
        for parameter in model.parameters():
            parameter.data.fill_(0.5)
        assert model.module.state_dict()["inner.0.weight"].eq(0.5).all(), "swapped in by hand"
        for parameter, value in zip(model.parameters(), before, strict=True):
            parameter.data.copy_(value)
        averager.set_plan("gradients dense")
        steps(model, optimizer, rank, 6)
        assert averager.plan.startswith("gradients")
        assert models.alike_on_all_ranks(models.flat(model))
        assert not averager.state_dict()["residual"]
        averager.set_plan(PLANS[0])
        steps(model, optimizer, rank, 6)
        averager.close()
        assert models.alike_on_all_ranks(models.flat(model))


class MasterSGD(torch.optim.SGD):
    """Steps float32 copies that it keeps in its state, and rounds those."""

    def step(self, closure: object = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                master = state.setdefault("master", parameter.detach().float().clone())
                master.sub_(parameter.grad.float(), alpha=group["lr"])
                parameter.data.copy_(master)


class WithMasters(torch.optim.SGD):
    """As Apex's FusedAdam(master_weights=True)."""

    master_weights = True


@on_ranks(2)
def test_optimizers_with_float32_copies_are_refused_by_name(rank: int) -> None:
    model = models.ddp(_Narrow(torch.bfloat16))
    with pytest.raises(pliant.UnsupportedError, match=r"WithMasters keeps a float32 copy"):
        pliant.attach(model, WithMasters(model.parameters(), lr=0.1), PLANS[0])
    optimizer = MasterSGD(model.parameters(), lr=0.1)
    averager = pliant.attach(model, optimizer, PLANS[0])
    with pytest.raises(pliant.UnsupportedError, match=r"MasterSGD.*its state 'master'"):
        steps(model, optimizer, rank, 1)
    averager.close()
    averager = pliant.attach(model, optimizer, "gradients dense")
    steps(model, optimizer, rank, 2)
    averager.close()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-3)  # has float32 or narrow moments, no copy
    averager = pliant.attach(model, adam, PLANS[0])
    steps(model, adam, rank, 3)
    averager.close()


def _device() -> str:
    return torch.get_default_device().type


@on_ranks(2)
def test_autocast_with_a_loss_scale(rank: int) -> None:
    """Float32 parameters, as most people train: autocast, and a GradScaler that was passed."""
    for dtype in NARROW:
        for plan in (PLANS[0], PLANS[1]):
            model = models.ddp(models.mlp())
            optimizer = models.sgd(model)
            scaler = torch.amp.GradScaler(_device(), init_scale=256.0)
            averager = pliant.attach(model, optimizer, plan, scaler=scaler)
            losses = []
            for number in range(30):
                optimizer.zero_grad()
                with torch.autocast(_device(), dtype=dtype):
                    loss = loss_of(model, rank, number)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                losses.append(loss.item())
            assert sum(losses[-5:]) < 0.5 * sum(losses[:5]), (dtype, plan, losses)
            averager.close()
            assert models.alike_on_all_ranks(flat_state(model.state_dict()))


@pytest.mark.slow
@on_ranks(2)
def test_compiled_narrow_models(rank: int) -> None:
    inner = models.ddp(_Narrow(torch.bfloat16))
    model = torch.compile(inner, backend="aot_eager")
    optimizer = models.sgd(inner)
    averager = pliant.attach(model, optimizer, PLANS[1])
    steps(model, optimizer, rank, 6)
    assert averager.summary().steps == 6
    averager.close()
    assert models.alike_on_all_ranks(models.flat(inner))
