# SPDX-License-Identifier: MIT
"""Training on a device: the late device, whose memory the host cannot touch and whose streams run
late on purpose (support/late_backend.py). Whatever is averaged there has the bits that it has in
host memory."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from pliant.doctor.device_trial import PLANS
from support import models, world
from support.on_late_device import leave, on_device, train

GRADIENTS = [plan for plan in PLANS if plan.startswith("gradients")]
UPDATES = [plan for plan in PLANS if plan.startswith("updates")]


# --- the device itself ---


def run_script(text: str) -> subprocess.CompletedProcess[str]:
    here = str(Path(__file__).resolve().parent)
    path = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", "import torch\nfrom support import late_backend\n" + text],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_a_host_access_is_a_fault() -> None:
    ran = run_script(
        "import ctypes\n"
        "there = torch.ones(3, device='late')\n"
        "ctypes.c_float.from_address(there.data_ptr()).value\n"
    )
    assert ran.returncode == -11, ran
    assert "the host touched memory of the device" in ran.stderr


def alone(rank: int, size: int) -> None:
    import late_device

    from support import late_backend  # noqa: F401

    late_device.set_delays(seed=1, least=20_000, most=20_000, period=1)
    source = torch.ones(1000, device="late")
    torch.late.synchronize()  # type: ignore[attr-defined]
    pinned = torch.zeros(1000, pin_memory=True)
    source.mul_(2)
    pinned.copy_(source, non_blocking=True)
    assert pinned.eq(0).all(), "a copy that nobody waited for is there already"
    torch.late.current_stream().synchronize()  # type: ignore[attr-defined]
    assert pinned.eq(2).all()

    side = torch.Stream(device="late")
    event = torch.Event(device="late")
    for _ in range(10):
        source.add_(1)
    event.record()
    with torch.late.stream(side):  # type: ignore[attr-defined]
        early = source.to("cpu")  # waits for this stream alone
    side.wait_event(event)
    with torch.late.stream(side):  # type: ignore[attr-defined]
        right = source.to("cpu")
    assert early.lt(12).all() and right.eq(12).all() and event.query()

    late_device.set_delays(seed=1, most=200, period=2)
    for optimizer in (models.sgd, lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2)):
        results = []
        for device in ("cpu", "late"):
            model = models.conv().to(device)
            chosen = optimizer(model)
            for number in range(4):
                inputs, targets = (tensor.to(device) for tensor in models.batch(0, number))
                chosen.zero_grad()
                nn.functional.mse_loss(model(inputs), targets).backward()
                chosen.step()
            results.append(
                torch.cat([t.cpu().float().flatten() for t in model.state_dict().values()])
            )
        assert torch.equal(*results)


def test_its_streams_are_late_and_in_order() -> None:
    world.run(alone, ranks=1, group=False)


# --- training on it ---


def same_bits(rank: int, size: int, plans: list[str | None], options: dict[str, Any]) -> None:
    on_device(rank, size)
    for plan in plans:
        for make in (models.mlp, models.conv):
            host, device = (
                train(rank, where, plan, make=make, **options) for where in ("cpu", "late")
            )
            assert torch.equal(host, device), (plan, (host - device).abs().max())
    leave()


def test_ddp_trains_on_it() -> None:
    world.run(same_bits, [None], {}, ranks=2, group=False)


def test_gradients_have_the_bits_of_host_memory() -> None:
    world.run(same_bits, GRADIENTS, {}, ranks=2, group=False)


def test_updates_have_the_bits_of_host_memory() -> None:
    world.run(same_bits, UPDATES, {}, ranks=2, group=False)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [3, 4])
def test_all_plans_have_the_bits_of_host_memory(ranks: int) -> None:
    world.run(same_bits, [*GRADIENTS, *UPDATES], {"clip_norm": 0.5}, ranks=ranks, group=False)


def test_clipping_has_the_bits_of_host_memory() -> None:
    plans = ["gradients union density=5%", "gradients dense", UPDATES[1]]
    world.run(same_bits, plans, {"clip_norm": 0.5}, ranks=2, group=False)


def mutated(rank: int, size: int, waiter: str, plan: str) -> bool:
    """Whether training without these waits comes to the same as with them."""
    late_device = on_device(rank, size)
    expected = train(rank, "cpu", plan)
    late_device.set_delays(seed=1, least=3000, most=3000, period=2)
    assert torch.equal(train(rank, "late", plan), expected)
    late_device.drop_waits(getattr(late_device.Waiter, waiter))
    try:
        return torch.equal(train(rank, "late", plan, deadline=10), expected)
    except Exception:  # noqa: BLE001  ranks may notice that they differ, each in its own way
        return False


@pytest.mark.parametrize(
    ("waiter", "plan"),
    [
        ("POOL", "gradients union density=20%"),
        ("HOST", "gradients union density=20%"),
        ("DEFAULT_STREAM", "gradients union density=20%"),
        pytest.param("POOL", UPDATES[1], marks=pytest.mark.slow),
        pytest.param("HOST", UPDATES[1], marks=pytest.mark.slow),
    ],
)
def test_every_wait_is_needed(waiter: str, plan: str) -> None:
    """Without one kind of wait (of the copying stream, of lanes, of DDP's stream) results are wrong:
    the other tests would notice."""
    results = world.run(mutated, waiter, plan, ranks=2, group=False, farewell=False)
    assert results == [False, False], results


# --- whose all-reduce ---


def dense_is_the_groups_own(rank: int, size: int) -> None:
    """Nothing of a dense step goes through host memory of ours, from the first step on."""
    import pliant

    late_device = on_device(rank, size)
    plain = train(rank, "late", None)
    calls = 0
    all_reduce = dist.all_reduce

    def counted(tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += tensor.device.type == "late"
        return all_reduce(tensor, *arguments, **options)

    dist.all_reduce = counted
    before = late_device.pinned_allocations()
    assert torch.equal(train(rank, "late", "gradients dense"), plain)
    assert calls >= 6, calls
    assert late_device.pinned_allocations() == before
    calls = 0
    assert torch.equal(train(rank, "late", "gradients dense reduce=ring"), plain) or size > 2
    assert calls == 0
    dist.all_reduce = all_reduce
    model = models.ddp(models.mlp().to("late"))
    averager = pliant.attach(model, models.sgd(model), "gradients dense")
    for number in range(3):
        inputs, targets = (tensor.to("late") for tensor in models.batch(rank, number))
        nn.functional.mse_loss(model(inputs), targets).backward()
    assert averager.summary().steps == 3 and averager.summary().bytes_sent > 0
    averager.set_plan("gradients union density=10%")
    for number in range(3):
        inputs, targets = (tensor.to("late") for tensor in models.batch(rank, number))
        nn.functional.mse_loss(model(inputs), targets).backward()
    averager.set_plan("gradients dense")  # sends the residual first
    for number in range(3):
        nn.functional.mse_loss(model(inputs), targets).backward()
    assert not averager.state_dict()["residual"]
    averager.close()
    leave()


def test_dense_is_the_all_reduce_of_the_users_group() -> None:
    world.run(dense_is_the_groups_own, ranks=2, group=False)


# --- loops ---


def backward_in_a_side_stream(rank: int, size: int, plan: str) -> None:
    import pliant

    late_device = on_device(rank, size)
    late_device.set_delays(seed=1, least=1000, most=2000, period=2)
    results = []
    for device in ("cpu", "late"):
        model = models.ddp(models.mlp().to(device), bucket_cap_mb=0.004)
        optimizer = models.sgd(model)
        averager = pliant.attach(model, optimizer, plan)
        side = torch.Stream(device="late")
        for number in range(4):
            inputs, targets = (tensor.to(device) for tensor in models.batch(rank, number))
            optimizer.zero_grad()
            if device == "cpu":
                nn.functional.mse_loss(model(inputs), targets).backward()
                optimizer.step()
                continue
            side.wait_stream(torch.late.current_stream())  # type: ignore[attr-defined]
            with torch.late.stream(side):  # type: ignore[attr-defined]
                nn.functional.mse_loss(model(inputs), targets).backward()
                optimizer.step()
            torch.late.current_stream().wait_stream(side)  # type: ignore[attr-defined]
        results.append(models.flat(model).cpu())
        averager.close()
    assert torch.equal(*results)
    leave()


@pytest.mark.parametrize("plan", ["gradients union density=20%", "gradients dense", UPDATES[1]])
def test_a_backward_in_a_side_stream(plan: str) -> None:
    world.run(backward_in_a_side_stream, plan, ranks=2, group=False)


def twice_before_a_step(rank: int, size: int) -> None:
    """The average of the first backward is not exchanged again."""
    import pliant

    on_device(rank, size)
    results = []
    for device in ("cpu", "late"):
        for to_none in (True, False):
            model = models.ddp(models.mlp().to(device), bucket_cap_mb=0.004)
            optimizer = models.sgd(model)
            averager = pliant.attach(model, optimizer, "gradients union density=20%")
            for number in range(4):
                optimizer.zero_grad(set_to_none=to_none)
                for half in range(2):
                    inputs, targets = (
                        tensor.to(device) for tensor in models.batch(rank, 2 * number + half)
                    )
                    nn.functional.mse_loss(model(inputs), targets).backward()
                optimizer.step()
            results.append(models.flat(model).cpu())
            averager.close()
    assert torch.equal(results[0], results[2]) and torch.equal(results[1], results[3])
    leave()


def test_two_backwards_before_a_step() -> None:
    world.run(twice_before_a_step, ranks=2, group=False)


def resumes(rank: int, size: int, plan: str) -> None:
    import pliant

    on_device(rank, size)

    def fresh() -> Any:
        model = models.ddp(models.conv().to("late"))
        optimizer = models.sgd(model)
        return model, optimizer, pliant.attach(model, optimizer, plan)

    def run(model: nn.Module, optimizer: torch.optim.Optimizer, numbers: range) -> None:
        for number in numbers:
            inputs, targets = (tensor.to("late") for tensor in models.batch(rank, number))
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()

    model, optimizer, averager = fresh()
    run(model, optimizer, range(5))
    path = Path(f"{os.environ['LATE_TEST_FILE']}.{rank}")
    torch.save([model.module.state_dict(), optimizer.state_dict(), averager.state_dict()], path)
    run(model, optimizer, range(5, 9))
    expected = models.flat(model).cpu()
    averager.close()

    model, optimizer, averager = fresh()
    states = torch.load(path, weights_only=True, map_location="cpu")
    model.module.load_state_dict(states[0])
    optimizer.load_state_dict(states[1])
    averager.load_state_dict(states[2])
    run(model, optimizer, range(5, 9))
    assert torch.equal(models.flat(model).cpu(), expected)
    averager.close()
    leave()


@pytest.mark.parametrize("plan", ["gradients srs density=5% values=int8", UPDATES[1]])
def test_a_checkpoint_resumes(plan: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATE_TEST_FILE", str(tmp_path / "state"))
    world.run(resumes, plan, ranks=2, group=False)


# --- what may go wrong ---


def default_device(rank: int, size: int) -> None:
    on_device(rank, size)
    for plan in (GRADIENTS[2], UPDATES[1]):
        expected = train(rank, "cpu", plan)
        torch.set_default_device("late")
        result = train(rank, "late", plan)
        torch.set_default_device("cpu")
        assert torch.equal(result, expected)
    leave()


def test_a_default_device_does_not_disturb() -> None:
    world.run(default_device, ranks=2, group=False)


def pinned_is_refused(rank: int, size: int) -> int:
    late_device = on_device(rank, size)
    plans = (GRADIENTS[2], UPDATES[1])
    expected = [train(rank, "cpu", plan) for plan in plans]
    late_device.refuse_pinned(True)
    texts: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: texts.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("pliant").addHandler(handler)
    for plan, result in zip(plans, expected, strict=True):
        assert torch.equal(train(rank, "late", plan), result)
    leave()
    return sum("pageable" in text for text in texts)


def test_pageable_memory_where_pinned_is_refused() -> None:
    """One warning for each of the two averagers."""
    assert world.run(pinned_is_refused, ranks=2, group=False) == [2, 2]


def moves(rank: int, size: int) -> None:
    import pliant

    on_device(rank, size)
    for plan in (GRADIENTS[2], UPDATES[0]):
        model = models.ddp(models.mlp().to("late"))
        optimizer = models.sgd(model)
        pliant.attach(model, optimizer, plan)
        inputs, targets = models.batch(rank, 0)
        model.module.to("cpu")
        with pytest.raises(Exception, match="late:0.*cpu"):
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
        model.module.to("late")
    leave()


def test_a_model_that_moves_is_an_error_that_names_both_devices() -> None:
    world.run(moves, ranks=2, group=False)
