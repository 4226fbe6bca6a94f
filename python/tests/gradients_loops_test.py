# SPDX-License-Identifier: MIT
"""Every way of writing a training loop that pliant must not break, as checks that two ranks run
together."""

from __future__ import annotations

import copy
import dataclasses
from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join

import pliant
from support import models
from support.messages import Messages
from support.training import EVERYTHING, SOME, close_to, compare, loss_of, steps
from support.world import on_ranks


# --- what a model returns ---


@dataclasses.dataclass(slots=True)
class Slotted:
    hidden: torch.Tensor
    name: str = "no tensor"


@dataclasses.dataclass
class Plain:
    hidden: torch.Tensor


class Named(NamedTuple):
    hidden: torch.Tensor
    name: str = "no tensor"


class Output(OrderedDict[str, torch.Tensor]):
    """A dict whose keys are attributes too, as Hugging Face's ModelOutput."""

    def __init__(self, hidden: torch.Tensor) -> None:
        super().__init__(hidden=hidden)

    @property
    def hidden(self) -> torch.Tensor:
        return self["hidden"]


@on_ranks(2)
def test_models_may_return_any_object(rank: int) -> None:
    for container in (Slotted, Plain, Named, Output, Opaque):

        def loop(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
            for number in range(3):
                optimizer.zero_grad()
                for part in range(2):
                    inputs, targets = models.batch(rank, 2 * number + part)
                    nn.functional.mse_loss(model(inputs).hidden, targets).backward()
                optimizer.step()

        compare(rank, lambda kind=container: Odd(kind), loop)


class Scaled(nn.Module):
    """Returns one of its parameters beside its output, as CLIP does with its scale."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = models.mlp()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inner(inputs), self.scale


@on_ranks(2)
def test_a_parameter_that_is_returned_collects_no_hooks(rank: int) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
        for number in range(4):
            optimizer.zero_grad()
            inputs, targets = models.batch(rank, number)
            outputs, scale = model(inputs)
            assert scale is model.module.scale  # type: ignore[union-attr]
            nn.functional.mse_loss(scale * outputs, targets).backward()
            optimizer.step()
        assert not model.module.scale._backward_hooks  # type: ignore

    compare(rank, Scaled, loop)


# --- accumulation of gradients ---


@on_ranks(2)
def test_no_sync_accumulates_as_under_ddp(rank: int) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
        for number in range(4):
            optimizer.zero_grad()
            for part in range(3):
                quiet: AbstractContextManager[None] = model.no_sync() if part < 2 else nullcontext()  # type: ignore[operator]
                with quiet:
                    loss_of(model, rank, 3 * number + part).backward()
            optimizer.step()

    assert compare(rank, models.mlp, loop).steps == 4


@on_ranks(2)
def test_two_backwards_before_one_step_add_up(rank: int) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
        for number in range(4):
            optimizer.zero_grad()
            for part in range(2):
                loss_of(model, rank, 2 * number + part).backward()
            optimizer.step()

    for view in (False, True):
        assert compare(rank, models.mlp, loop, gradient_as_bucket_view=view).steps == 8
        compare(rank, models.mlp, loop, plan="gradients dense", gradient_as_bucket_view=view)


@on_ranks(2)
def test_the_second_backward_sends_only_what_is_new(rank: int) -> None:
    """result 2 + change of the residual = the mean of the second gradients, and .grad holds both
    results."""
    for middle in ("nothing", "no_sync", "zero after forward"):
        module = models.mlp()
        ddp = models.ddp(module)
        averager = pliant.attach(ddp, None, SOME)
        for number in range(3):
            ddp.zero_grad()
            loss_of(ddp, rank, number).backward()
        first = [parameter.grad.clone() for parameter in ddp.parameters()]  # type: ignore[union-attr]
        before = averager.state_dict()["residual"]
        twin = copy.deepcopy(module)
        twin.zero_grad()
        if middle == "no_sync":
            with ddp.no_sync():
                loss_of(ddp, rank, 10).backward()
            loss_of(twin, rank, 10).backward()
        loss = loss_of(ddp, rank, 11)
        if middle == "zero after forward":
            ddp.zero_grad(set_to_none=rank == 0)
            first = [torch.zeros_like(gradient) for gradient in first]
        loss.backward()
        loss_of(twin, rank, 11).backward()
        after = averager.state_dict()["residual"]
        sent = entries = 0
        for (name, parameter), second, old in zip(
            module.named_parameters(), twin.parameters(), first, strict=True
        ):
            assert parameter.grad is not None and second.grad is not None
            zero = torch.zeros_like(parameter)
            unsent = after.get(name, zero).to(zero) - before.get(name, zero).to(zero)
            mine = second.grad - unsent
            dist.all_reduce(mine)
            torch.testing.assert_close(
                parameter.grad - old,
                mine / dist.get_world_size(),
                rtol=1e-4,
                atol=1e-6,
                msg=f"{middle}: {name}",
            )
            entries += parameter.numel()
            sent += int(((parameter.grad - old).abs() > 1e-6).sum())
        assert sent < 0.5 * entries, "most of it was sent"
        averager.close()


def penalized(model: nn.Module, rank: int, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A loss, and the penalty on the slope of the model at its inputs (WGAN-GP)."""
    inputs, targets = models.batch(rank, number)
    inputs.requires_grad_()
    outputs = model(inputs)
    (slope,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
    return nn.functional.mse_loss(outputs, targets), (slope.norm(dim=1) - 1).square().mean()


def smooth() -> nn.Module:
    """Its slope depends on all of its parameters."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 2, bias=False))


class Opaque:
    """An output of a model that shows nobody its tensors."""

    __slots__ = ("hidden",)

    def __init__(self, hidden: torch.Tensor) -> None:
        self.hidden = hidden


class Odd(nn.Module):
    """Returns its output inside `container`, or keeps it in an attribute."""

    def __init__(self, container: object) -> None:
        super().__init__()
        self.inner = models.mlp()
        self.container = container
        self.kept: torch.Tensor | None = None

    def forward(self, inputs: torch.Tensor) -> object:
        self.kept = self.inner(inputs)
        return self.container(self.kept)  # type: ignore[operator]


@on_ranks(2)
def test_gradients_that_are_cleared_late_are_not_taken_for_kept_ones(rank: int) -> None:
    """zero_grad() between forward and backward, with everything that may come between them, is
    zero_grad() before forward."""

    def penalty_too(model: nn.Module, number: int, clear: object) -> None:
        loss, penalty = penalized(model, rank, number)
        clear()  # type: ignore[operator]
        (loss + penalty).backward()

    def penalty_alone(model: nn.Module, number: int, clear: object) -> None:
        _, penalty = penalized(model, rank, number)
        clear()  # type: ignore[operator]
        penalty.backward()

    def look_at_gradients(model: nn.Module, number: int, clear: object) -> None:
        loss = loss_of(model, rank, number)
        torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
        clear()  # type: ignore[operator]
        loss.backward()

    def opaque_output(model: nn.Module, number: int, clear: object) -> None:
        inputs, targets = models.batch(rank, number)
        hidden = model(inputs).hidden
        clear()  # type: ignore[operator]
        nn.functional.mse_loss(hidden, targets).backward()

    def kept_output(model: nn.Module, number: int, clear: object) -> None:
        inputs, targets = models.batch(rank, number)
        model(inputs)
        clear()  # type: ignore[operator]
        nn.functional.mse_loss(model.module.kept, targets).backward()  # type: ignore

    def nothing(output: torch.Tensor) -> None:
        return None

    for part, make in (
        (penalty_too, models.mlp),
        (penalty_alone, smooth),
        (look_at_gradients, models.mlp),
        (opaque_output, lambda: Odd(Opaque)),
        (kept_output, lambda: Odd(nothing)),
    ):
        ends = []
        for late in (False, True):
            model = models.ddp(make())  # type: ignore[no-untyped-call]
            optimizer = models.sgd(model)
            averager = pliant.attach(model, optimizer, SOME)
            for number in range(4):
                if not late:
                    optimizer.zero_grad()
                part(model, number, optimizer.zero_grad if late else lambda: None)
                optimizer.step()
            averager.close()
            ends.append(models.flat(model))
        assert torch.equal(*ends), part.__name__


@on_ranks(2)
def test_gradients_that_no_backward_reached_are_not_sent_again(rank: int) -> None:
    """A branch is used in the first backward of a step and not in the second: what its bucket holds
    then was averaged already."""

    def loop(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
        for number in range(4):
            optimizer.zero_grad()
            for part in range(2):
                model.module.choice = part  # type: ignore[union-attr]
                loss_of(model, rank, 2 * number + part).backward()
            optimizer.step()

    for view in (False, True):
        compare(
            rank,
            models.Branches,
            loop,
            find_unused_parameters=True,
            gradient_as_bucket_view=view,
            tolerance=1e-4,
        )


@on_ranks(2)
def test_a_void_second_backward_gives_the_first_back(rank: int) -> None:
    """Whoever sees NaN skips the step, and the average of the first backward with it: that goes to
    everybody's residual."""
    module = models.mlp()
    ddp = models.ddp(module)
    averager = pliant.attach(ddp, None, SOME)
    for number in range(3):
        ddp.zero_grad()
        loss_of(ddp, rank, number).backward()
    first = {name: parameter.grad.clone() for name, parameter in module.named_parameters()}  # type: ignore[union-attr]
    before = averager.state_dict()["residual"]
    twin = copy.deepcopy(module)
    twin.zero_grad()
    inputs, targets = models.batch(rank, 11)
    if rank == 1:
        inputs[0, 0] = torch.inf
    nn.functional.mse_loss(ddp(inputs), targets).backward()
    nn.functional.mse_loss(twin(inputs), targets).backward()
    after = averager.state_dict()["residual"]
    for name, parameter in twin.named_parameters():
        assert module.get_parameter(name).grad.isnan().all()  # type: ignore[union-attr]
        assert parameter.grad is not None
        own = parameter.grad.where(parameter.grad.isfinite(), 0)
        old = before[name].to(own) if name in before else torch.zeros_like(own)
        torch.testing.assert_close(
            after[name].to(own), old + own + first[name], rtol=1e-4, atol=1e-6, msg=name
        )
    averager.close()


# --- kinds of models and of DDP ---


@on_ranks(2)
def test_parameters_that_some_ranks_do_not_use(rank: int) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
        for number in range(6):
            model.module.choice = number + rank if number < 4 else 0  # type: ignore[union-attr]
            models.step(model, optimizer, rank, number)
        assert model.module.never.weight.grad is None  # type: ignore[union-attr]

    compare(rank, models.Branches, loop, find_unused_parameters=True)
    compare(rank, models.Branches, loop, find_unused_parameters=True, gradient_as_bucket_view=True)
    compare(rank, models.Branches, loop, plan="gradients dense", find_unused_parameters=True)


@on_ranks(2)
def test_what_nobody_uses_keeps_its_residual(rank: int) -> None:
    model = models.ddp(models.Branches(), find_unused_parameters=True)
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, SOME)
    for number in range(4):
        model.module.choice = 1
        models.step(model, optimizer, rank, number)
    rest = averager.state_dict()["residual"]["odd.weight"].clone()
    assert rest.abs().sum() > 0
    for number in range(4, 8):
        model.module.choice = 0
        models.step(model, optimizer, rank, number)
    assert torch.equal(averager.state_dict()["residual"]["odd.weight"], rest)
    averager.close()


@on_ranks(2)
def test_static_graph_bucket_views_and_tiny_buckets(rank: int) -> None:
    compare(rank, models.mlp, steps, static_graph=True)
    compare(rank, models.mlp, steps, gradient_as_bucket_view=True, bucket_cap_mb=0.004)
    compare(rank, models.mlp, steps, bucket_cap_mb=0.0001)


@on_ranks(2)
def test_convolutions_with_batch_norm(rank: int) -> None:
    compare(rank, models.conv, steps, tolerance=1e-4)
    model = models.ddp(models.conv())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, SOME)
    steps(model, optimizer, rank)
    saved = averager.state_dict()["residual"]
    assert saved["4.weight"].shape == model.module[4].weight.shape
    averager.load_state_dict(averager.state_dict())
    restored = averager.state_dict()["residual"]
    assert restored.keys() == saved.keys()
    for name, residual in restored.items():
        assert torch.equal(residual, saved[name])
    averager.close()


@on_ranks(2)
def test_sixteen_bit_parameters_stay_alike(rank: int) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        model = models.ddp(models.mlp().to(dtype))
        optimizer = models.sgd(model)
        averager = pliant.attach(model, optimizer, SOME)
        for number in range(5):
            inputs, targets = models.batch(rank, number)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs.to(dtype)).float(), targets).backward()
            optimizer.step()
            assert next(model.parameters()).grad.dtype == dtype  # type: ignore[union-attr]
        assert models.alike_on_all_ranks(models.flat(model))
        assert averager.state_dict()["residual"]["0.weight"].dtype == torch.float32
        averager.close()


@on_ranks(2)
def test_compiled_models(rank: int) -> None:
    compare(rank, lambda: torch.compile(models.mlp(), backend="aot_eager"), steps, tolerance=1e-4)
    inner = models.ddp(models.mlp())
    model = torch.compile(inner, backend="aot_eager")
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, SOME)
    steps(model, optimizer, rank)
    assert averager.summary().steps == 5
    assert "0.weight" in averager.state_dict()["parameters"]
    averager.close()


@pytest.mark.host  # the late device has no kernels for sparse tensors
@on_ranks(2)
def test_sparse_embeddings_pass_through(rank: int) -> None:
    ours, plain = models.ddp(models.Words()), models.ddp(models.Words())
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (ours, plain)]
    averager = pliant.attach(ours, optimizers[0], EVERYTHING)
    steps(ours, optimizers[0], rank)
    steps(plain, optimizers[1], rank)
    close_to(ours, plain)
    assert list(averager.state_dict()["parameters"]) == ["head.weight", "head.bias"]
    averager.close()


@on_ranks(2)
def test_two_models_in_one_backward(rank: int) -> None:
    pair = [models.ddp(models.mlp(seed)) for seed in (1, 2)]
    plain = [models.ddp(models.mlp(seed)) for seed in (1, 2)]
    averagers = [pliant.attach(model, None, EVERYTHING) for model in pair]
    for group in (pair, plain):
        optimizers = [models.sgd(model) for model in group]
        for number in range(4):
            for optimizer in optimizers:
                optimizer.zero_grad()
            (loss_of(group[0], rank, number) + loss_of(group[1], rank, number)).backward()
            for optimizer in optimizers:
                optimizer.step()
    for ours, theirs, averager in zip(pair, plain, averagers, strict=True):
        close_to(ours, theirs)
        averager.close()


# --- kinds of loops ---


@on_ranks(2)
def test_closures_schedulers_and_groups(rank: int) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        for number in range(5):

            def closure() -> float:
                optimizer.zero_grad()
                loss = loss_of(model, rank, number)  # noqa: B023
                loss.backward()
                return loss.item()

            optimizer.step(closure)
            scheduler.step()

    def in_groups(model: nn.Module) -> torch.optim.Optimizer:
        layers = list(model.parameters())
        return torch.optim.SGD(
            [{"params": layers[:2], "lr": 0.03}, {"params": layers[2:], "weight_decay": 0.1}],
            lr=0.01,
            momentum=0.9,
        )

    assert compare(rank, models.mlp, loop, optimizer=in_groups).steps == 5


@on_ranks(2)
def test_uneven_inputs_in_join(rank: int) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
        with Join([model]):  # type: ignore[list-item]
            steps(model, optimizer, rank, 3 + 2 * rank)

    assert compare(rank, models.mlp, loop).steps == 5


@on_ranks(2)
def test_loss_scaling_survives_an_overflow(rank: int) -> None:
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=3)
    averager = pliant.attach(model, optimizer, SOME, scaler=scaler)
    with Messages() as messages:
        sizes = []
        for number in range(10):
            inputs, targets = models.batch(rank, number)
            if number == 5 and rank == 1:
                inputs[0, 0] = torch.inf
            optimizer.zero_grad()
            scaler.scale(nn.functional.mse_loss(model(inputs), targets)).backward()
            scaler.step(optimizer)
            scaler.update()
            state = averager.state_dict()
            sizes.append(sum(float(r.norm()) for r in state["residual"].values()) / state["scale"])
    assert scaler.get_scale() != 2.0**16
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
    assert max(sizes[1:]) < 20 * min(sizes[1:]), sizes
    assert averager.summary().voids > 0
    assert messages.count("clip_norm") == 0, messages.texts
    assert models.alike_on_all_ranks(models.flat(model))
    averager.close()


@on_ranks(2)
def test_clipping_in_units_of_the_scaled_loss(rank: int) -> None:
    """clip_norm= means the gradient, whatever the loss is multiplied with. Powers of 2, so that
    scaling rounds nothing."""

    def train(scaler: torch.amp.GradScaler | None) -> torch.Tensor:
        model = models.ddp(models.mlp(), bucket_cap_mb=0.001)
        optimizer = models.sgd(model)
        averager = pliant.attach(model, optimizer, SOME, clip_norm=0.5, scaler=scaler)
        for number in range(6):
            optimizer.zero_grad()
            loss = loss_of(model, rank, number)
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        averager.close()
        return models.flat(model)

    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
    torch.testing.assert_close(train(scaler), train(None), rtol=1e-5, atol=1e-6)
    assert scaler.get_scale() > 2.0**10


@on_ranks(2)
def test_clipping_where_everything_is_sent(rank: int) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
        for number in range(5):
            optimizer.zero_grad()
            loss_of(model, rank, number).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()

    compare(rank, models.mlp, loop)
    compare(rank, models.mlp, loop, plan="gradients dense")


@pytest.mark.host  # looking at gradients would wait for a device in every step
@on_ranks(2)
def test_clipping_is_noticed(rank: int) -> None:
    for plan, attached, expected in (
        (SOME, True, 1),
        (SOME, False, 1),
        ("gradients dense", True, 0),
    ):
        model = models.ddp(models.mlp())
        optimizer = models.sgd(model)
        averager = pliant.attach(model, optimizer if attached else None, plan)
        with Messages() as messages:
            for number in range(4):
                optimizer.zero_grad()
                loss_of(model, rank, number).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.01)
                optimizer.step()
        assert messages.count("clip_norm=") == expected, messages.texts
        averager.close()
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, SOME, clip_norm=0.01)
    with Messages() as messages:
        steps(model, optimizer, rank)
    assert messages.count("clip_norm=") == 0
    averager.close()
