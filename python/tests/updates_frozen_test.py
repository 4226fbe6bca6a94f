# SPDX-License-Identifier: MIT
"""Kind updates: frozen parameters that the loop changes by itself, as a momentum encoder."""

from __future__ import annotations

import copy

import torch
from torch import nn

import pliant
from support import models
from support.messages import Messages
from support.updates import OWN
from support.world import on_ranks


class Moco(nn.Module):
    """An encoder, and a frozen one that follows it. `never` is frozen and stays as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = models.mlp(), models.mlp()
        self.never = nn.Linear(3, 3)
        for frozen in (self.key, self.never):
            frozen.requires_grad_(False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for slow, fast in zip(self.key.parameters(), self.query.parameters(), strict=True):
                slow.data = slow.data * 0.9 + fast.data * 0.1
            target = self.key(inputs)
        result: torch.Tensor = self.query(inputs) + 0.1 * target
        return result


def begin(plan: str) -> tuple[nn.Module, torch.optim.Optimizer, pliant.Averager]:
    model = models.ddp(Moco())
    optimizer = torch.optim.SGD(model.module.query.parameters(), lr=0.02, momentum=0.9)
    return model, optimizer, pliant.attach(model, optimizer, plan)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int, count: int) -> None:
    for number in range(count):
        models.step(model, optimizer, rank, number)


@on_ranks(2)
def test_momentum_encoders_are_named_and_averaged_when_settling(rank: int) -> None:
    with Messages() as messages:
        model, optimizer, averager = begin(OWN)
        train(model, optimizer, rank, 9)
    key = model.module.key
    assert not models.alike_on_all_ranks(models.flat(key))
    assert messages.count("parameters without gradients change") == (rank == 0), messages.texts
    if rank == 0:
        (text,) = [each for each in messages.texts if "without gradients" in each]
        assert "key.0.weight" in text and "and 1 more" in text and "never" not in text
    own = models.flat(key)
    mean = own.clone()
    torch.distributed.all_reduce(mean)
    with averager.settled():
        torch.testing.assert_close(models.flat(key), mean / 2)
        assert models.alike_on_all_ranks(models.flat(key))
    train(model, optimizer, rank, 3)
    assert not models.alike_on_all_ranks(models.flat(key))
    averager.close()
    assert models.alike_on_all_ranks(models.flat(model))


@on_ranks(2)
def test_momentum_encoders_are_alike_again_under_gradients(rank: int) -> None:
    model, optimizer, averager = begin(OWN)
    train(model, optimizer, rank, 7)
    averager.set_plan("gradients dense")
    train(model, optimizer, rank, 8)
    assert averager.plan.startswith("gradients")
    assert models.alike_on_all_ranks(models.flat(model))
    averager.close()


@on_ranks(2)
def test_resuming_with_a_momentum_encoder(rank: int) -> None:
    model, optimizer, averager = begin(OWN)
    train(model, optimizer, rank, 8)
    state = copy.deepcopy(averager.state_dict())
    saved = [copy.deepcopy(model.state_dict())]
    torch.distributed.broadcast_object_list(saved, 0)
    train(model, optimizer, rank, 5)
    expected = models.flat(model)
    averager.close()
    model, optimizer, averager = begin(OWN)
    model.load_state_dict(saved[0])
    averager.load_state_dict(state)
    train(model, optimizer, rank, 5)
    assert torch.equal(models.flat(model), expected)
    every = [None, None]
    torch.distributed.all_gather_object(every, state)
    (alone,) = pliant.reshard(every, 1)
    mean = torch.stack([each["own_frozen"]["key.0.weight"] for each in every]).mean(0)
    torch.testing.assert_close(alone["own_frozen"]["key.0.weight"], mean)
    averager.close()


@on_ranks(2)
def test_frozen_parameters_that_never_change_are_not_mentioned(rank: int) -> None:
    with Messages() as messages:
        model = models.ddp(models.Branches(), find_unused_parameters=True)
        optimizer = models.sgd(model)
        averager = pliant.attach(model, optimizer, OWN)
        train(model, optimizer, rank, 9)
        averager.close()
    assert messages.count("without gradients") == 0, messages.texts
