# SPDX-License-Identifier: MIT
"""Models of many small tensors: the number of collectives does not grow with them, and work grows
in proportion. Operations are counted, not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn

import pliant
from pliant import side_channel
from support import models, world

FEW, MORE, MANY = 250, 500, 10_000
ENTRIES = 100
PLAN = "updates every=1 late=0 union density=10%"


class Tensors(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        generator = torch.Generator("cpu").manual_seed(1)
        self.all = nn.ParameterList(
            torch.randn(ENTRIES, generator=generator, device="cpu").to(torch.get_default_device())
            for _ in range(count)
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.cat(list(self.all)).square().mean() * inputs.mean()
        return result


class CountingChannel:
    """The side channel's native part, with its collectives counted."""

    collectives = 0

    def __init__(self, *arguments: Any) -> None:
        self._native = _SideChannel(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name in ("gather", "sum", "broadcast"):
            CountingChannel.collectives += 1
        return getattr(self._native, name)


_SideChannel = pliant._native.SideChannel


class CountedName(str):
    """A name that counts how often it is compared with another."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)


@contextmanager
def counted_calls() -> Iterator[Callable[[], int]]:
    """Counts the functions that Python calls, its own and built-in ones."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        yield lambda: calls
    finally:
        sys.setprofile(None)


def work(rank: int, size: int, count: int) -> dict[str, tuple[int, int]]:
    """(collectives, calls) of each part of an averager's life, with so many tensors."""
    found: dict[str, tuple[int, int]] = {}
    model = models.ddp(Tensors(count))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    averager: Any = None

    def attach() -> None:
        nonlocal averager
        averager = pliant.attach(model, optimizer, PLAN)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.full((3,), rank + 1.0)).backward()
        optimizer.step()

    def rebase() -> None:
        averager.rebase()

    def load() -> None:
        saved = averager.state_dict()
        renamed = {CountedName(name): shape for name, shape in saved["parameters"].items()}
        averager.load_state_dict({**saved, "parameters": renamed})

    def measure(what: str, body: Callable[[], None]) -> None:
        before = CountingChannel.collectives
        with counted_calls() as calls:
            body()
        found[what] = (CountingChannel.collectives - before, calls())

    with mock.patch.object(side_channel._native, "SideChannel", CountingChannel):
        measure("attach", attach)
    measure("first step", step)
    measure("step", step)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(rank)  # every rank has others: all of them travel
    measure("rebase", rebase)
    measure("load", load)
    found["names"] = (0, CountedName.comparisons)
    measure("close", averager.close)
    assert models.alike_on_all_ranks(models.flat(model))
    return found


def test_collectives_and_work() -> None:
    few = world.run(work, FEW, ranks=2)[0]
    more = world.run(work, MORE, ranks=2)[0]
    for part, (collectives, calls) in few.items():
        assert more[part][0] == collectives, (part, few, more)
        assert more[part][1] <= 2.2 * calls, (part, few, more)
    assert few["attach"][0] == 1, "one comparison of hashes"
    assert few["step"][0] == 0
    assert few["rebase"][0] <= 4, "hashes twice, memory formats, and one message with all tensors"


@pytest.mark.slow
def test_ten_thousand_tensors() -> None:
    few = world.run(work, FEW, ranks=2)[0]
    many = world.run(work, MANY, ranks=2)[0]
    for part, (collectives, calls) in few.items():
        assert many[part][0] == collectives, (part, few, many)
        assert many[part][1] <= 1.1 * MANY / FEW * calls, (part, few, many)
