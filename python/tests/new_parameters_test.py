# SPDX-License-Identifier: MIT
"""Parameters that are frozen, unfrozen or added while training goes on: they are averaged, or
refused by name."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pliant
from support import models
from support.messages import Messages
from support.training import SOME as GRADIENTS
from support.training import steps
from support.updates import DENSE
from support.updates import SOME as UPDATES
from support.world import on_ranks

PLANS = (GRADIENTS, "gradients dense", UPDATES)


def with_frozen_head() -> nn.Module:
    module = models.mlp()
    module[4].requires_grad_(False)  # type: ignore[index]
    return module


def trained(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


@on_ranks(2)
def test_what_is_unfrozen_is_refused_by_name(rank: int) -> None:
    for plan in (GRADIENTS, UPDATES):
        for style in ("all given", "added", "own optimizer", "closure", "no optimizer attached"):
            if style == "no optimizer attached" and plan == UPDATES:
                continue
            module = with_frozen_head()
            model = models.ddp(module)
            if style == "all given":
                optimizer = models.sgd(module)
            else:
                optimizer = torch.optim.SGD(trained(module), lr=0.02, momentum=0.9)
            attached = None if style == "no optimizer attached" else optimizer
            averager = pliant.attach(model, attached, plan)
            steps(model, optimizer, rank, 3)
            module[4].requires_grad_(True)  # type: ignore[index]
            stepping = optimizer
            if style in ("added", "closure", "no optimizer attached"):
                optimizer.add_param_group({"params": list(module[4].parameters())})  # type: ignore[index]
            elif style == "own optimizer":
                stepping = torch.optim.SGD(module[4].parameters(), lr=0.02)  # type: ignore[index]
            inputs, targets = models.batch(rank, 3)

            def closure() -> torch.Tensor:
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(inputs), targets)
                loss.backward()
                return loss

            with pytest.raises(pliant.UnsupportedError, match="parameter 4.weight is trained"):
                if style == "closure":
                    stepping.step(closure)
                else:
                    closure()
                    stepping.step()
            module.zero_grad()
            averager.close()
            # As the refusal advises.
            again = models.ddp(module)
            optimizer = models.sgd(module)
            averager = pliant.attach(again, optimizer, plan)
            steps(again, optimizer, rank, 3)
            averager.close()
            assert models.alike_on_all_ranks(models.flat(module)), (plan, style)


@on_ranks(2)
def test_what_is_frozen_after_ddp_may_be_unfrozen(rank: int) -> None:
    """DDP has it in its buckets all the time."""
    for plan in (*PLANS, DENSE):
        for given in ("all", "trained"):
            module = models.mlp()
            model = models.ddp(module, find_unused_parameters=True)
            module[4].requires_grad_(False)  # type: ignore[index]
            before = module[4].weight.clone()  # type: ignore[index]
            parameters = module.parameters() if given == "all" else trained(module)
            optimizer = torch.optim.SGD(parameters, lr=0.02, momentum=0.9)
            averager = pliant.attach(model, optimizer, plan)
            steps(model, optimizer, rank, 3)
            assert torch.equal(module[4].weight, before)  # type: ignore[index]
            module[4].requires_grad_(True)  # type: ignore[index]
            if given == "trained":
                optimizer.add_param_group({"params": list(module[4].parameters())})  # type: ignore[index]
            steps(model, optimizer, rank, 5)
            averager.close()
            assert not torch.equal(module[4].weight, before)  # type: ignore[index]
            assert models.alike_on_all_ranks(models.flat(module)), (plan, given)


@on_ranks(2)
def test_what_ddp_never_had_is_refused_at_attach(rank: int) -> None:
    module = with_frozen_head()
    model = models.ddp(module)
    module[4].requires_grad_(True)  # type: ignore[index]
    with pytest.raises(pliant.UnsupportedError, match="parameter 4.weight was frozen"):
        pliant.attach(model, models.sgd(module))


@on_ranks(2)
def test_parameters_of_other_models_are_left_alone(rank: int) -> None:
    model, other = models.ddp(models.mlp()), models.mlp(seed=2)
    optimizer, others = models.sgd(model), models.sgd(other)
    averager = pliant.attach(model, optimizer, GRADIENTS)
    optimizer.add_param_group({"params": list(models.mlp(seed=3).parameters())})
    for number in range(3):
        models.step(model, optimizer, rank, number)
        models.step(other, others, rank, number)
    averager.close()

    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, UPDATES)
    stranger = nn.Parameter(torch.ones(7))
    optimizer.add_param_group({"params": [stranger]})
    stranger.grad = torch.ones(7)
    with pytest.raises(pliant.UnsupportedError, match=r"parameter of shape \[7\].*not the model's"):
        optimizer.step()
    averager.close()


@on_ranks(2)
def test_the_optimizer_of_another_model_is_warned_about(rank: int) -> None:
    model = models.ddp(models.mlp())
    other = models.sgd(models.mlp(seed=2))
    with Messages() as messages:
        pliant.attach(model, other).close()
    assert messages.count("SGD has none of the model's parameters") == 1, messages.texts
    with Messages() as messages:
        pliant.attach(model, other, "gradients").close()
        pliant.attach(model, models.sgd(model)).close()
        pliant.attach(model).close()
    assert messages.count("only plans of kind gradients") == 0, messages.texts
    with pytest.raises(pliant.UnsupportedError, match="none of the model's parameters"):
        pliant.attach(model, other, UPDATES)


@on_ranks(1)
def test_one_rank_alone_may_unfreeze(rank: int) -> None:
    module = with_frozen_head()
    model = models.ddp(module)
    optimizer = models.sgd(module)
    averager = pliant.attach(model, optimizer)
    steps(model, optimizer, rank, 2)
    module[4].requires_grad_(True)  # type: ignore[index]
    steps(model, optimizer, rank, 2)
    averager.close()
