# SPDX-License-Identifier: MIT
"""Every way of writing a training loop that pliant must not break, as checks that two ranks run
together."""

from __future__ import annotations

import copy
import logging
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join

import models
import pliant

EVERYTHING = "gradients union density=100% values=f32"  # sparse by name, dense in effect: comparable to plain DDP
SOME = "gradients union density=10% values=f32"


class Messages(logging.Handler):
    """Collects what is logged under "pliant"."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def __enter__(self) -> Messages:
        logging.getLogger("pliant").addHandler(self)
        logging.getLogger("pliant").setLevel(logging.DEBUG)
        return self

    def __exit__(self, *exception: object) -> None:
        logging.getLogger("pliant").removeHandler(self)

    def count(self, words: str) -> int:
        return sum(words in text for text in self.texts)


def close_to(ours: nn.Module, plain: nn.Module, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(
        models.flat(ours), models.flat(plain), rtol=tolerance, atol=tolerance
    )
    assert models.alike_on_all_ranks(models.flat(ours))


def compare(
    rank: int,
    make: object,
    loop: object,
    plan: str = EVERYTHING,
    tolerance: float = 1e-5,
    optimizer: object = models.sgd,
    **options: object,
) -> pliant.Summary:
    """The same loop with plain DDP and with pliant must come to the same parameters."""
    ours, plain = models.ddp(make(), **options), models.ddp(make(), **options)  # type: ignore[operator]
    optimizers = [optimizer(ours), optimizer(plain)]  # type: ignore[operator]
    averager = pliant.attach(ours, optimizers[0], plan)
    loop(ours, optimizers[0], rank)  # type: ignore[operator]
    loop(plain, optimizers[1], rank)  # type: ignore[operator]
    close_to(ours, plain, tolerance)
    summary = averager.summary()
    assert summary.steps > 0 and summary.bytes_sent > 0
    averager.close()
    return summary


def loss_of(model: nn.Module, rank: int, number: int) -> torch.Tensor:
    inputs, targets = models.batch(rank, number)
    return nn.functional.mse_loss(model(inputs).float(), targets)


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int, count: int = 5) -> None:
    for number in range(count):
        models.step(model, optimizer, rank, number)


# --- accumulation of gradients ---


def no_sync(rank: int) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
        for number in range(4):
            optimizer.zero_grad()
            for part in range(3):
                quiet: AbstractContextManager[None] = model.no_sync() if part < 2 else nullcontext()  # type: ignore[operator]
                with quiet:
                    loss_of(model, rank, 3 * number + part).backward()
            optimizer.step()

    assert compare(rank, models.mlp, loop).steps == 4


def two_backwards_before_one_step(rank: int) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
        for number in range(4):
            optimizer.zero_grad()
            for part in range(2):
                loss_of(model, rank, 2 * number + part).backward()
            optimizer.step()

    for view in (False, True):
        assert compare(rank, models.mlp, loop, gradient_as_bucket_view=view).steps == 8
        compare(rank, models.mlp, loop, plan="gradients dense", gradient_as_bucket_view=view)


def the_second_backward_sends_only_what_is_new(rank: int) -> None:
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
            mine = second.grad - after.get(name, zero) + before.get(name, zero)
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


def a_void_second_backward_gives_the_first_back(rank: int) -> None:
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
        torch.testing.assert_close(
            after[name], before.get(name, 0) + own + first[name], rtol=1e-4, atol=1e-6, msg=name
        )
    averager.close()


# --- kinds of models and of DDP ---


class Branches(nn.Module):
    """Some parameters are used on some ranks, some on none, one is frozen, one is used twice, one
    half is tied to another."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.shared = nn.Linear(10, 10)
        self.even, self.odd, self.never = (nn.Linear(10, 2) for _ in range(3))
        self.frozen = nn.Linear(10, 10).requires_grad_(False)
        self.odd.bias = self.even.bias
        self.choice = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.shared(torch.relu(self.shared(self.frozen(inputs))))
        result: torch.Tensor = (self.odd if self.choice % 2 else self.even)(hidden)
        return result


def unused_parameters(rank: int) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
        for number in range(6):
            model.module.choice = number + rank if number < 4 else 0  # type: ignore[union-attr]
            models.step(model, optimizer, rank, number)
        assert model.module.never.weight.grad is None  # type: ignore[union-attr]

    compare(rank, Branches, loop, find_unused_parameters=True)
    compare(rank, Branches, loop, find_unused_parameters=True, gradient_as_bucket_view=True)
    compare(rank, Branches, loop, plan="gradients dense", find_unused_parameters=True)


def what_nobody_uses_keeps_its_residual(rank: int) -> None:
    model = models.ddp(Branches(), find_unused_parameters=True)
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


def static_graph_and_views(rank: int) -> None:
    compare(rank, models.mlp, steps, static_graph=True)
    compare(rank, models.mlp, steps, gradient_as_bucket_view=True, bucket_cap_mb=0.004)
    compare(rank, models.mlp, steps, bucket_cap_mb=0.0001)


def conv() -> nn.Module:
    torch.manual_seed(5)
    layers = nn.Sequential(
        nn.Unflatten(1, (1, 2, 5)),
        nn.Conv2d(1, 4, 2),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 4, (1, 2)),
        nn.Flatten(),
        nn.Linear(12, 2),
    )
    return layers.to(memory_format=torch.channels_last)


def convolutions_with_batch_norm(rank: int) -> None:
    compare(rank, conv, steps, tolerance=1e-4)
    model = models.ddp(conv())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, SOME)
    steps(model, optimizer, rank)
    saved = averager.state_dict()["residual"]
    assert saved["4.weight"].shape == model.module[4].weight.shape
    averager.load_state_dict(averager.state_dict())
    for name, residual in averager.state_dict()["residual"].items():
        assert torch.equal(residual, saved[name])
    averager.close()


def sixteen_bits(rank: int) -> None:
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


def compiled(rank: int) -> None:
    compare(rank, lambda: torch.compile(models.mlp(), backend="aot_eager"), steps, tolerance=1e-4)
    inner = models.ddp(models.mlp())
    model = torch.compile(inner, backend="aot_eager")
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, SOME)
    steps(model, optimizer, rank)
    assert averager.summary().steps == 5
    assert "0.weight" in averager.state_dict()["parameters"]
    averager.close()


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.table = nn.Embedding(50, 10, sparse=True)
        self.head = nn.Linear(10, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.table((inputs[:, 0].abs() * 20).long() % 50))
        return result


def sparse_embeddings_pass_through(rank: int) -> None:
    ours, plain = models.ddp(Words()), models.ddp(Words())
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (ours, plain)]
    averager = pliant.attach(ours, optimizers[0], EVERYTHING)
    steps(ours, optimizers[0], rank)
    steps(plain, optimizers[1], rank)
    close_to(ours, plain)
    assert list(averager.state_dict()["parameters"]) == ["head.weight", "head.bias"]
    averager.close()


def several_models(rank: int) -> None:
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


def closures_schedulers_and_groups(rank: int) -> None:
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


def uneven_inputs(rank: int) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
        with Join([model]):  # type: ignore[list-item]
            steps(model, optimizer, rank, 3 + 2 * rank)

    assert compare(rank, models.mlp, loop).steps == 5


def loss_scaling(rank: int) -> None:
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


def clipping_in_units_of_the_scaled_loss(rank: int) -> None:
    """clip_norm= means the gradient, whatever the loss is multiplied with. Powers of 2, so that
    scaling rounds nothing."""

    def train(scaler: torch.amp.GradScaler | None, selector: str) -> torch.Tensor:
        model = models.ddp(models.mlp(), bucket_cap_mb=0.001)
        optimizer = models.sgd(model)
        averager = pliant.attach(
            model, optimizer, SOME, clip_norm=0.5, scaler=scaler, selector=selector
        )  # type: ignore[arg-type]
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

    for selector in ("native", "torch"):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
        torch.testing.assert_close(
            train(scaler, selector), train(None, selector), rtol=1e-5, atol=1e-6, msg=selector
        )
        assert scaler.get_scale() > 2.0**10


def clipping_where_everything_is_sent(rank: int) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
        for number in range(5):
            optimizer.zero_grad()
            loss_of(model, rank, number).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()

    compare(rank, models.mlp, loop)
    compare(rank, models.mlp, loop, plan="gradients dense")


def clipping_is_noticed(rank: int) -> None:
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


CHECKS = [
    no_sync,
    two_backwards_before_one_step,
    the_second_backward_sends_only_what_is_new,
    a_void_second_backward_gives_the_first_back,
    unused_parameters,
    what_nobody_uses_keeps_its_residual,
    static_graph_and_views,
    convolutions_with_batch_norm,
    sixteen_bits,
    compiled,
    sparse_embeddings_pass_through,
    several_models,
    closures_schedulers_and_groups,
    uneven_inputs,
    loss_scaling,
    clipping_in_units_of_the_scaled_loss,
    clipping_where_everything_is_sent,
    clipping_is_noticed,
]
