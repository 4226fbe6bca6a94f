# SPDX-License-Identifier: MIT
"""Kind updates: evaluation sees the base, whatever a forward does."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pliant
from support import models
from support.training import loss_of, steps
from support.updates import OWN, begin, flat_state, outputs
from support.world import on_ranks


@on_ranks(2)
def test_evaluation_is_of_the_base(rank: int) -> None:
    model, optimizer, averager = begin(OWN, models.conv)
    steps(model, optimizer, rank, 7)
    live = models.flat(model)
    with averager.on_base():
        expected = outputs(model)
    for module in (model, model.module):
        assert torch.equal(outputs(module), expected)
    assert models.alike_on_all_ranks(expected)
    model.eval()
    with torch.inference_mode():
        assert torch.equal(model(models.batch(0, 0)[0]), expected)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        model.train()
        model(models.batch(rank, 0)[0])
        model.eval()
        assert models.alike_on_all_ranks(model(models.batch(0, 0)[0]).float())
    with_gradients = model(models.batch(0, 0)[0])  # frozen statistics, but training
    assert not torch.equal(with_gradients, expected)
    model.train()
    assert torch.equal(models.flat(model), live)
    averager.close()


@on_ranks(2)
def test_evaluation_of_compiled_models(rank: int) -> None:
    for outside in (False, True):
        net = models.mlp()
        inner = models.ddp(net if outside else torch.compile(net, backend="eager"))
        model = torch.compile(inner, backend="eager") if outside else inner
        optimizer = models.sgd(inner)
        averager = pliant.attach(model, optimizer, OWN)
        for _ in range(2):
            steps(model, optimizer, rank, 4)
            live = models.flat(inner)
            with averager.on_base():
                expected = outputs(net)
            assert torch.equal(outputs(model), expected)
            assert models.alike_on_all_ranks(flat_state(model.state_dict()))
            assert torch.equal(models.flat(inner), live)
            loss_of(model, rank, 0)
        averager.close()


@on_ranks(2)
def test_evaluation_between_forward_and_backward(rank: int) -> None:
    """A backward that is still to come finds the parameters as its forward saw them."""
    twins = [begin(OWN, models.mlp) for _ in range(2)]
    for number in range(9):
        for twin, (model, optimizer, _) in enumerate(twins):
            optimizer.zero_grad()
            loss = loss_of(model, rank, number)
            if twin == 1:
                outputs(model.module)
                model.state_dict()
            loss.backward()
            optimizer.step()
    assert torch.equal(models.flat(twins[0][0]), models.flat(twins[1][0]))
    for _, _, averager in twins:
        averager.close()


class _Fails(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = models.mlp()
        self.fails = False
        self.register_buffer("cache", torch.zeros(3))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.fails:
            raise RuntimeError("no answer")
        if not self.training:
            self.cache += 1
        result: torch.Tensor = self.inner(inputs)
        return result


@on_ranks(2)
def test_a_forward_that_fails_or_writes_a_cache(rank: int) -> None:
    model, optimizer, averager = begin(OWN, _Fails)
    steps(model, optimizer, rank, 4)
    live = models.flat(model)
    model.module.fails = True
    with pytest.raises(RuntimeError, match="no answer"):
        outputs(model)
    model.module.fails = False
    assert torch.equal(models.flat(model), live)
    model.train()
    for _ in range(3):
        outputs(model)
    assert model.module.cache.tolist() == [3, 3, 3], "what evaluation writes is not lost"
    averager.close()


class _Histogram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = models.mlp()
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.seen += torch.tensor([1.0, 0.0] if self.training else [0.0, 1.0])
        result: torch.Tensor = self.inner(inputs)
        return result


@on_ranks(2)
def test_a_buffer_that_training_and_evaluation_write(rank: int) -> None:
    model, optimizer, averager = begin(OWN, _Histogram)
    for epoch in range(3):
        steps(model, optimizer, rank, 4)
        model.module.seen[1] = 0
        for _ in range(5):
            outputs(model)
        assert model.module.seen[1] == 5, (epoch, model.module.seen)
    averager.close()


@on_ranks(2)
def test_statistics_that_change_between_two_evaluations(rank: int) -> None:
    model, optimizer, averager = begin(OWN, models.conv)
    steps(model, optimizer, rank, 4)
    expected = outputs(model)
    model.train()
    for number in range(3):
        with torch.no_grad():
            model(models.batch(rank, number)[0])
    assert torch.equal(outputs(model), expected), "no step, no other base"
    others = {name: value + 1 for name, value in model.module.named_buffers()}
    steps(model, optimizer, rank, 1)
    model.eval()
    with torch.no_grad():
        example = models.batch(0, 0)[0]
        plain = models.conv().eval()
        plain.load_state_dict({**model.module.state_dict(), **others})
        called = torch.func.functional_call(model.module, others, (example,))
        torch.testing.assert_close(called, plain(example))
    averager.close()


@on_ranks(2)
def test_weights_swapped_in_by_hand_are_what_is_evaluated_and_saved(rank: int) -> None:
    twins = [begin(OWN) for _ in range(2)]
    average = models.mlp(seed=9)
    for _ in range(3):
        for twin, (model, optimizer, _) in enumerate(twins):
            steps(model, optimizer, rank, 3)
            if twin == 0:
                continue
            before = [parameter.detach().clone() for parameter in model.parameters()]
            for parameter, value in zip(model.parameters(), average.parameters(), strict=True):
                parameter.data.copy_(value)
            assert torch.equal(outputs(model), outputs(average))
            saved = model.module.state_dict()
            assert torch.equal(flat_state(saved), flat_state(average.state_dict()))
            for parameter, value in zip(model.parameters(), before, strict=True):
                parameter.data.copy_(value)
            assert models.alike_on_all_ranks(flat_state(model.state_dict()))
    assert torch.equal(models.flat(twins[0][0]), models.flat(twins[1][0]))
    for model, _, averager in twins:
        for parameter, value in zip(model.parameters(), average.parameters(), strict=True):
            parameter.data.copy_(value)
        averager.close()
        assert torch.equal(models.flat(model), models.flat(average)), "the last swap stays"


@on_ranks(2)
def test_weights_that_the_loop_normalizes_are_training(rank: int) -> None:
    model, optimizer, averager = begin(OWN)
    for number in range(8):
        models.step(model, optimizer, rank, number)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.999)
    assert models.alike_on_all_ranks(flat_state(model.state_dict()))
    averager.close()
    assert models.alike_on_all_ranks(models.flat(model))


class _Interrupted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = models.mlp()
        self.presses = False

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.presses:
            raise KeyboardInterrupt
        result: torch.Tensor = self.inner(inputs)
        return result


@on_ranks(2)
def test_training_goes_on_after_ctrl_c_in_an_evaluation(rank: int) -> None:
    twins = [begin(OWN, _Interrupted) for _ in range(2)]
    for number in range(8):
        for twin, (model, optimizer, _) in enumerate(twins):
            models.step(model, optimizer, rank, number)
            if twin == 0 or number % 3:
                continue
            model.module.presses = True
            for called in (model, model.module):
                with pytest.raises(KeyboardInterrupt):
                    outputs(called)
            model.module.presses = False
            if number == 3:
                assert models.alike_on_all_ranks(outputs(model))
            model.train()
    assert torch.equal(models.flat(twins[0][0]), models.flat(twins[1][0]))
    for _, _, averager in twins:
        averager.close()
