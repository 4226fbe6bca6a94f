# SPDX-License-Identifier: MIT
"""selector="torch": the path for gradients on a device, forced here on the CPU, against the native
one."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import pliant
from support import models, world


def make_model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(40, 60), nn.ReLU(), nn.Linear(60, 30), nn.ReLU(), nn.Linear(30, 4)
    )


def train(
    rank: int, size: int, plan: str, selector: str, steps: int = 12, then: str = "", **options: Any
) -> tuple[list[torch.Tensor], Any]:
    """then: the plan from the middle on, if it is another."""
    ddp = DistributedDataParallel(make_model(), bucket_cap_mb=0.005)  # several buckets
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    averager = pliant.attach(ddp, optimizer, plan=plan, selector=selector, **options)  # type: ignore[arg-type]
    random = torch.Generator().manual_seed(100 + rank)
    for number in range(steps):
        if then and number == steps // 2:
            averager.set_plan(then)
        optimizer.zero_grad()
        inputs = torch.randn(16, 40, generator=random)
        (ddp(inputs) - inputs[:, :4]).square().mean().backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in ddp.parameters()], averager


def same_as_native(rank: int, size: int) -> None:
    union, dense = "gradients union density=5% values=f32", "gradients dense"
    for plan, then in (
        (union, ""),
        (dense, ""),
        (union, "gradients union density=20% values=f32"),
        (dense, union),
    ):
        native, one = train(rank, size, plan, "native", then=then)
        on_device, other = train(rank, size, plan, "torch", then=then)
        for a, b in zip(native, on_device, strict=True):
            assert torch.equal(a, b), (plan, then)
        assert one.summary().memory.residual == 4  # a float32 for each parameter
        assert other.summary().memory.residual == 8  # here and in the engine
        one.close()
        other.close()


def replicas(rank: int, size: int, plan: str) -> None:
    parameters, averager = train(rank, size, plan, "torch")
    assert averager.summary().bytes_sent > 0
    assert averager.state_dict()["device_residual"]
    assert models.alike_on_all_ranks(
        torch.cat([parameter.flatten() for parameter in parameters])
    ), plan
    averager.close()


def resumes(rank: int, size: int) -> None:
    def run(steps: list[int], ddp: Any, optimizer: Any) -> None:
        for step in steps:
            optimizer.zero_grad()
            inputs = torch.randn(
                16, 40, generator=torch.Generator().manual_seed(1000 * rank + step)
            )
            (ddp(inputs) - inputs[:, :4]).square().mean().backward()
            optimizer.step()

    def fresh() -> tuple[Any, Any, Any]:
        ddp = DistributedDataParallel(make_model())
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
        return (
            ddp,
            optimizer,
            pliant.attach(
                ddp, optimizer, plan="gradients srs density=5% values=int8", selector="torch"
            ),
        )

    ddp, optimizer, averager = fresh()
    run(list(range(6)), ddp, optimizer)
    saved = {
        "model": ddp.module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "pliant": averager.state_dict(),
    }
    saved = copy.deepcopy({key: saved[key] for key in ("model", "optimizer")}) | {
        "pliant": saved["pliant"]
    }  # ours is a copy already
    run(list(range(6, 12)), ddp, optimizer)
    expected = [parameter.detach().clone() for parameter in ddp.parameters()]
    averager.close()

    ddp, optimizer, averager = fresh()
    ddp.module.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    averager.load_state_dict(saved["pliant"])
    run(list(range(6, 12)), ddp, optimizer)
    for a, b in zip(expected, ddp.parameters(), strict=True):
        assert torch.equal(a, b)
    averager.close()


def a_plan_is_in_force_from_its_first_step(rank: int, size: int) -> None:
    ddp = DistributedDataParallel(make_model())
    averager = pliant.attach(ddp, plan="gradients union density=5%", selector="torch")
    for step in range(4):
        if step == 3:
            averager.set_plan("gradients dense")
        ddp.zero_grad()
        ddp(
            torch.randn(8, 40, generator=torch.Generator().manual_seed(step))
        ).square().mean().backward()
        gradient = torch.cat(
            [
                parameter.grad.flatten()
                for parameter in ddp.parameters()
                if parameter.grad is not None
            ]
        )
        share = int(gradient.count_nonzero()) / gradient.numel()
        assert share > 0.5 if step == 3 else share < 0.2, (step, share)
    assert not averager.state_dict()["device_residual"], "dense leaves nothing unsent"
    averager.close()


def not_finite(rank: int, size: int) -> None:
    ddp = DistributedDataParallel(make_model())
    averager = pliant.attach(ddp, plan="gradients union density=5%", selector="torch")
    for step in range(4):
        ddp.zero_grad()
        inputs = torch.randn(8, 40)
        if step == 2 and rank == 1:
            inputs[0, 0] = math.inf
        ddp(inputs).square().mean().backward()
        nan = all(
            bool(parameter.grad.isnan().any())
            for parameter in ddp.parameters()
            if parameter.grad is not None
        )
        assert nan == (step == 2)
    residuals = averager.state_dict()["device_residual"]
    assert residuals and all(bool(residual.isfinite().all()) for residual in residuals.values())
    averager.close()


def shared_is_refused(rank: int, size: int) -> None:
    ddp = DistributedDataParallel(make_model())
    with pytest.raises(pliant.UnsupportedError, match="shared"):
        pliant.attach(ddp, plan="gradients shared/star density=1%", selector="torch")


def all_of_it(rank: int, size: int) -> None:
    same_as_native(rank, size)
    resumes(rank, size)
    a_plan_is_in_force_from_its_first_step(rank, size)
    not_finite(rank, size)
    shared_is_refused(rank, size)
    for plan in ("gradients srs density=5% values=int8", "gradients union density=3% values=int4"):
        replicas(rank, size, plan)


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_selecting_with_torch(ranks: int) -> None:
    world.run(all_of_it, ranks=ranks)
