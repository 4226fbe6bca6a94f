# SPDX-License-Identifier: MIT
"""Kind updates, as checks that two ranks run together."""

from __future__ import annotations

import contextlib
import copy
import pickle

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join

import models
import pliant
from loops import Messages, conv, loss_of, steps

SOME = "updates every=2 late=1 union density=10% values=f32"
DENSE = "updates every=1 late=0 dense"


def begin(plan: str = SOME, make: object = models.mlp, optimizer: object = models.sgd, **options: object) -> tuple[nn.Module, torch.optim.Optimizer, pliant.Averager]:
    model = models.ddp(make())  # type: ignore[operator]
    chosen = optimizer(model)  # type: ignore[operator]
    return model, chosen, pliant.attach(model, chosen, plan, **options)  # type: ignore[arg-type]


def flat_base(averager: pliant.Averager) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in averager.base().values()])


def mean_of(tensor: torch.Tensor) -> torch.Tensor:
    total = tensor.double()
    dist.all_reduce(total)
    return total / dist.get_world_size()


def residual_of(averager: pliant.Averager) -> torch.Tensor:
    state = averager.state_dict(parameters=False, optimizers=False)
    return torch.cat([state["residual"].get(name, torch.zeros(shape)).flatten() for name, shape in state["parameters"].items()])


class Progress:
    """What an optimizer alone did to the parameters."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._model = model
        self._before = self.by_the_last_step = torch.zeros(0)
        optimizer.register_step_pre_hook(self._note)
        optimizer.register_step_post_hook(self._compare)

    def _note(self, *_: object) -> None:
        self._before = models.flat(self._model)

    def _compare(self, *_: object) -> None:
        self.by_the_last_step = models.flat(self._model) - self._before


# --- the arithmetic ---


def sgd_dense_every_step_is_ddp(rank: int) -> None:
    ours, plain = models.ddp(models.mlp()), models.ddp(models.mlp())
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3, nesterov=True) for model in (ours, plain)]
    averager = pliant.attach(ours, optimizers[0], DENSE)
    for number in range(200):
        models.step(ours, optimizers[0], rank, number)
        models.step(plain, optimizers[1], rank, number)
    torch.testing.assert_close(models.flat(ours), models.flat(plain), rtol=1e-3, atol=1e-4)
    assert models.alike_on_all_ranks(models.flat(ours))
    averager.close()


def nothing_is_lost(rank: int) -> None:
    """The mean over ranks of (parameters + residual) changes by optimizer steps only, and the base is the same everywhere."""
    plans = (
        "updates every=1 late=4 srs density=10% values=f16",
        "updates every=1 late=0 shared/star density=10%",
        "updates every=2 late=4 dense",
        "updates every=3 late=1 union density=5% values=int4",
    )
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    made = Progress(model, optimizer)  # its hook comes before pliant's
    averager = pliant.attach(model, optimizer, "updates every=1 late=8 union density=5% values=int8")
    expected = mean_of(models.flat(model))
    for number in range(60):
        if number % 12 == 11:
            averager.set_plan(plans[number // 12 % len(plans)])
        models.step(model, optimizer, rank, number)
        expected += mean_of(made.by_the_last_step)
        torch.testing.assert_close(mean_of(models.flat(model) + residual_of(averager)), expected, rtol=1e-4, atol=1e-5, msg=lambda text: f"step {number}: {text}")  # noqa: B023
        assert models.alike_on_all_ranks(flat_base(averager)), number
    with averager.settled():
        assert models.alike_on_all_ranks(models.flat(model))
        assert torch.equal(models.flat(model), flat_base(averager))
    averager.close()


def right_after_sending_only_own_parts_differ_from_the_base(rank: int) -> None:
    model, optimizer, averager = begin("updates every=2 late=2 union density=5% values=f32")
    for number in range(12):
        models.step(model, optimizer, rank, number)
        if number % 2 == 1:
            differ = (models.flat(model) != flat_base(averager)).float().mean()
            assert 0 < differ <= 0.11, (number, differ)  # of at most two exchanges
    averager.close()


def the_base_is_alike_through_changes_of_plan_and_kind(rank: int) -> None:
    inputs, targets = models.batch(9, 9, size=512)
    calm = lambda model: torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)  # noqa: E731
    for optimizer_of in (calm, lambda model: torch.optim.AdamW(model.parameters(), lr=0.005)):
        model, optimizer, averager = begin("updates every=1 late=8 union density=10%", conv, optimizer_of)
        losses = [nn.functional.mse_loss(model.module(inputs), targets).item()]
        number = 0
        for plan in (
            "updates every=1 late=4 union density=10%",
            "updates every=1 late=0 union density=10%",
            "updates every=2 late=4 srs density=10% values=int8",
            "gradients union density=20%",
            "updates every=4 late=1 union density=20% values=int8",
            "gradients dense",
            DENSE,
        ):
            averager.set_plan(plan)
            for _ in range(12):
                batch = models.batch(rank, number, size=128)
                optimizer.zero_grad()
                nn.functional.mse_loss(model(batch[0]), batch[1]).backward()
                optimizer.step()
                number += 1
                assert models.alike_on_all_ranks(flat_base(averager)), (plan, number)
            if plan.startswith("gradients"):
                assert averager.plan.startswith("gradients")
                assert models.alike_on_all_ranks(models.flat(model)), plan
                assert model.require_backward_grad_sync
                for _, parameter, key, state in pliant.optimizers.Optimizers(optimizer).tensors():
                    assert models.alike_on_all_ranks(state.reshape(-1)), (plan, key, parameter.shape)
            else:
                assert averager.plan.startswith("updates")
                assert not model.require_backward_grad_sync
            with averager.on_base(), torch.no_grad():
                losses.append(nn.functional.mse_loss(model.module(inputs), targets).item())
            assert losses[-1] < 1.2 * min(losses), f"a spike: {losses}"
        averager.close()


# --- optimizers ---


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


def any_optimizer_works(rank: int) -> None:
    makers = {
        "SGD": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-4),
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
        assert summary.own_steps == 60 and summary.steps == 30, (name, summary)
        assert models.alike_on_all_ranks(flat_base(averager)), name
        averager.close()


def two_optimizers(rank: int) -> None:
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
    assert averager.summary().own_steps == 60
    averager.close()


def lbfgs_forgets_its_history(rank: int) -> None:
    model = models.ddp(models.mlp())
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    averager = pliant.attach(model, optimizer, "updates every=2 late=0 dense")
    for number in range(6):

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, rank, number)  # noqa: B023
            loss.backward()
            return loss

        optimizer.step(closure)  # type: ignore[arg-type]
        held = bool(optimizer.state[optimizer._params[0]])
        assert held == (number % 2 == 0), number
    averager.close()


def refused_by_name(rank: int) -> None:
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
    half = models.ddp(models.mlp().to(torch.bfloat16))
    with pytest.raises(pliant.UnsupportedError, match="parameter 0.weight is torch.bfloat16.*torch.autocast"):
        pliant.attach(half, models.sgd(half), SOME)
    # An optimizer that steps inside backward.
    inside = models.ddp(models.mlp())
    each = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in inside.parameters()}
    averager = pliant.attach(inside, list(each.values()), SOME)
    for parameter in inside.parameters():
        parameter.register_post_accumulate_grad_hook(lambda parameter: each[parameter].step())
    with pytest.raises(pliant.UnsupportedError, match="inside backward"):
        loss_of(inside, rank, 0).backward()
    averager.close()


def momentum_is_cleared_where_it_was_sent(rank: int) -> None:
    def smooth() -> nn.Module:
        return nn.Sequential(*(nn.Tanh() if isinstance(layer, nn.ReLU) else layer for layer in models.mlp().children()))

    def zeros(plan: str, **options: object) -> int:
        model, optimizer, averager = begin(plan, smooth, **options)  # type: ignore[arg-type]
        for number in range(3):
            models.step(model, optimizer, rank, number)
        held = [state.get("momentum_buffer", state.get("exp_avg")) for state in optimizer.state.values()]
        averager.close()
        return sum(int((momentum == 0).sum()) for momentum in held)

    adam = lambda model: torch.optim.AdamW(model.parameters(), lr=0.01)  # noqa: E731
    assert zeros("updates every=1 late=0 union density=1%") >= 10
    assert zeros("updates every=1 late=1 union density=1%") >= 10
    assert zeros("updates every=1 late=0 union density=1%", optimizer=adam, clear_momentum=True) >= 10
    assert zeros("updates every=1 late=0 union density=1%", clear_momentum=False) == 0
    assert zeros("updates every=4 late=0 union density=1%") == 0
    assert zeros("updates every=1 late=0 union density=3%") == 0
    assert zeros("updates every=1 late=0 union density=1%", optimizer=adam) == 0


def progress_that_is_not_finite(rank: int) -> None:
    model, optimizer, averager = begin("updates every=1 late=0 union density=10%")
    with Messages() as messages:
        for number in range(8):
            optimizer.zero_grad()
            loss_of(model, rank, number).backward()
            if rank == 1 and number == 3:
                next(model.parameters()).grad[0, 0] = float("nan")  # type: ignore[index]
            optimizer.step()
            assert torch.isfinite(models.flat(model)).all(), number
    assert messages.count("was not finite") == (rank == 1), messages.texts
    assert averager.summary().voids == 1
    averager.close()


# --- loops ---


def a_scaler_skips_a_step_on_one_rank(rank: int) -> None:
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
        assert averager.summary().own_steps == 16 - 2 * rank
        with averager.settled():
            assert models.alike_on_all_ranks(models.flat(model))
        averager.set_plan("gradients dense")
        for number in range(16, 24):
            optimizer.zero_grad()
            scaler.scale(loss_of(model, rank, number)).backward()
            scaler.step(optimizer)
            scaler.update()
        assert averager.plan.startswith("gradients")
        assert models.alike_on_all_ranks(torch.tensor([scaler.get_scale()]))
        assert models.alike_on_all_ranks(models.flat(model))
        averager.close()


def loops_that_set_synchronisation_themselves(rank: int) -> None:
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


def kinds_of_ddp(rank: int) -> None:
    for options in ({"static_graph": True}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}, {"broadcast_buffers": False}):
        model = models.ddp(conv(), **options)
        optimizer = models.sgd(model)
        averager = pliant.attach(model, optimizer, SOME)
        steps(model, optimizer, rank, 6)
        assert averager.summary().own_steps == 6
        assert models.alike_on_all_ranks(flat_base(averager)), options
        averager.set_plan("gradients dense")
        steps(model, optimizer, rank, 4)
        assert models.alike_on_all_ranks(models.flat(model)), options
        averager.close()


def compiled(rank: int) -> None:
    inner = models.ddp(models.mlp())
    model = torch.compile(inner, backend="aot_eager")
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, SOME)
    steps(model, optimizer, rank, 6)
    assert averager.summary().own_steps == 6
    assert "0.weight" in averager.base()
    averager.close()


def uneven_inputs(rank: int) -> None:
    for order in (0, 1):
        for plan in ("updates every=1 late=0 union density=10%", SOME, DENSE):
            model, optimizer, averager = begin(plan, conv)
            joined = [model, averager] if order == 0 else [averager, model]
            with Join(joined):  # type: ignore[arg-type]
                steps(model, optimizer, rank, 4 + 5 * rank)
            assert models.alike_on_all_ranks(models.flat(model)), plan
            assert torch.equal(models.flat(model), flat_base(averager))
            assert averager.summary().own_steps == 4 + 5 * rank
            averager.close()
    model, optimizer, averager = begin()
    with pytest.raises(pliant.ContractError, match=r"Join\(\[ddp, averager\]\)"), model.join():  # type: ignore[operator]
        steps(model, optimizer, rank, 2)
    averager.close()


def buffers_travel(rank: int) -> None:
    model, optimizer, averager = begin("updates every=2 late=1 dense", conv)
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
    model, optimizer, averager = begin("updates every=1 late=0 dense", conv, buffers=False)
    steps(model, optimizer, rank, 3)
    assert models.alike_on_all_ranks(models.flat(model))
    assert not models.alike_on_all_ranks(model.module[2].running_mean)
    averager.close()


def sync_batch_norm_is_warned_about(rank: int) -> None:
    layers = nn.Sequential(nn.Linear(10, 4), nn.SyncBatchNorm(4), nn.Linear(4, 2))
    with Messages() as messages, contextlib.suppress(ValueError):  # there is none for CPUs
        model = models.ddp(layers)
        pliant.attach(model, models.sgd(model), SOME).close()
        assert messages.count("SyncBatchNorm") == 1, messages.texts


# --- for people ---


def evaluate_and_save_on_one_rank(rank: int) -> None:
    model, optimizer, averager = begin()
    steps(model, optimizer, rank, 5)
    if rank == 0:
        live = models.flat(model)
        with averager.on_base(), torch.no_grad():
            assert torch.equal(models.flat(model), flat_base(averager))
            model.eval()
            model(models.batch(0, 0)[0])
            saved = copy.deepcopy(model.module.state_dict())
            model.train()
            assert not torch.equal(models.flat(model), live)
        assert torch.equal(models.flat(model), live)
        assert torch.equal(saved["0.weight"], averager.base()["0.weight"])
    copy.deepcopy(model.module).load_state_dict(model.module.state_dict())  # as for an average of the weights
    pickle.loads(pickle.dumps(model.module))
    steps(model, optimizer, rank, 5)
    with averager.on_base(), pytest.raises(pliant.ContractError, match="on_base"):
        models.step(model, optimizer, rank, 0)
    averager.close()
    assert models.alike_on_all_ranks(models.flat(model)), "closing settles"


def loading_demands_rebase(rank: int) -> None:
    other = {name: value + rank for name, value in models.mlp(seed=5).state_dict().items()}
    for part in (False, True):
        model, optimizer, averager = begin("updates every=1 late=2 union density=10%")
        steps(model, optimizer, rank, 4)
        if part:
            model.module[0].load_state_dict({name.removeprefix("0."): value for name, value in other.items() if name.startswith("0.")})
        else:
            model.module.load_state_dict(other)
        with pytest.raises(pliant.ContractError, match=r"averager.rebase\(\)"):
            steps(model, optimizer, rank, 1)
        model.module.load_state_dict(other)
        averager.rebase()
        assert torch.equal(averager.base()["0.weight"], models.mlp(seed=5)[0].weight)
        assert models.alike_on_all_ranks(models.flat(model))
        steps(model, optimizer, rank, 4)
        assert models.alike_on_all_ranks(flat_base(averager))
        averager.close()


def learning_rates_that_differ_are_warned_about(rank: int) -> None:
    model, optimizer, averager = begin("updates every=1 late=1 dense")
    optimizer.param_groups[0]["lr"] *= 1 + rank
    with Messages() as messages:
        steps(model, optimizer, rank, 6)
    assert messages.count("learning rates") == 1, messages.texts
    averager.close()


def memory_in_the_summary(rank: int) -> None:
    model, optimizer, averager = begin("updates every=1 late=2 dense")
    steps(model, optimizer, rank, 6)
    memory = averager.summary().memory
    assert memory.base == 4 and memory.residual >= 4 and memory.in_flight == 16, memory
    averager.close()


# --- state ---


def resume(rank: int) -> None:
    """Bit for bit, with exchanges in flight, whatever else is restored before or after."""
    adam = lambda model: torch.optim.AdamW(model.parameters(), lr=0.01)  # noqa: E731
    for plan, optimizer_of in (("updates every=1 late=3 union density=10% values=int8", models.sgd), ("updates every=2 late=2 dense", adam), (SOME, adam)):
        model, optimizer, averager = begin(plan, conv, optimizer_of)
        for number in range(15):
            if number == 8:
                saved = averager.state_dict()
                weights, state = copy.deepcopy(model.module.state_dict()), copy.deepcopy(optimizer.state_dict())
            models.step(model, optimizer, rank, number)
        for order in ("only", "before", "after", "rank 0's after"):
            other, second, resumed = begin(plan, conv, optimizer_of)
            if order == "before":
                other.module.load_state_dict(weights)
                second.load_state_dict(copy.deepcopy(state))
            resumed.load_state_dict(saved)
            if order == "rank 0's after":
                held = [weights, state]
                dist.broadcast_object_list(held, 0)
                weights_0, state_0 = held
                other.module.load_state_dict(weights_0)
                second.load_state_dict(state_0)
            if order == "after":
                other.module.load_state_dict(weights)
                second.load_state_dict(copy.deepcopy(state))
            for number in range(8, 15):
                models.step(other, second, rank, number)
            assert torch.equal(models.flat(other), models.flat(model)), (plan, order)
            for name, buffer in other.module.named_buffers():
                assert torch.equal(buffer, model.module.get_buffer(name)), (plan, order, name)
            assert torch.equal(flat_base(resumed), flat_base(averager))
            resumed.close()
        averager.close()


def another_number_of_ranks(rank: int) -> None:
    model, optimizer, averager = begin("updates every=1 late=2 union density=10%", conv)
    steps(model, optimizer, rank, 7)
    mine = averager.state_dict()
    every: list[dict[str, object]] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(every, mine)
    beyond = mean_of(models.flat(model) + residual_of(averager))
    new = pliant.reshard(every, 3)
    for state in new:
        assert state["world_size"] == 3 and state["in_flight"] == []
        for name, base in state["base"].items():
            assert torch.equal(base, state["own_parameters"][name])
    total = torch.cat([(new[0]["own_parameters"][name] + new[0]["residual"][name]).flatten() for name in new[0]["parameters"]])
    torch.testing.assert_close(total.double(), beyond, rtol=1e-4, atol=1e-6)
    with averager.settled():
        pass
    averager.load_state_dict(pliant.reshard(every, dist.get_world_size())[rank])
    assert models.alike_on_all_ranks(models.flat(model))
    steps(model, optimizer, rank, 4)
    assert models.alike_on_all_ranks(flat_base(averager))
    averager.close()


CHECKS = [
    sgd_dense_every_step_is_ddp,
    nothing_is_lost,
    right_after_sending_only_own_parts_differ_from_the_base,
    the_base_is_alike_through_changes_of_plan_and_kind,
    any_optimizer_works,
    two_optimizers,
    lbfgs_forgets_its_history,
    refused_by_name,
    momentum_is_cleared_where_it_was_sent,
    progress_that_is_not_finite,
    a_scaler_skips_a_step_on_one_rank,
    loops_that_set_synchronisation_themselves,
    kinds_of_ddp,
    compiled,
    uneven_inputs,
    buffers_travel,
    sync_batch_norm_is_warned_about,
    evaluate_and_save_on_one_rank,
    loading_demands_rebase,
    learning_rates_that_differ_are_warned_about,
    memory_in_the_summary,
    resume,
    another_number_of_ranks,
]
