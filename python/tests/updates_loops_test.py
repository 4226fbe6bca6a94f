# SPDX-License-Identifier: MIT
"""Kind updates: ways of writing a training loop."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join

import pliant
from support import models
from support.messages import Messages
from support.training import loss_of, steps
from support.updates import DENSE, SOME, begin, flat_base
from support.world import on_ranks


@on_ranks(2)
def test_a_scaler_skips_a_step_on_one_rank(rank: int) -> None:
    for plan in (SOME, "updates every=1 late=0 union density=10%"):
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=5)
        model, optimizer, averager = begin(plan, scaler=scaler)
        for number in range(16):
            optimizer.zero_grad()
            scaler.scale(loss_of(model, rank, number)).backward()
            if rank == 1 and number in (4, 9):
                next(model.parameters()).grad[0, 0] = float("inf")  # type: ignore[index]
            scaler.step(optimizer)
            scaler.update()
        assert averager.summary().steps == 16, "a skipped step counts"
        with averager.settled():
            assert models.alike_on_all_ranks(models.flat(model))
        averager.set_plan("gradients dense")
        least: dict[
            int, float
        ] = {}  # the smallest scale when updates were left, by the step that uses it
        for number in range(16, 24):
            optimizer.zero_grad()
            loss = loss_of(model, rank, number)
            assert scaler.get_scale() == least.get(number, scaler.get_scale())
            scaler.scale(loss).backward()
            own = torch.tensor([scaler.get_scale()])
            scaler.step(optimizer)
            scaler.update()
            if not least and not averager._attachment.support.driver.is_active:  # type: ignore[union-attr]
                smallest = own.clone()
                dist.all_reduce(smallest, dist.ReduceOp.MIN)
                assert (own > smallest) == (rank == 0)
                least[number + 1] = smallest.item()
        assert least
        assert averager.plan.startswith("gradients")
        assert models.alike_on_all_ranks(torch.tensor([scaler.get_scale()]))
        assert models.alike_on_all_ranks(models.flat(model))
        averager.close()


@on_ranks(2)
def test_loops_that_set_synchronisation_themselves(rank: int) -> None:
    results = []
    for style in ("plain", "attribute", "no_sync"):
        model, optimizer, averager = begin()
        for number in range(8):
            optimizer.zero_grad()
            for part in range(2):
                quiet: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
                if style == "attribute":
                    model.require_backward_grad_sync = part == 1
                elif style == "no_sync" and part == 0:
                    quiet = model.no_sync()  # type: ignore[operator]
                with quiet:
                    loss_of(model, rank, 2 * number + part).backward()
            optimizer.step()
        results.append(models.flat(model))
        averager.close()
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


@on_ranks(2)
def test_gradients_stay_this_ranks_own(rank: int) -> None:
    """Also where DDP does average: its hook gets the buckets, and gives them back as they are."""
    model, _, averager = begin()
    buckets = []
    averager._attachment.support.driver.saw_bucket = lambda: buckets.append(1)  # type: ignore[union-attr,method-assign]
    model.module.register_forward_hook(
        lambda *_: setattr(model, "require_backward_grad_sync", True)
    )
    for number in range(3):
        own = torch.autograd.grad(loss_of(model.module, rank, number), list(model.parameters()))
        model.zero_grad()
        loss_of(model, rank, number).backward()
        for gradient, parameter in zip(own, model.parameters(), strict=True):
            assert torch.equal(gradient, parameter.grad), number  # type: ignore[arg-type]
    assert len(buckets) >= 3
    averager.close()


@on_ranks(2)
def test_closures_schedulers_groups_and_clipping(rank: int) -> None:
    """They act on this rank's own optimizer, where they always did: at every=1, dense and late=0
    that is DDP with SGD, but for clipping."""
    results = []
    for plan in (DENSE, None):
        model = models.ddp(models.mlp())
        layers = list(model.parameters())
        optimizer = torch.optim.SGD(
            [{"params": layers[:2], "lr": 0.03}, {"params": layers[2:], "weight_decay": 0.1}],
            lr=0.01,
            momentum=0.9,
        )
        averager = pliant.attach(model, optimizer, plan) if plan else None
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
        for number in range(8):

            def closure() -> float:
                optimizer.zero_grad()  # noqa: B023
                loss = loss_of(model, rank, number)  # noqa: B023
                loss.backward()
                return loss.item()

            optimizer.step(closure)
            scheduler.step()
        results.append(models.flat(model))
        if averager is not None:
            assert averager.summary().steps == 8
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            norm = torch.cat([parameter.grad.flatten() for parameter in layers]).norm()  # type: ignore[union-attr]
            assert norm <= 0.0101
            before = models.flat(model)
            optimizer.step()
            assert models.flat(model).sub(before).norm() > 0
            averager.close()
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)


@on_ranks(2)
def test_close_and_attach_again(rank: int) -> None:
    model = models.ddp(models.conv())
    optimizer = models.sgd(model)
    for wrapped in (model, model, models.ddp(model.module)):
        averager = pliant.attach(wrapped, optimizer, SOME)
        steps(wrapped, optimizer, rank, 5)
        assert averager.summary().steps == 5
        averager.close()
        assert models.alike_on_all_ranks(models.flat(model))
        assert wrapped.require_backward_grad_sync


@on_ranks(2)
def test_the_profiler_sees_steps_and_settling(rank: int) -> None:
    model, optimizer, averager = begin()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        steps(model, optimizer, rank, 2)
        averager.close()
    names = {event.name for event in profile.events()}
    assert {"pliant::step", "pliant::settle"} <= names, names


@on_ranks(2)
def test_parameters_that_are_tied_frozen_or_unused(rank: int) -> None:
    model = models.ddp(models.Branches(), find_unused_parameters=True)
    optimizer = models.sgd(model)
    frozen, never = model.module.frozen.weight.clone(), model.module.never.weight.clone()
    averager = pliant.attach(model, optimizer, "updates every=1 late=1 dense")
    assert "odd.bias" not in averager.base(), "tied to even.bias, which is there once"
    for number in range(8):
        model.module.choice = rank
        models.step(model, optimizer, rank, number)
        assert models.alike_on_all_ranks(flat_base(averager))
    averager.close()
    assert model.module.odd.bias is model.module.even.bias and models.alike_on_all_ranks(
        models.flat(model)
    )
    assert torch.equal(model.module.frozen.weight, frozen) and torch.equal(
        model.module.never.weight, never
    )


@on_ranks(2)
def test_autograd_notices_what_is_written(rank: int) -> None:
    """A backward through a forward from before a landing would use parameters that are gone."""
    model, optimizer, averager = begin("updates every=2 late=0 dense")
    for number in range(4):
        loss = loss_of(model.module, rank, number)
        optimizer.zero_grad()
        loss_of(model, rank, number).backward()
        for parameter in model.parameters():
            parameter.grad.zero_()  # type: ignore[union-attr]
        versions = [parameter._version for parameter in model.parameters()]
        optimizer.step()
        grown = {
            parameter._version - version
            for parameter, version in zip(model.parameters(), versions, strict=True)
        }
        assert len(grown) == 1 and (grown.pop() > 1) == (number % 2 == 1), number
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    averager.close()


@on_ranks(2)
def test_options_of_ddp(rank: int) -> None:
    for options in (
        {"static_graph": True},
        {"gradient_as_bucket_view": True},
        {"find_unused_parameters": True},
        {"broadcast_buffers": False},
    ):
        model = models.ddp(models.conv(), **options)
        optimizer = models.sgd(model)
        averager = pliant.attach(model, optimizer, SOME)
        steps(model, optimizer, rank, 6)
        assert averager.summary().steps == 6
        assert models.alike_on_all_ranks(flat_base(averager)), options
        averager.set_plan("gradients dense")
        steps(model, optimizer, rank, 4)
        assert models.alike_on_all_ranks(models.flat(model)), options
        averager.close()


@on_ranks(2)
def test_compiled_models_and_steps(rank: int) -> None:
    inner = models.ddp(models.mlp())
    model = torch.compile(inner, backend="aot_eager")
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, SOME)
    steps(model, optimizer, rank, 6)
    assert averager.summary().steps == 6
    assert "0.weight" in averager.base()
    step = torch.compile(optimizer.step, backend="aot_eager")
    for number in range(6, 10):
        optimizer.zero_grad()
        loss_of(model, rank, number).backward()
        step()
    assert averager.summary().steps == 10 and models.alike_on_all_ranks(flat_base(averager))
    averager.close()


@pytest.mark.host  # refused on a device
@on_ranks(2)
def test_uneven_inputs_in_join(rank: int) -> None:
    for order in (0, 1):
        for plan in ("updates every=1 late=0 union density=10%", SOME, DENSE):
            model, optimizer, averager = begin(plan, models.conv)
            joined = [model, averager] if order == 0 else [averager, model]
            with Join(joined):  # type: ignore[arg-type]
                steps(model, optimizer, rank, 4 + 5 * rank)
            assert models.alike_on_all_ranks(models.flat(model)), plan
            assert torch.equal(models.flat(model), flat_base(averager))
            assert averager.summary().steps == 4 + 5 * rank
            averager.close()
    model, optimizer, averager = begin()
    with pytest.raises(pliant.ContractError, match=r"Join\(\[ddp, averager\]\)"), model.join():  # type: ignore[operator]
        steps(model, optimizer, rank, 2)
    averager.close()


@on_ranks(2)
def test_buffers_are_averaged(rank: int) -> None:
    model, optimizer, averager = begin("updates every=2 late=1 dense", models.conv)
    steps(model, optimizer, rank, 7)
    norm = model.module[2]
    assert not models.alike_on_all_ranks(norm.running_mean)
    own = norm.running_mean.clone()
    norm.num_batches_tracked += rank
    with averager.on_base():
        assert models.alike_on_all_ranks(norm.running_mean)
    assert torch.equal(norm.running_mean, own)
    with averager.settled():
        assert models.alike_on_all_ranks(norm.running_mean)
        assert norm.num_batches_tracked == 8
    averager.close()
    model, optimizer, averager = begin("updates every=1 late=0 dense", models.conv, buffers=False)
    steps(model, optimizer, rank, 3)
    assert models.alike_on_all_ranks(models.flat(model))
    assert not models.alike_on_all_ranks(model.module[2].running_mean)
    averager.close()


@on_ranks(2)
def test_buffers_that_stay_are_named(rank: int) -> None:
    module = models.mlp()
    module.register_buffer("wide", torch.zeros(2, dtype=torch.float64))
    module.register_buffer("columns", torch.zeros(4, 4)[:, :2])
    with Messages() as messages:
        begin(SOME, lambda: module)[2].close()
    assert messages.count("stay as they are on each rank: wide, columns") == 1, messages.texts


class Caching(nn.Module):
    """Buffers that change while training runs, each in a way of its own, and one that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = models.mlp()
        self.norm = nn.BatchNorm1d(10)
        self.register_buffer("grown", torch.zeros(4))
        self.register_buffer("resized", torch.zeros(4))
        self.register_buffer("swapped", torch.zeros(4))
        self.register_buffer("narrow", torch.zeros(4))
        self.register_buffer("turned", torch.zeros(2, 3))
        self.register_buffer("dropped", torch.zeros(4))
        self.register_buffer("deleted", torch.zeros(4))
        self.register_buffer("ids", torch.arange(4))
        self.forwards = 0

    def change(self, size: int) -> None:
        self.grown = torch.arange(float(size))
        self.resized.resize_(size)
        self.swapped.data = torch.arange(float(size))
        self.narrow = self.narrow.half()
        self.turned = torch.ones(3, 2).t()
        self.dropped = None
        self._buffers.pop("deleted", None)
        self.ids = torch.arange(size)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(self.norm(inputs))
        return result


CHANGING = ("grown", "resized", "swapped", "narrow", "turned", "dropped", "deleted", "ids")


@on_ranks(2)
def test_buffers_that_change_their_size_stay_on_their_rank(rank: int) -> None:
    for plan in (SOME, DENSE):
        with Messages() as messages:
            model = models.ddp(Caching(), broadcast_buffers=False)
            optimizer = models.sgd(model)
            averager = pliant.attach(model, optimizer, plan)
            for number in range(12):
                if number >= 3 + 3 * rank:  # ranks do so at different times
                    model.module.change(5 + number)
                models.step(model, optimizer, rank, number)
            saved = averager.state_dict()
            with averager.on_base():
                assert models.alike_on_all_ranks(model.module.norm.running_mean)
            with averager.settled():
                assert models.alike_on_all_ranks(model.module.norm.running_mean)
            averager.load_state_dict(saved)
            steps(model, optimizer, rank, 4)
            averager.rebase()
            steps(model, optimizer, rank, 4)
            averager.set_plan("gradients dense")
            steps(model, optimizer, rank, 6)
            assert averager.plan.startswith("gradients")
            averager.close()
        assert models.alike_on_all_ranks(models.flat(model))
        assert torch.equal(model.module.grown, torch.arange(16.0))
        assert torch.equal(model.module.ids, torch.arange(16))
        named = [text for text in messages.texts if "changed their size" in text]
        assert sorted(", ".join(text.rsplit(": ", 1)[1] for text in named).split(", ")) == sorted(
            CHANGING
        ), messages.texts


@on_ranks(2)
def test_buffers_that_become_what_they_were_travel_again(rank: int) -> None:
    model, optimizer, averager = begin("updates every=1 late=0 dense", models.conv)
    norm = model.module[2]
    steps(model, optimizer, rank, 2)
    norm.running_mean = norm.running_mean.double()
    averager.state_dict()
    norm.running_mean = norm.running_mean.float()
    steps(model, optimizer, rank, 2)
    assert models.alike_on_all_ranks(norm.running_mean)
    averager.close()


@on_ranks(2)
def test_training_that_diverges_is_called_that(rank: int) -> None:
    for plan in ("updates every=2 late=1 union density=10%", "updates every=4 late=2 dense"):
        model, optimizer, averager = begin(
            plan, optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=10.0)
        )
        with pytest.raises(pliant.DivergedError, match="training diverged"):
            steps(model, optimizer, rank, 120)
        averager.close()
