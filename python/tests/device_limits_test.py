# SPDX-License-Identifier: MIT
"""Training on the late device where memory is short, or where a rank has several devices."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.algorithms.join import Join

from support import models, world
from support.on_late_device import leave, on_device

WIDTH = 64  # the weight is a float32 block of 16 KiB
WEIGHT_BYTES = 4 * WIDTH * WIDTH


class Wide(nn.Module):
    """Narrow parameters or not; takes and returns float32."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(WIDTH, WIDTH).to(dtype)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(inputs.to(self.layer.weight.dtype)).float()
        return result


def train_wide(
    rank: int, device: str, plan: str, dtype: torch.dtype, late_device: Any = None
) -> torch.Tensor:
    """late_device: refuses blocks as large as the float32 weight, wherever Pliant could ask for
    them. The optimizer asks for none."""
    import pliant

    model = models.ddp(Wide(dtype).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, foreach=False)
    averager = pliant.attach(model, optimizer, plan)
    refuse = (lambda _: None) if late_device is None else late_device.refuse_memory
    for number in range(5):
        generator = torch.Generator().manual_seed(10 * number + rank)
        inputs = torch.randn(8, WIDTH, generator=generator).to(device)
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        refuse(0 if dtype == torch.float32 else WEIGHT_BYTES)  # float32 gradients are as large
        loss.backward()
        refuse(WEIGHT_BYTES)
        optimizer.step()
        refuse(0)
    averager.close()
    return models.flat(model)


def memory_is_short(rank: int, size: int, plan: str, dtype: torch.dtype) -> int:
    """Returns the number of warnings."""
    late_device = on_device(rank, size)
    texts: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: texts.append(record.getMessage())  # type: ignore[method-assign]
    expected = train_wide(rank, "late", plan, dtype)
    logging.getLogger("pliant").addHandler(handler)
    assert torch.equal(train_wide(rank, "late", plan, dtype, late_device), expected)
    leave()
    return sum("no memory left for copies" in text for text in texts)


@pytest.mark.parametrize(
    ("plan", "dtype"),
    [
        ("updates every=2 late=1 union density=10%", torch.float32),
        ("updates every=2 late=1 dense", torch.float32),
        ("updates every=1 late=0 dense", torch.bfloat16),
        ("gradients union density=10%", torch.bfloat16),
    ],
)
def test_a_device_without_memory_for_copies(plan: str, dtype: torch.dtype) -> None:
    """The host does the work, with the same bits and one warning."""
    assert world.run(memory_is_short, plan, dtype, ranks=2, group=False) == [1, 1]


def no_memory_at_all(rank: int, size: int) -> None:
    """Neither the device nor pinned memory: it still works."""
    late_device = on_device(rank, size)
    plan = "updates every=2 late=1 union density=10%"
    expected = train_wide(rank, "late", plan, torch.float32)
    late_device.refuse_pinned(True)
    assert torch.equal(train_wide(rank, "late", plan, torch.float32, late_device), expected)
    leave()


def test_neither_device_nor_pinned_memory() -> None:
    world.run(no_memory_at_all, ranks=2, group=False)


class Split(nn.Module):
    """A model whose halves are on two devices."""

    def __init__(self, devices: tuple[str, str]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Linear(10, 32).to(devices[0])
        self.second = nn.Linear(32, 2).to(devices[1])
        self._devices = devices

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(inputs.to(self._devices[0])))
        result: torch.Tensor = self.second(hidden.to(self._devices[1]))
        return result


def two_devices(rank: int, size: int, plans: list[str]) -> None:
    import pliant

    on_device(rank, size)
    for plan in plans:
        results = []
        for devices in (("cpu", "cpu"), ("late:0", "late:1")):
            model = models.ddp(Split(devices), bucket_cap_mb=0.0005)
            optimizer = models.sgd(model)
            averager = pliant.attach(model, optimizer, plan)
            for number in range(5):
                inputs, targets = models.batch(rank, number)
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(inputs), targets.to(devices[1]))
                loss.backward()
                optimizer.step()
            saved = averager.state_dict()
            averager.load_state_dict(saved)
            averager.close()
            results.append(models.flat(model))
        assert torch.equal(*results), plan
    leave()


def test_parameters_on_two_devices_of_one_rank() -> None:
    plans = [
        "gradients dense",
        "gradients union density=10% fuse=all",  # DDP's buckets are of one device each
        "updates every=1 late=0 dense",
        "updates every=2 late=1 union density=10%",
    ]
    world.run(two_devices, plans, ranks=2, group=False)


def join_is_refused(rank: int, size: int) -> None:
    import pliant

    on_device(rank, size)
    model = models.ddp(models.mlp().to("late"))
    averager = pliant.attach(model, models.sgd(model), "updates every=1 late=0 dense")
    with pytest.raises(pliant.UnsupportedError, match="0.weight is on late:0"):
        Join([model, averager])  # type: ignore[list-item]
    averager.close()
    leave()


def test_join_under_updates_is_refused() -> None:
    world.run(join_is_refused, ranks=2, group=False)
