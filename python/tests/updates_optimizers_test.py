# SPDX-License-Identifier: MIT
"""Kind updates: any optimizer that does not remember a position."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

import pliant
from support import models
from support.messages import Messages
from support.training import loss_of, steps
from support.updates import DENSE, SOME, begin, flat_base, mean_of
from support.world import on_ranks


class Written(torch.optim.Optimizer):
    """Unseen by anybody: sign of a running mean, and its step() is called through a subclass."""

    def __init__(self, parameters: object) -> None:
        super().__init__(parameters, {"lr": 0.002})  # type: ignore[arg-type]

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    mean = self.state[parameter].setdefault("mean", torch.zeros_like(parameter))
                    mean.lerp_(parameter.grad, 0.1)
                    parameter.add_(mean.sign(), alpha=-group["lr"])


class Child(Written):
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        super().step(closure)


@on_ranks(2)
def test_any_optimizer_works(rank: int) -> None:
    makers = {
        "SGD": lambda p: torch.optim.SGD(
            p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-4
        ),
        "plain SGD": lambda p: torch.optim.SGD(p, lr=0.05),
        "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
        "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.003, momentum=0.5),
        "Adafactor": lambda p: torch.optim.Adafactor(p, lr=0.05),
        "written": Written,
        "child": Child,
    }
    Written(models.mlp().parameters()).step()
    for name, make in makers.items():
        model, optimizer, averager = begin(SOME, optimizer=lambda model: make(model.parameters()))  # noqa: B023
        losses = [models.step(model, optimizer, rank, number) for number in range(60)]
        assert sum(losses[-10:]) < 0.8 * sum(losses[:10]), (name, losses)
        summary = averager.summary()
        assert summary.steps == 60 and summary.rounds == 30, (name, summary)
        assert models.alike_on_all_ranks(flat_base(averager)), name
        averager.close()


@on_ranks(2)
def test_two_optimizers_share_a_model(rank: int) -> None:
    model = models.ddp(models.mlp())
    matrices = [parameter for parameter in model.parameters() if parameter.dim() == 2]
    rest = [parameter for parameter in model.parameters() if parameter.dim() != 2]
    pair = [torch.optim.Muon(matrices, lr=0.02), torch.optim.AdamW(rest, lr=0.01)]
    with pytest.raises(pliant.UnsupportedError, match="parameter 0.bias is in none"):
        pliant.attach(model, pair[0], SOME)
    with pytest.raises(pliant.UnsupportedError, match="parameter 0.weight is in 2 optimizers"):
        pliant.attach(model, [*pair, torch.optim.SGD(matrices, lr=0.1)], SOME)
    averager = pliant.attach(model, pair, SOME)
    losses = []
    for number in range(60):
        for optimizer in pair:
            optimizer.zero_grad()
        loss = loss_of(model, rank, number)
        loss.backward()
        for optimizer in pair:
            optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10]), losses
    assert averager.summary().steps == 60
    averager.close()


@on_ranks(2)
def test_steps_of_adam_are_lengthened(rank: int) -> None:
    """While they last; between them everyone finds the learning rates that were set."""

    def rates_within_steps(
        optimizer_of: object, plan: str = SOME, **options: object
    ) -> tuple[list[float], float]:
        model, optimizer, averager = begin(plan, optimizer=optimizer_of, **options)
        within: list[float] = []
        optimizer.register_step_pre_hook(
            lambda one, args, kwargs: within.append(float(one.param_groups[0]["lr"]))
        )
        for number in range(40):
            rate = optimizer.param_groups[0]["lr"]
            models.step(model, optimizer, rank, number)
            assert float(optimizer.param_groups[0]["lr"]) == pytest.approx(0.01), number
            assert optimizer.param_groups[0]["lr"] is rate or not isinstance(rate, torch.Tensor), (
                "compiled steps hold on to it"
            )
        lengthening = averager.summary().lengthening
        averager.close()
        return within, lengthening

    adam = lambda model: torch.optim.AdamW(model.parameters(), lr=0.01)  # noqa: E731
    tensor = lambda model: torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01))  # noqa: E731
    sgd = lambda model: torch.optim.SGD(model.parameters(), lr=0.01)  # noqa: E731

    def shared(model: nn.Module) -> torch.optim.Optimizer:
        """Groups that have one tensor as their rate, and one group with a rate of its own."""
        rate, each = torch.tensor(0.01), [[one] for one in model.parameters()]
        groups = [{"params": params, "lr": rate} for params in each[:-1]]
        return torch.optim.Adam([*groups, {"params": each[-1], "lr": 0.01}])

    for optimizer_of in (adam, tensor, shared):
        within, lengthening = rates_within_steps(optimizer_of)
        assert within[0] == pytest.approx(0.01), "nothing has landed yet"
        assert within[-1] > 0.0105 and max(within) <= 0.01 * 2**0.5 * 1.0001, within
        assert 1 < lengthening <= 2**0.5
    for calm in (
        rates_within_steps(sgd),
        rates_within_steps(adam, dials={"lengthen": 0}),
        rates_within_steps(adam, "gradients dense"),
    ):
        assert calm[0] == pytest.approx([0.01] * 40) and calm[1] == 1


@on_ranks(2)
def test_a_step_that_fails_leaves_the_rates(rank: int) -> None:
    model, optimizer, averager = begin(
        optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=0.01)
    )
    for number in range(20):
        models.step(model, optimizer, rank, number)
    fails = optimizer.register_step_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        models.step(model, optimizer, rank, 20)
    fails.remove()
    models.step(model, optimizer, rank, 21)
    assert optimizer.param_groups[0]["lr"] == 0.01
    averager.close()


@on_ranks(2)
def test_state_that_some_ranks_do_not_have_is_averaged_with_zero(rank: int) -> None:
    """A parameter that rank 1 never used: back at gradients its state is the mean with 0, counters
    and running maxima are the largest."""
    model = models.ddp(models.Branches(), find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, amsgrad=True)
    averager = pliant.attach(model, optimizer, "updates every=1 late=2 union density=10%")
    for number in range(6):
        model.module.choice = 2 * number if rank == 0 else 1
        models.step(model, optimizer, rank, number)
    weight = model.module.even.weight
    assert (weight in optimizer.state) == (rank == 0)
    if rank == 0:
        optimizer.state[weight]["of another type"] = torch.ones_like(weight, dtype=torch.float64)
    had = (
        {key: value.clone() for key, value in optimizer.state[weight].items()} if rank == 0 else {}
    )
    averager.set_plan("gradients dense")
    with averager.settled():
        assert model.require_backward_grad_sync, "this was the last exchange of updates"
    for name, parameter in model.named_parameters():
        for key, value in sorted(optimizer.state.get(parameter, {}).items()):
            assert models.alike_on_all_ranks(value.reshape(-1).float()), (key, name)
    assert models.alike_on_all_ranks(models.flat(model))
    assert optimizer.state[weight]["of another type"].dtype == torch.float64
    for key, value in had.items():
        expected = value if key in ("step", "max_exp_avg_sq") else value / 2
        torch.testing.assert_close(optimizer.state[weight][key], expected)
    averager.close()


class Scaled(nn.Module):
    """A model with a temperature: a parameter without dimensions."""

    def __init__(self, *, alone: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = models.mlp().requires_grad_(not alone)
        self.temperature = nn.Parameter(torch.tensor(1.0))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.inner(inputs) * self.temperature


def check_a_scalar_parameter(rank: int, name: str, *, alone: bool) -> None:
    """alone: no other parameter is trained."""
    momentum = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    model = models.ddp(Scaled(alone=alone))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = getattr(torch.optim, name)(trained, lr=0.01, **momentum)
    averager = pliant.attach(model, optimizer, "updates every=1 late=0 dense")
    for number in range(3):
        models.step(model, optimizer, rank, number)
    kept = optimizer.state[model.module.temperature]
    had = {key: value.clone() for key, value in kept.items()}
    means = {key: mean_of(value) for key, value in had.items()}
    every: list[dict[str, object]] = [{} for _ in range(2)]
    dist.all_gather_object(every, averager.state_dict())
    place = next(i for i, one in enumerate(trained) if one is model.module.temperature)
    resharded = pliant.reshard(every, 3)[0]["own_optimizers"][0]["state"][place]
    averager.set_plan("gradients dense")
    with averager.settled():
        pass
    assert any(not torch.equal(means[key].float(), had[key]) for key in had), "ranks differ"
    for key, mean in means.items():
        expected = had[key] if key in ("step", "mu_product") else mean.float()
        torch.testing.assert_close(kept[key], expected, msg=f"{name} {key}")
        torch.testing.assert_close(resharded[key], expected, msg=f"{name} {key}, resharded")
    averager.close()


@on_ranks(2)
def test_state_of_a_scalar_parameter_is_averaged(rank: int) -> None:
    """Back at gradients, and in reshard()."""
    for name in ("SGD", "AdamW", "NAdam", "RMSprop"):
        check_a_scalar_parameter(rank, name, alone=False)
        check_a_scalar_parameter(rank, name, alone=True)


@on_ranks(2)
def test_lbfgs_forgets_its_history(rank: int) -> None:
    for late in (0, 1):
        model = models.ddp(models.mlp())
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
        averager = pliant.attach(model, optimizer, f"updates every=2 late={late} dense")
        for number in range(7):

            def closure() -> torch.Tensor:
                optimizer.zero_grad()  # noqa: B023
                loss = loss_of(model, rank, number)  # noqa: B023
                loss.backward()
                return loss

            optimizer.step(closure)  # type: ignore[arg-type]
            held = bool(optimizer.state[optimizer._params[0]])
            # With late=1, what was sent after one step lands after the next.
            assert held == (number == 0 or (late == 0 and number % 2 == 0)), (late, number)
        averager.rebase()
        assert not optimizer.state[optimizer._params[0]]
        averager.close()


@on_ranks(2)
def test_optimizers_that_keep_a_copy_are_refused_by_name(rank: int) -> None:
    model = models.ddp(models.mlp())

    class ScheduleFreeSGD(torch.optim.SGD):
        pass

    class Lookahead:
        def __init__(self, optimizer: torch.optim.Optimizer) -> None:
            self.optimizer = optimizer

    masters = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]
    for optimizer, words in (
        (ScheduleFreeSGD(model.parameters(), lr=0.1), "ScheduleFreeSGD keeps a second copy"),
        (Lookahead(models.sgd(model)), "Lookahead keeps a second copy"),
        (torch.optim.SGD(masters, lr=0.1), "float32 master copy"),
    ):
        with pytest.raises(pliant.UnsupportedError, match=words):
            pliant.attach(model, optimizer, SOME)
    averager = pliant.attach(model, ScheduleFreeSGD(model.parameters(), lr=0.1), "gradients dense")
    with pytest.raises(pliant.UnsupportedError, match="ScheduleFreeSGD"):
        averager.set_plan(SOME)
    averager.close()
    with pytest.raises(pliant.UnsupportedError, match="need the optimizer"):
        pliant.attach(model, None, SOME)
    with pytest.raises(pliant.UnsupportedError, match="pliant.attach"):
        pliant.comm_hook(SOME)
    # An optimizer that steps inside backward.
    inside = models.ddp(models.mlp())
    each = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in inside.parameters()}
    averager = pliant.attach(inside, list(each.values()), SOME)
    for parameter in inside.parameters():
        parameter.register_post_accumulate_grad_hook(lambda parameter: each[parameter].step())
    with pytest.raises(pliant.UnsupportedError, match="inside backward"):
        loss_of(inside, rank, 0).backward()
    averager.close()
    averager = pliant.attach(inside, list(each.values()), "gradients dense")
    loss_of(inside, rank, 0).backward()
    averager.close()


@on_ranks(2)
def test_momentum_is_cleared_where_it_was_sent(rank: int) -> None:
    def smooth() -> nn.Module:
        return nn.Sequential(
            *(
                nn.Tanh() if isinstance(layer, nn.ReLU) else layer
                for layer in models.mlp().children()
            )
        )

    def zeros(plan: str, **options: object) -> int:
        model, optimizer, averager = begin(plan, smooth, **options)  # type: ignore[arg-type]
        for number in range(3):
            models.step(model, optimizer, rank, number)
        held = [
            state.get("momentum_buffer", state.get("exp_avg")) for state in optimizer.state.values()
        ]
        averager.close()
        return sum(int((momentum == 0).sum()) for momentum in held)

    adam = lambda model: torch.optim.AdamW(model.parameters(), lr=0.01)  # noqa: E731
    assert zeros("updates every=1 late=0 union density=1%") >= 10
    assert zeros("updates every=1 late=1 union density=1%") >= 10
    assert (
        zeros("updates every=1 late=0 union density=1%", optimizer=adam, clear_momentum=True) >= 10
    )
    assert zeros("updates every=1 late=0 union density=1%", clear_momentum=False) == 0
    assert zeros("updates every=4 late=0 union density=1%") == 0
    assert zeros("updates every=1 late=0 union density=3%") == 0
    assert zeros("updates every=1 late=0 union density=1%", optimizer=adam) == 0
    rmsprop = lambda model: torch.optim.RMSprop(model.parameters(), lr=0.003, momentum=0.5)  # noqa: E731
    assert zeros("updates every=1 late=0 union density=1%", optimizer=rmsprop) == 0
    assert (
        zeros("updates every=1 late=0 union density=1%", optimizer=rmsprop, clear_momentum=True)
        >= 10
    )


@on_ranks(2)
def test_progress_that_is_not_finite_voids_the_exchange(rank: int) -> None:
    model, optimizer, averager = begin("updates every=1 late=0 union density=10%")
    with Messages() as messages:
        for number in range(8):
            optimizer.zero_grad()
            loss_of(model, rank, number).backward()
            if rank == 1 and number == 3:
                next(model.parameters()).grad[0, 0] = float("nan")  # type: ignore[index]
            optimizer.step()
            assert torch.isfinite(models.flat(model)).all(), number
    assert messages.count("computed infinity or NaN") == (rank == 1), messages.texts
    assert averager.summary().voids == 1
    averager.close()


@on_ranks(2)
def test_rates_are_the_users_after_a_step_that_raised(rank: int) -> None:
    model = models.ddp(models.mlp())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    averager = pliant.attach(model, optimizer, DENSE)
    steps(model, optimizer, rank, 6)
    assert averager.summary().lengthening > 1

    def fails() -> float:
        raise RuntimeError("no loss")

    with pytest.raises(RuntimeError, match="no loss"):
        optimizer.step(fails)
    averager.close()
    assert optimizer.param_groups[0]["lr"] == 1e-3
