# SPDX-License-Identifier: MIT
"""Kind updates: a script that knows nothing of it saves, evaluates and loads what it means to."""

from __future__ import annotations

import copy
import gc
import io
import json
import logging
import os
import pickle
import tempfile
import threading
import time
import weakref

import pytest
import torch
import torch.distributed as dist
from torch import nn

import pliant
from support import models
from support.messages import Messages
from support.training import loss_of, steps
from support.updates import begin, flat_base
from support.world import on_ranks

OWN = "updates every=3 late=1 union density=10% values=f32"  # ranks differ after any step


def flat_state(state: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([value.flatten() for value in state.values() if value.dtype == torch.float32])


def outputs(model: nn.Module, batch: int = 0) -> torch.Tensor:
    was = model.training
    model.eval()
    with torch.no_grad():
        result: torch.Tensor = model(models.batch(0, batch)[0])
    model.train(was)
    return result


@on_ranks(2)
def test_state_dict_is_the_base(rank: int) -> None:
    model, optimizer, averager = begin(OWN, models.conv)
    for _ in range(3):
        steps(model, optimizer, rank, 4)
        live = models.flat(model)
        assert not models.alike_on_all_ranks(live)
        assert models.alike_on_all_ranks(flat_state(model.state_dict()))
        assert models.alike_on_all_ranks(flat_state(model.module.state_dict()))
        part = model.module[1].state_dict()  # of a part alone
        assert torch.equal(part["weight"], averager.base()["1.weight"])
        assert torch.equal(models.flat(model), live), "parameters() are this rank's own"
        kept = model.state_dict(keep_vars=True)
        assert kept["module.1.weight"] is model.module[1].weight
    averager.close()
    assert torch.equal(model.state_dict()["module.1.weight"], model.module[1].weight)


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


@on_ranks(2)
def test_what_other_ways_of_saving_see(rank: int) -> None:
    model = models.ddp(models.Branches(), find_unused_parameters=True)
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, OWN)
    steps(model, optimizer, rank, 5)
    live = models.flat(model)
    state = model.state_dict()
    assert state["module.odd.bias"] is state["module.even.bias"], "tied parameters stay tied"
    file = io.BytesIO()
    torch.save(model.module, file)
    file.seek(0)
    whole = torch.load(file, weights_only=False)  # of the live parameters, as documented
    assert torch.equal(models.flat(whole), live)
    assert torch.equal(whole.state_dict()["shared.weight"], whole.shared.weight)
    for other in (copy.deepcopy(model.module), pickle.loads(pickle.dumps(model.module))):
        other.load_state_dict(model.module.state_dict())
        assert torch.equal(flat_state(other.state_dict()), flat_state(model.module.state_dict()))
        outputs(other)
    assert torch.equal(models.flat(model), live), "copies do not touch the model"
    averaged = torch.optim.swa_utils.AveragedModel(model.module)
    averaged.update_parameters(model.module)
    assert torch.equal(models.flat(averaged.module), live)
    with averager.on_base():
        averaged.n_averaged.zero_()
        averaged.update_parameters(model.module)
    assert models.alike_on_all_ranks(models.flat(averaged.module))
    averager.close()


@on_ranks(2)
def test_a_state_that_all_ranks_load_becomes_the_base(rank: int) -> None:
    other = models.mlp(seed=5).state_dict()
    for part in (False, True):
        model, optimizer, averager = begin(OWN)
        steps(model, optimizer, rank, 4)
        if part:
            own = {name[2:]: value for name, value in other.items() if name.startswith("0.")}
            model.module[0].load_state_dict(own)
        else:
            model.load_state_dict({f"module.{name}": value for name, value in other.items()})
            loaded = models.mlp(seed=5).eval()(models.batch(0, 0)[0])
            assert torch.equal(outputs(model), loaded), "evaluation is of what was loaded"
            assert torch.equal(flat_state(model.state_dict()), flat_state(other))
        loss_of(model, rank, 0)
        assert torch.equal(averager.base()["0.weight"], other["0.weight"])
        assert models.alike_on_all_ranks(models.flat(model))
        steps(model, optimizer, rank, 5)
        with averager.settled():
            assert models.alike_on_all_ranks(models.flat(model))
        model.module.load_state_dict(other)
        with averager.settled():
            assert torch.equal(models.flat(model), models.flat(models.mlp(seed=5)))
        steps(model, optimizer, rank, 5)
        model.module.load_state_dict(other)
        averager.close()
        assert torch.equal(models.flat(model), models.flat(models.mlp(seed=5)))


@on_ranks(2)
def test_one_rank_swaps_weights_to_evaluate(rank: int) -> None:
    """The usual loop with an average of the weights: put it in, evaluate, put the old ones back."""
    twins = [begin(OWN) for _ in range(2)]
    average = models.mlp(seed=9)
    for round_ in range(4):
        for twin, (model, optimizer, _) in enumerate(twins):
            steps(model, optimizer, rank, 2 + round_)
            if twin == 1 and rank == 0:
                before = copy.deepcopy(model.state_dict())
                model.module.load_state_dict(average.state_dict())
                assert torch.equal(outputs(model), outputs(average))
                model.load_state_dict(before)
    steps(twins[0][0], twins[0][1], rank, 1)
    steps(twins[1][0], twins[1][1], rank, 1)
    assert torch.equal(models.flat(twins[0][0]), models.flat(twins[1][0]))
    for _, _, averager in twins:
        averager.close()


@on_ranks(2)
def test_a_state_that_only_one_rank_loads(rank: int) -> None:
    model, optimizer, averager = begin(OWN)
    steps(model, optimizer, rank, 4)
    if rank == 1:
        model.module.load_state_dict(models.mlp(seed=5).state_dict())
    with pytest.raises(pliant.ContractError, match="not on rank 0"), averager.settled():
        pass
    averager.rebase()
    steps(model, optimizer, rank, 4)
    averager.close()


@on_ranks(2)
def test_the_first_change_to_updates_is_announced_once(rank: int) -> None:
    for pinned in (False, True):
        with Messages() as messages:
            model, optimizer, averager = begin("updates" if pinned else "gradients dense")
            steps(model, optimizer, rank, 2)
            if not pinned:
                averager.set_plan("updates every=1 late=0 dense")
                steps(model, optimizer, rank, 4)
                averager.set_plan("gradients dense")
                steps(model, optimizer, rank, 4)
                averager.set_plan("updates every=1 late=0 dense")
                steps(model, optimizer, rank, 4)
        warned = [text for level, text in messages.levels if level >= logging.WARNING]
        announced = [text for text in warned if "parameters of their own" in text]
        assert len(announced) == (rank == 0 and not pinned), warned
        averager.close()


@on_ranks(2)
def test_clip_norm_clips_each_ranks_own_gradient(rank: int) -> None:
    """Dense updates of SGD in every step, clipped, are plain SGD on clipped gradients, averaged."""
    for closure in (False, True):
        model = models.ddp(models.mlp())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        averager = pliant.attach(model, optimizer, "updates every=1 late=0 dense", clip_norm=0.01)
        for number in range(3):
            before = models.flat(model)
            optimizer.zero_grad()

            def backward(number: int = number) -> torch.Tensor:
                optimizer.zero_grad()
                loss = loss_of(model, rank, number)
                loss.backward()
                return loss

            if closure:
                optimizer.step(backward)
            else:
                backward()
                optimizer.step()
            gradient = torch.cat([tensor.grad.flatten() for tensor in model.parameters()])
            torch.testing.assert_close(gradient.norm().item(), 0.01, rtol=1e-4, atol=0)
            dist.all_reduce(gradient)
            torch.testing.assert_close(models.flat(model), before - 0.5 * gradient / 2)
        averager.close()


@on_ranks(1)
def test_clip_norm_clips_on_one_rank_alone(rank: int) -> None:
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, clip_norm=0.01)
    steps(model, optimizer, rank, 2)
    gradient = torch.cat([tensor.grad.flatten() for tensor in model.parameters()])
    torch.testing.assert_close(gradient.norm().item(), 0.01, rtol=1e-4, atol=0)
    averager.close()


def skip_on_one_rank(model: nn.Module, rank: int, number: int) -> None:
    if rank == 1 and number in (4, 9):
        next(model.parameters()).grad[0, 0] = float("inf")  # type: ignore[index]


@on_ranks(2)
def test_a_skipped_step_in_a_loop_with_collectives(rank: int) -> None:
    for plan in (OWN, "updates every=1 late=0 union density=10%"):
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        model, optimizer, averager = begin(plan, scaler=scaler, deadline=60)
        for number in range(16):
            optimizer.zero_grad()
            loss = loss_of(model, rank, number)
            scaler.scale(loss).backward()
            skip_on_one_rank(model, rank, number)
            scaler.step(optimizer)
            scaler.update()
            dist.all_reduce(loss.detach())
        assert averager.summary().steps == 16
        with averager.settled():
            assert models.alike_on_all_ranks(models.flat(model))
        averager.close()
        assert "step" not in vars(scaler), "the scaler is left as it was"


@on_ranks(2)
def test_two_averagers_and_a_skipped_step(rank: int) -> None:
    """As in a GAN: one scaler, known to one of the averagers, and one of the steps is skipped."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    plan = "updates every=1 late=0 dense"
    first, first_optimizer, first_averager = begin(plan, scaler=scaler, deadline=60)
    second, second_optimizer, second_averager = begin(plan, deadline=60)
    for number in range(12):
        for model, optimizer in ((first, first_optimizer), (second, second_optimizer)):
            optimizer.zero_grad()
            scaler.scale(loss_of(model, rank, number)).backward()
            if model is second:
                skip_on_one_rank(model, rank, number)
            scaler.step(optimizer)
        scaler.update()
    for averager in (first_averager, second_averager):
        assert averager.summary().steps == 12
        averager.close()


@on_ranks(2)
def test_settling_on_one_rank_warns_and_fails(rank: int) -> None:
    model, optimizer, averager = begin("updates every=1 late=0 dense", deadline=5)
    steps(model, optimizer, rank, 2)
    if rank == 0:
        with Messages() as messages, pytest.raises(pliant.AbsentError, match="rank 1 trained on"):
            with averager.settled():
                pass
        assert messages.count("rank 1 trained on") == 1, messages.texts
        dist.distributed_c10d._get_default_store().set("absent", "known")
    else:
        store = dist.distributed_c10d._get_default_store()
        number = 0
        while not store.check(["absent"]) and number < 1_000_000:
            models.step(model, optimizer, rank, number)
            number += 1
    averager.close()
    assert models.alike_on_all_ranks(models.flat(model)), "the other rank is not harmed"


def resources() -> tuple[int, int]:
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


@on_ranks(2)
def test_a_sweep_without_close_leaks_nothing(rank: int) -> None:
    for plan in (OWN, "gradients union density=10%"):
        held = []
        for _ in range(5):
            model, optimizer, averager = begin(plan, models.conv)
            gone = weakref.ref(model)
            steps(model, optimizer, rank, 4)
            model.state_dict()
            outputs(model)
            del model, optimizer, averager
            gc.collect()
            assert gone() is None, "nothing keeps the model"
            dist.barrier()
            held.append(resources())
        assert held[-1] <= held[1], held


@on_ranks(2)
def test_nobody_needs_to_keep_the_averager(rank: int) -> None:
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    pliant.attach(model, optimizer, "updates every=1 late=0 dense")
    gc.collect()
    steps(model, optimizer, rank, 3)
    assert models.alike_on_all_ranks(models.flat(model))


@on_ranks(2)
def test_a_slow_broadcast_of_buffers_is_mentioned_and_is_not_compute(rank: int) -> None:
    model = models.ddp(models.conv())
    optimizer = models.sgd(model)
    broadcast = model._sync_buffers

    def slow() -> None:
        time.sleep(0.2)
        broadcast()

    model._sync_buffers = slow
    with tempfile.TemporaryDirectory() as folder:
        log = f"{folder}/{rank}.jsonl"
        averager = pliant.attach(
            model, optimizer, "gradients dense", log=f"{folder}/{{rank}}.jsonl"
        )
        with Messages() as messages:
            steps(model, optimizer, rank, 22)
        averager.close()
        with open(log) as lines:
            logged = [json.loads(line) for line in lines]
    assert messages.count("broadcast_buffers=False") == (rank == 0), messages.texts
    timed = [line for line in logged if line.get("whole") and line.get("compute") is not None]
    exposed = sorted(line["exposed"] for line in timed)
    assert len(timed) > 10 and exposed[len(exposed) // 2] >= 0.2, timed


@on_ranks(2)
def test_an_optimizer_that_was_not_attached_is_refused(rank: int) -> None:
    model, optimizer, averager = begin(OWN)
    steps(model, optimizer, rank, 3)
    other = models.sgd(model)
    with pytest.raises(pliant.UnsupportedError, match="was not given to pliant.attach"):
        steps(model, other, rank, 1)
    steps(model, optimizer, rank, 3)
    averager.close()
    steps(model, other, rank, 1)


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


@on_ranks(2)
def test_training_inside_an_except_block(rank: int) -> None:
    try:
        raise RuntimeError("out of memory")
    except RuntimeError:
        model, optimizer, averager = begin(OWN)
        steps(model, optimizer, rank, 5)
        averager.close()
    assert models.alike_on_all_ranks(models.flat(model)), "closing settles"


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
def test_copies_types_threads_and_exports(rank: int) -> None:
    model, optimizer, averager = begin(OWN, models.mlp)
    steps(model, optimizer, rank, 5)
    live, example = models.flat(model), models.batch(0, 0)[0]
    pickle.dumps(model), copy.deepcopy(model)
    traced = torch.jit.trace(model.module.eval(), example)
    with torch.no_grad():
        torch.testing.assert_close(
            traced(example), torch.export.export(model.module, (example,)).module()(example)
        )
    model.module.train()
    assert torch.equal(models.flat(model), live)
    model.module.bfloat16().eval()
    with torch.no_grad():
        assert models.alike_on_all_ranks(model.module(example.bfloat16()).float())
    model.module.float()
    for parameter, value in zip(
        model.parameters(), torch.split(live, [p.numel() for p in model.parameters()]), strict=True
    ):
        parameter.data.copy_(value.view_as(parameter))
    model.module.train()
    answers: list[torch.Tensor] = []

    def elsewhere() -> None:
        steps(model, optimizer, rank, 1)
        answers.append(outputs(model))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(60)
    assert models.alike_on_all_ranks(answers[0])


class _NotANumber(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = models.mlp()
        self.register_buffer("unknown", torch.tensor([float("nan")]))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(inputs)
        return result


@on_ranks(2)
def test_loading_what_one_rank_has_itself(rank: int) -> None:
    model, optimizer, averager = begin(OWN, _NotANumber, deadline=60)
    steps(model, optimizer, rank, 4)
    if rank == 0:  # swaps and puts back; one buffer is not a number
        before = copy.deepcopy(model.state_dict())
        model.module.load_state_dict(_NotANumber().state_dict())
        model.load_state_dict(before)
    steps(model, optimizer, rank, 4)
    own = [{name: value.detach().clone() for name, value in model.module.named_parameters()}]
    dist.broadcast_object_list(own, 0)  # rank 0's own parameters, on every rank
    model.module.load_state_dict(own[0], strict=False)
    steps(model, optimizer, rank, 4)
    averager.close()
    assert models.alike_on_all_ranks(models.flat(model))
