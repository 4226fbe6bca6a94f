# SPDX-License-Identifier: MIT
"""Kind updates: evaluating, saving, loading, resuming."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch.distributed as dist
from torch import nn

import pliant
from support import models
from support.messages import Messages
from support.training import steps
from support.updates import SOME, begin, flat_base, in_flight_of, mean_of, residual_of
from support.world import on_ranks, slow


@on_ranks(2)
def test_evaluate_and_save_on_one_rank(rank: int) -> None:
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
    copy.deepcopy(model.module).load_state_dict(
        model.module.state_dict()
    )  # as for an average of the weights
    pickle.loads(pickle.dumps(model.module))
    steps(model, optimizer, rank, 5)
    with averager.on_base(), pytest.raises(pliant.ContractError, match="on_base"):
        models.step(model, optimizer, rank, 0)
    averager.close()
    assert models.alike_on_all_ranks(models.flat(model)), "closing settles"


@on_ranks(2)
def test_settling_puts_progress_back(rank: int) -> None:
    """Inside, all ranks hold the base; afterwards each is where it was, on the base as it is by
    then."""
    for plan in (
        "updates every=4 late=1 union density=10%",
        "updates every=4 late=3 dense",
        "updates every=4 late=0 srs density=10% values=int8",
    ):
        model, optimizer, averager = begin(plan, models.conv)
        steps(model, optimizer, rank, 7)
        norm = model.module[2]
        progress = models.flat(model) - flat_base(averager) - in_flight_of(averager)
        statistics = norm.running_mean.clone()
        mean = mean_of(models.flat(model) + residual_of(averager))
        with averager.settled():
            assert models.alike_on_all_ranks(models.flat(model)) and torch.equal(
                models.flat(model), flat_base(averager)
            )
            assert models.alike_on_all_ranks(norm.running_mean)
            with pytest.raises(pliant.ContractError, match="leave it first"), averager.settled():
                pass
            inside = averager.state_dict()
            assert inside["in_flight"] == []
        assert progress.abs().sum() > 0
        torch.testing.assert_close(
            models.flat(model) - flat_base(averager), progress, rtol=1e-4, atol=1e-5
        )
        assert (
            not models.alike_on_all_ranks(norm.running_mean)
            and norm.running_mean.sub(statistics).abs().max() < 1
        )
        torch.testing.assert_close(
            mean_of(models.flat(model) + residual_of(averager)), mean, rtol=1e-4, atol=1e-5
        )
        for name, parameter in model.module.named_parameters():
            assert torch.equal(inside["own_parameters"][name], parameter), (
                "a state saved inside has what comes back"
            )
        steps(model, optimizer, rank, 4)
        assert models.alike_on_all_ranks(flat_base(averager))
        averager.close()
        assert models.alike_on_all_ranks(models.flat(model)), "closing sends progress too"


@on_ranks(2)
def test_leaving_the_kind_while_settling_loses_nothing(rank: int) -> None:
    """The last exchange of the old kind takes the progress with it that was laid aside."""
    for how in ("settled", "rebase"):
        model, optimizer, averager = begin("updates every=4 late=1 union density=10%", models.conv)
        steps(model, optimizer, rank, 6)
        mean = mean_of(models.flat(model) + residual_of(averager))
        averager.set_plan("gradients dense")
        if how == "settled":
            with averager.settled():
                pass
            torch.testing.assert_close(models.flat(model).double(), mean, rtol=1e-4, atol=1e-5)
        else:
            averager.rebase()
        assert model.require_backward_grad_sync
        assert models.alike_on_all_ranks(models.flat(model))
        for state in optimizer.state.values():
            assert models.alike_on_all_ranks(state["momentum_buffer"].reshape(-1)), how
        steps(model, optimizer, rank, 3)
        assert averager.plan.startswith("gradients") and models.alike_on_all_ranks(
            models.flat(model)
        )
        averager.close()


@on_ranks(2)
def test_the_desk_reduces_every_type(rank: int) -> None:
    """What optimizers keep: the training thread's own collectives, on a group of their own."""
    averager = begin()[2]
    desk = averager._attachment.support.driver._side_channel  # type: ignore[union-attr]
    size = dist.get_world_size()
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8):
        for operation, expected in (
            ("mean", [0.5 * (size - 1), 4]),
            ("maximum", [size - 1, 4]),
            ("minimum", [0, 4]),
        ):
            tensors = [torch.tensor([rank, 4]).to(dtype), torch.tensor(rank).to(dtype)]
            if operation == "mean" and not tensors[0].is_floating_point():
                continue
            desk.reduce(tensors, operation, "a test")
            assert tensors[0].tolist() == expected and tensors[1].item() == expected[0], (
                dtype,
                operation,
                tensors,
            )
        tensors = [torch.full((3, 2), rank).to(dtype).t()]
        assert not desk.agree(tensors, "a test")
        assert (tensors[0] == 0).all() and desk.agree(tensors, "a test")
    flags = [torch.tensor([rank == 1, False])]
    desk.reduce(flags, "maximum", "a test")
    assert flags[0].tolist() == [True, False]
    assert desk.gather({"I am": rank}, "a test") == [{"I am": other} for other in range(size)]
    averager.close()


@on_ranks(2)
def test_loading_and_rebase(rank: int) -> None:
    other = {name: value + rank for name, value in models.mlp(seed=5).state_dict().items()}
    for part in (False, True):
        model, optimizer, averager = begin("updates every=1 late=2 union density=10%")
        steps(model, optimizer, rank, 4)
        if part:
            model.module[0].load_state_dict(
                {
                    name.removeprefix("0."): value
                    for name, value in other.items()
                    if name.startswith("0.")
                }
            )
        else:
            model.module.load_state_dict(other)
        loaded = models.flat(model)
        with pytest.raises(pliant.ContractError, match=r"averager.rebase\(\)"):
            averager.state_dict()
        with averager.on_base():
            assert torch.equal(models.flat(model), loaded), "nothing is lost by asking"
        model.module.load_state_dict(other)
        averager.rebase()
        assert torch.equal(averager.base()["0.weight"], models.mlp(seed=5)[0].weight)
        assert models.alike_on_all_ranks(models.flat(model))
        steps(model, optimizer, rank, 4)
        assert models.alike_on_all_ranks(flat_base(averager))
        model.module.load_state_dict(other)
        averager.rebase()
        averager.close()
        assert torch.equal(models.flat(model), models.flat(models.mlp(seed=5)))


@on_ranks(2)
def test_a_memory_format_that_changes_demands_rebase(rank: int) -> None:
    model, optimizer, averager = begin("updates every=1 late=1 dense", models.conv)
    steps(model, optimizer, rank, 3)
    model.module.to(memory_format=torch.contiguous_format)
    with pytest.raises(pliant.ContractError, match=r"memory format.*averager.rebase\(\)"):
        steps(model, optimizer, rank, 1)
    averager.rebase()
    steps(model, optimizer, rank, 3)
    assert models.alike_on_all_ranks(flat_base(averager))
    if rank == 1:
        model.module.to(memory_format=torch.channels_last)
    with pytest.raises(pliant.DisagreementError, match="rank 1 has another memory format"):
        averager.rebase()
    model.module.to(memory_format=torch.channels_last)
    averager.rebase()
    averager.close()


@on_ranks(2)
def test_an_optimizer_restored_alone_is_warned_about(rank: int) -> None:
    model, optimizer, averager = begin()
    steps(model, optimizer, rank, 2)
    with Messages() as messages:
        optimizer.load_state_dict(optimizer.state_dict())
        steps(model, optimizer, rank, 3)
        averager.load_state_dict(None)
    assert messages.count("the averager was not") == 1, messages.texts
    assert messages.count("no averager state") == 1, messages.texts
    averager.close()


@on_ranks(2)
def test_learning_rates_that_differ_are_warned_about(rank: int) -> None:
    model, optimizer, averager = begin("updates every=1 late=1 dense")
    optimizer.param_groups[0]["lr"] *= 1 + rank
    with Messages() as messages:
        steps(model, optimizer, rank, 6)
    assert messages.count("learning rates") == 1, messages.texts
    averager.close()


@on_ranks(2)
def test_the_summary_counts_memory(rank: int) -> None:
    model, optimizer, averager = begin("updates every=1 late=2 dense")
    steps(model, optimizer, rank, 6)
    memory = averager.summary().memory
    assert memory.base == 4 and memory.residual == 4 and memory.in_flight == 16, memory
    averager.close()


@on_ranks(4)
def test_the_summary_counts_what_an_exchange_keeps_decoded(rank: int) -> None:
    """At 50 % an own part takes 4 bytes of indices and values for every parameter. Updates keep
    what the other ranks sent as it came; gradients decode it, 4 bytes for each rank."""
    model, optimizer, averager = begin("updates every=1 late=0 union density=50%")
    steps(model, optimizer, rank, 4)
    memory = averager.summary().memory
    assert 4 <= memory.in_flight < 2 * 4, memory
    averager.close()
    model, optimizer, averager = begin("gradients union density=50%")
    steps(model, optimizer, rank, 4)
    memory = averager.summary().memory
    assert memory.in_flight >= 4 * 4 + 4, memory
    averager.close()


class Masked(nn.Module):
    """Has a mask and a list of positions, which are large and constant, and two counters."""

    LARGE = 100_000

    def __init__(self) -> None:
        super().__init__()
        self.inner = models.mlp()
        self.register_buffer("mask", torch.ones(self.LARGE, dtype=torch.bool))
        self.register_buffer("positions", torch.arange(self.LARGE))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(self.LARGE, dtype=torch.int32))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.inner(inputs)


def sent_by_settling(averager: pliant.Averager) -> int:
    before = averager.summary().bytes_sent
    with averager.settled():
        pass
    return averager.summary().bytes_sent - before


@on_ranks(2)
def test_only_counters_that_differ_travel_and_are_counted(rank: int) -> None:
    model, optimizer, averager = begin("updates every=1 late=0 dense", Masked)
    steps(model, optimizer, rank, 3)
    inside = model.module
    constant = sent_by_settling(averager)
    assert constant < Masked.LARGE, "neither masks nor constants travel"
    inside.mask.fill_(rank == 0)
    inside.calls += rank
    some = sent_by_settling(averager)
    assert some < Masked.LARGE and int(inside.calls) == 4, (some, inside.calls)
    assert bool(inside.mask.all()) == (rank == 0), "each rank keeps its mask"
    inside.seen += rank
    all_of_one = sent_by_settling(averager)
    assert all_of_one >= 4 * Masked.LARGE and bool((inside.seen == 1).all()), all_of_one
    averager.close()


def bytes_of_exchanges(averager: pliant.Averager) -> int:
    summary = averager.summary()
    return summary.bytes_sent - summary.control_bytes_sent


@pytest.mark.host  # on a device they are counted later than the step returns
@on_ranks(2, slow(4))
def test_bytes_of_a_dense_all_reduce_are_counted(rank: int) -> None:
    size = dist.get_world_size()
    for plan in ("gradients dense", "updates every=1 late=0 dense"):
        model, optimizer, averager = begin(plan)
        entries = sum(parameter.numel() for parameter in model.parameters())
        steps(model, optimizer, rank, 1)  # ranks compare their states before it
        before = bytes_of_exchanges(averager)
        steps(model, optimizer, rank, 5)
        sent = bytes_of_exchanges(averager) - before
        assert sent == 5 * (2 * (size - 1) * 4 * entries // size), (plan, sent, entries)
        averager.close()


@on_ranks(2)
def test_resumed_training_is_bit_identical(rank: int) -> None:
    """Bit for bit, with exchanges in flight, whatever else is restored before or after."""
    adam = lambda model: torch.optim.AdamW(model.parameters(), lr=0.01)  # noqa: E731
    for plan, optimizer_of in (
        ("updates every=1 late=3 union density=10% values=int8", models.sgd),
        ("updates every=2 late=2 dense", adam),
        (SOME, adam),
    ):
        model, optimizer, averager = begin(plan, models.conv, optimizer_of)
        for number in range(15):
            if number == 8:
                saved = averager.state_dict()
                weights, state = (
                    copy.deepcopy(model.module.state_dict()),
                    copy.deepcopy(optimizer.state_dict()),
                )
            models.step(model, optimizer, rank, number)
        for order in ("only", "before", "after", "rank 0's after"):
            other, second, resumed = begin(plan, models.conv, optimizer_of)
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
        once = models.flat(model)
        averager.load_state_dict(saved)  # in mid-run, with other exchanges in the air
        for number in range(8, 15):
            models.step(model, optimizer, rank, number)
        assert torch.equal(models.flat(model), once), plan
        averager.close()


@on_ranks(2)
def test_a_state_of_the_other_kind_can_be_loaded(rank: int) -> None:
    """What is averaged goes by the state, and then by the plan."""
    states = {}
    for plan in ("gradients dense", SOME):
        model, optimizer, averager = begin(plan)
        steps(model, optimizer, rank, 4)
        states[plan] = averager.state_dict()
        averager.close()
    model, optimizer, averager = begin(SOME)
    averager.load_state_dict(states["gradients dense"])
    assert model.require_backward_grad_sync
    steps(model, optimizer, rank, 1)
    assert models.alike_on_all_ranks(models.flat(model)), "a step of gradients"
    between = averager.state_dict()  # of kind updates, without a base
    steps(model, optimizer, rank, 4)
    assert averager.plan.startswith("updates") and models.alike_on_all_ranks(flat_base(averager))
    averager.load_state_dict(between)
    steps(model, optimizer, rank, 5)
    assert models.alike_on_all_ranks(flat_base(averager))
    averager.close()
    model, optimizer, averager = begin("gradients dense")
    steps(model, optimizer, rank, 2)
    averager.load_state_dict(states[SOME])
    steps(model, optimizer, rank, 4)
    assert averager.plan.startswith("gradients") and models.alike_on_all_ranks(models.flat(model))
    averager.close()


@on_ranks(2)
def test_states_of_different_exchanges_are_refused(rank: int) -> None:
    plan = "updates every=1 late=1 dense"
    model, optimizer, averager = begin(plan)
    steps(model, optimizer, rank, 5 - rank)  # rank 1 has skipped a step
    apart = averager.state_dict()
    steps(model, optimizer, rank, 2)
    with averager.settled():
        together = averager.state_dict()
    averager.close()
    model, optimizer, averager = begin(plan)
    with pytest.raises(
        pliant.DisagreementError,
        match=r"exchange 5 and rank 1 one of kind updates, exchange 4.*averager.settled\(\)",
    ):
        averager.load_state_dict(apart)
    averager.load_state_dict(together)
    steps(model, optimizer, rank, 3)
    assert models.alike_on_all_ranks(flat_base(averager))
    averager.close()


@on_ranks(2)
def test_a_state_is_resharded_for_another_number_of_ranks(rank: int) -> None:
    model, optimizer, averager = begin("updates every=1 late=2 union density=10%", models.conv)
    steps(model, optimizer, rank, 7)
    mine = averager.state_dict()
    every: list[dict[str, object]] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(every, mine)
    beyond = mean_of(models.flat(model) + residual_of(averager))
    one = {**averager.state_dict(parameters=False), "rank": 0, "world_size": 1}
    with pytest.raises(ValueError, match="without parameters=True"):
        pliant.reshard([one], 2)
    new = pliant.reshard(every, 3)
    for state in new:
        assert state["world_size"] == 3 and state["in_flight"] == []
        assert state["base"].keys() == state["parameters"].keys()
        for name, base in state["base"].items():
            assert torch.equal(base, state["own_parameters"][name])
    total = torch.cat(
        [
            (new[0]["own_parameters"][name] + new[0]["residual"][name]).flatten()
            for name in new[0]["parameters"]
        ]
    )
    torch.testing.assert_close(total.double(), beyond, rtol=1e-4, atol=1e-6)
    with averager.settled():
        pass
    averager.load_state_dict(pliant.reshard(every, dist.get_world_size())[rank])
    assert models.alike_on_all_ranks(models.flat(model))
    steps(model, optimizer, rank, 4)
    assert models.alike_on_all_ranks(flat_base(averager))
    averager.close()
