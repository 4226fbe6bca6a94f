# SPDX-License-Identifier: MIT
"""Islands: FSDP2, DDP or nothing inside, exchanges of updates across. Four ranks: islands {0, 1}
and {2, 3}, across groups {0, 2} and {1, 3}; or four islands of one rank."""

from __future__ import annotations

import gc
import os
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import pliant
from support import models, world
from support.world import on_ranks

DENSE = "updates every=2 late=0 dense"
SPARSE = "updates every=2 late=1 union density=20% values=int8"

Island = tuple[nn.Module, torch.optim.Optimizer, Any]
"""A model as its island trains it, its optimizer, and what across= is given."""


def mesh_of_islands() -> DeviceMesh:
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("across", "inside"))


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def make(rank: int) -> nn.Module:
    """Another one on each island, so that they have to agree. The last layer cannot be sharded
    evenly."""
    torch.manual_seed(rank // 2)
    return nn.Sequential(nn.Linear(10, 9), nn.ReLU(), nn.BatchNorm1d(9), nn.Linear(9, 3))


def plain(rank: int) -> Island:
    model = make(2 * rank)
    return model, adam(model), dist.group.WORLD


def sharded(rank: int) -> Island:
    mesh = mesh_of_islands()
    model = make(rank)
    fully_shard(model[0], mesh=mesh["inside"])
    fully_shard(model, mesh=mesh["inside"])
    return model, adam(model), mesh["across"]


def wrapped(rank: int) -> Island:
    mesh = mesh_of_islands()
    model = DistributedDataParallel(make(rank), process_group=mesh["inside"].get_group())
    return model, adam(model), mesh["across"].get_group()


def nodes(rank: int, size: int = 2) -> None:
    """Says what torchrun says to ranks of nodes of this size."""
    os.environ.update(LOCAL_RANK=str(rank % size), LOCAL_WORLD_SIZE=str(size))


KINDS: dict[str, Callable[[int], Island]] = {"plain": plain, "sharded": sharded, "wrapped": wrapped}


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, rank: int, steps: int, first: int = 0
) -> None:
    for number in range(first, first + steps):
        torch.manual_seed(1000 * rank + number)
        inputs = torch.randn(8, 10)
        optimizer.zero_grad()
        model(inputs).pow(2).mean().backward()
        optimizer.step()


def full(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.detach().clone()


def whole(model: nn.Module) -> torch.Tensor:
    """All parameters as this island has them, flat."""
    return torch.cat([full(each).flatten() for each in model.parameters()])


def flat_base(averager: pliant.Averager) -> torch.Tensor:
    return torch.cat([full(each).flatten() for each in averager.base().values()])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plan", [DENSE, SPARSE, "auto"])
def test_all_ranks_hold_the_same_base(kind: str, plan: str) -> None:
    results = world.run(same_base, kind, plan, ranks=4)
    assert len(set(results)) == 1  # one plan everywhere


def same_base(rank: int, size: int, kind: str, plan: str) -> str:
    model, optimizer, across = KINDS[kind](rank)
    averager = pliant.attach(model, optimizer, plan, across=across, check_every=1)
    before = flat_base(averager)
    train(model, optimizer, rank, 9)
    assert models.alike_on_all_ranks(flat_base(averager))
    assert not torch.equal(before, flat_base(averager))
    assert averager.plan.startswith("updates ")
    with averager.settled():
        assert models.alike_on_all_ranks(whole(model))
        assert torch.equal(whole(model), flat_base(averager))
    train(model, optimizer, rank, 4)
    averager.close()
    assert models.alike_on_all_ranks(whole(model))
    return averager.summary().plan


@pytest.mark.parametrize("kind", KINDS)
def test_dense_updates_are_the_mean_of_the_islands_progress(kind: str) -> None:
    world.run(against_a_reference, kind, ranks=4)


def against_a_reference(rank: int, size: int, kind: str) -> None:
    ours, our_optimizer, across = KINDS[kind](rank)
    averager = pliant.attach(ours, our_optimizer, DENSE, across=across, buffers=False)
    theirs, their_optimizer, _ = KINDS[kind](rank)
    group = across.get_group() if isinstance(across, DeviceMesh) else across
    locals_of = [
        each.detach().to_local() if isinstance(each, DTensor) else each.detach()
        for each in theirs.parameters()
    ]
    for local in locals_of:
        dist.broadcast(local, group=group, group_src=0)
    base = [local.clone() for local in locals_of]
    for number in range(8):
        train(ours, our_optimizer, rank, 1, number)
        train(theirs, their_optimizer, rank, 1, number)
        if number % 2 == 1:
            for local, old in zip(locals_of, base, strict=True):
                progress = local - old
                dist.all_reduce(progress, group=group)
                local.copy_(old + progress / dist.get_world_size(group))
                old.copy_(local)
        torch.testing.assert_close(whole(ours), whole(theirs), rtol=1e-5, atol=1e-6)
    averager.close()


@pytest.mark.parametrize("kind", ["sharded", "wrapped"])
def test_ranks_of_an_island_train_together(kind: str) -> None:
    """Under DDP replicas of an island never differ; islands do, between exchanges."""
    world.run(between_exchanges, kind, ranks=4)


def between_exchanges(rank: int, size: int, kind: str) -> None:
    model, optimizer, across = KINDS[kind](rank)
    averager = pliant.attach(
        model, optimizer, "updates every=3 late=2 union density=20% values=int8", across=across
    )
    for number in range(10):
        train(model, optimizer, rank, 1, number)
        every = [torch.empty_like(whole(model)) for _ in range(size)]
        dist.all_gather(every, whole(model))
        assert torch.equal(every[0], every[1]) and torch.equal(every[2], every[3])
        assert not torch.equal(every[0], every[2])
    averager.close()


@on_ranks(4)
def test_state_dict_and_evaluation_have_the_base(rank: int) -> None:
    for kind in KINDS.values():
        model, optimizer, across = kind(rank)
        averager = pliant.attach(model, optimizer, SPARSE, across=across)
        train(model, optimizer, rank, 5)
        own, base = whole(model), flat_base(averager)
        assert not torch.equal(own, base)
        state = model.state_dict()
        names = [name for name, _ in model.named_parameters()]
        for name, parameter in model.named_parameters():
            assert isinstance(state[name], DTensor) == isinstance(parameter, DTensor)
        assert torch.equal(torch.cat([full(state[name]).flatten() for name in names]), base)
        inputs = torch.ones(2, 10)
        model.eval()
        with torch.no_grad():
            shown = model(inputs)
        with averager.on_base(), torch.no_grad():
            assert torch.equal(whole(model), base)
            torch.testing.assert_close(model(inputs), shown, rtol=0, atol=0)
        group = across.get_group() if isinstance(across, DeviceMesh) else across
        every = [torch.empty_like(shown) for _ in range(dist.get_world_size(group))]
        dist.all_gather(every, shown, group=group)  # ranks of an island have their own buffers
        assert all(torch.equal(one, shown) for one in every)
        model.train()
        assert torch.equal(whole(model), own)
        train(model, optimizer, rank, 4)
        averager.close()
        assert models.alike_on_all_ranks(whole(model))


@on_ranks(4)
def test_evaluation_does_not_change_training(rank: int) -> None:
    ends = []
    for evaluates in (False, True):
        model, optimizer, across = sharded(rank)
        averager = pliant.attach(model, optimizer, SPARSE, across=across)
        for number in range(6):
            train(model, optimizer, rank, 1, number)
            if evaluates:
                model.eval()
                with torch.no_grad():
                    model(torch.ones(2, 10))
                model.train()
        averager.close()
        ends.append(whole(model))
    assert torch.equal(*ends)


def test_distributed_checkpoint(tmp_path: Path) -> None:
    world.run(save_and_load, str(tmp_path), ranks=4)


def save_and_load(rank: int, size: int, folder: str) -> None:
    model, optimizer, across = sharded(rank)
    averager = pliant.attach(model, optimizer, SPARSE, across=across)
    train(model, optimizer, rank, 5)
    base = flat_base(averager)
    dcp.save(get_model_state_dict(model), checkpoint_id=folder)
    train(model, optimizer, rank, 3)
    state = get_model_state_dict(model)
    dcp.load(state, checkpoint_id=folder)
    set_model_state_dict(model, state)
    assert torch.equal(whole(model), base)
    train(model, optimizer, rank, 1)  # from here on it is the base
    train(model, optimizer, rank, 4)
    averager.close()
    assert models.alike_on_all_ranks(whole(model))


@pytest.mark.parametrize("kind", KINDS)
def test_averager_state_goes_on_with_the_same_bits(kind: str) -> None:
    world.run(save_and_go_on, kind, ranks=4)


def save_and_go_on(rank: int, size: int, kind: str) -> None:
    model, optimizer, across = KINDS[kind](rank)
    averager = pliant.attach(model, optimizer, SPARSE, across=across)
    train(model, optimizer, rank, 6)
    with tempfile.TemporaryFile() as file:
        saved = (averager.state_dict(), model.state_dict(), optimizer.state_dict())
        torch.save(saved, file)
        train(model, optimizer, rank, 5, 6)
        averager.close()
        end = whole(model)
        file.seek(0)
        state, model_state, optimizer_state = torch.load(file, weights_only=False)
    model, optimizer, across = KINDS[kind](rank)
    model.load_state_dict(model_state)
    optimizer.load_state_dict(optimizer_state)
    averager = pliant.attach(model, optimizer, SPARSE, across=across)
    averager.load_state_dict(state)
    train(model, optimizer, rank, 5, 6)
    averager.close()
    assert torch.equal(whole(model), end)


@on_ranks(4)
def test_clip_norm_clips_the_gradient_of_the_island(rank: int) -> None:
    for kind in KINDS.values():
        model, optimizer, across = kind(rank)
        averager = pliant.attach(model, optimizer, DENSE, across=across, clip_norm=0.01)
        train(model, optimizer, rank, 2)
        gradient = torch.cat([full(each.grad).flatten() for each in model.parameters()])
        torch.testing.assert_close(gradient.norm().item(), 0.01, rtol=1e-4, atol=0)
        averager.close()


@on_ranks(4)
def test_an_island_that_diverges_goes_back(rank: int) -> None:
    """Island 1 computes NaN once; its ranks stay alike, and everybody goes on."""
    for kind in (sharded, wrapped):
        model, optimizer, across = kind(rank)
        averager = pliant.attach(model, optimizer, SPARSE, across=across)
        train(model, optimizer, rank, 4)
        if rank >= 2:
            for each in model.parameters():
                each.data.mul_(float("nan"))
        train(model, optimizer, rank, 2, 4)
        train(model, optimizer, rank, 6, 6)
        averager.close()
        assert torch.isfinite(whole(model)).all()
        assert models.alike_on_all_ranks(whole(model))


@on_ranks(4)
def test_an_averager_ends_with_its_model(rank: int) -> None:
    for kind, closes in ((plain, False), (wrapped, False), (sharded, True)):
        model, optimizer, across = kind(rank)
        averager = pliant.attach(model, optimizer, SPARSE, across=across)
        train(model, optimizer, rank, 3)
        if closes:
            averager.close()
        reference = weakref.ref(model)
        dist.barrier()
        del model, optimizer, averager
        gc.collect()
        assert reference() is None
        dist.barrier()


def refused(error: type[Exception], words: str, *arguments: Any, **options: Any) -> None:
    with pytest.raises(error, match=words):
        pliant.attach(*arguments, **{"deadline": 20, **options})


@on_ranks(4)
def test_refusals(rank: int) -> None:
    mesh = mesh_of_islands()
    inside, across = mesh["inside"], mesh["across"]
    model, optimizer, _ = plain(rank)
    refused(TypeError, "across='all': allowed is a process group", model, optimizer, across="all")
    refused(ValueError, "DeviceMesh of 2 dimensions", model, optimizer, across=mesh)
    refused(ValueError, "need the optimizer", model, across=across)
    refused(ValueError, "gradients are not exchanged", model, optimizer, "gradients", across=across)
    refused(ValueError, "lengthen=1", model, optimizer, across=across, dials={"lengthen": 1})
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    other = groups[1 - rank // 2]
    refused(ValueError, "without this rank", model, optimizer, across=other)

    flat = DistributedDataParallel(make(0))
    refused(ValueError, "of the same island", flat, adam(flat), across=across)
    for kind in (sharded, wrapped):
        model, optimizer, _ = kind(rank)
        refused(
            ValueError, r"joins ranks \[.*\] of the same island", model, optimizer, across=inside
        )
        refused(ValueError, "lanes=0", model, optimizer, across=across, lanes=0)
    refused(ValueError, "clear_momentum", model, optimizer, across=across, clear_momentum=True)

    model = make(rank)
    fully_shard(model, mesh=mesh)  # replicated across, sharded inside: HSDP
    refused(ValueError, "mesh of 2 dimensions", model, adam(model), across=across)
    model = make(rank)
    fully_shard(model, mesh=inside, ignored_params={model[0].weight})
    refused(ValueError, "0.weight is not sharded", model, adam(model), across=across)


@on_ranks(4)
def test_islands_with_other_shards_are_refused(rank: int) -> None:
    mesh = mesh_of_islands()
    torch.manual_seed(0)
    model = nn.Linear(10, 8 if rank < 2 else 12)
    fully_shard(model, mesh=mesh["inside"])
    refused(
        pliant.DisagreementError,
        r"parameter 0: rank 0 has .*weight.*, rank 2 has .*weight",
        model,
        adam(model),
        across=mesh["across"],
    )
    model, optimizer, across = sharded(rank)
    refused(
        pliant.DisagreementError,
        "check_every: rank 0 has '100', rank 3 has '7'",
        model,
        optimizer,
        across=across,
        check_every=7 if rank == 3 else 100,
    )


@on_ranks(4)
def test_a_second_attach_and_a_plan_of_gradients_are_refused(rank: int) -> None:
    model, optimizer, across = sharded(rank)
    averager = pliant.attach(model, optimizer, across=across)
    refused(pliant.ContractError, "attached to this model already", model, optimizer, across=across)
    with pytest.raises(ValueError, match="gradients are not exchanged across islands"):
        averager.set_plan("gradients dense")
    averager.set_plan(DENSE)
    train(model, optimizer, rank, 4)
    assert "dense" in averager.plan
    averager.close()
    pliant.attach(model, optimizer, across=across).close()


@on_ranks(4)
def test_islands_by_node_are_those_of_across_groups(rank: int) -> None:
    """The same bits as with a DDP object over the island's own group, buffers and all."""
    nodes(rank)
    ends = []
    for by_node in (False, True):
        model, optimizer, across = wrapped(rank)
        given: dict[str, Any] = {"across": across}
        if by_node:
            model = DistributedDataParallel(make(0))
            optimizer, given = adam(model), {"islands": "node"}
        averager = pliant.attach(model, optimizer, SPARSE, **given)
        inside = dist.get_process_group_ranks(model.process_group)
        assert inside == [0, 1] if rank < 2 else inside == [2, 3]
        train(model, optimizer, rank, 7)
        between = whole(model)
        averager.close()
        assert models.alike_on_all_ranks(whole(model))
        ends.append(
            torch.cat([between, whole(model), *(each.flatten() for each in model.buffers())])
        )
    assert torch.equal(*ends)


@on_ranks(4)
def test_ddp_averages_over_all_ranks_again_after_close(rank: int) -> None:
    nodes(rank)
    model = DistributedDataParallel(make(0), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # Adam's state would still differ
    for _ in range(2):  # and islands can be made once more
        train(model, optimizer, rank, 2)
        assert models.alike_on_all_ranks(whole(model))
        averager = pliant.attach(model, optimizer, "updates every=8 dense", islands="node")
        train(model, optimizer, rank, 3)
        assert not models.alike_on_all_ranks(whole(model))
        averager.close()
        assert dist.get_world_size(model.process_group) == 4
    averager = pliant.attach(model, optimizer, "gradients dense")  # without islands
    train(model, optimizer, rank, 2)
    averager.close()
    averager = pliant.attach(model, optimizer, DENSE, islands="node")  # pliant's own hook stays
    train(model, optimizer, rank, 4)
    averager.close()
    train(model, optimizer, rank, 2)
    assert models.alike_on_all_ranks(whole(model))


@on_ranks(4)
def test_nodes_of_one_rank_and_one_node(rank: int) -> None:
    nodes(rank, 1)
    model = DistributedDataParallel(make(0))
    optimizer = adam(model)
    averager = pliant.attach(model, optimizer, "gradients dense", islands="node")  # as without
    train(model, optimizer, rank, 2)
    averager.close()
    for variable in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"):  # another launcher: by host name alone
        os.environ.pop(variable)
    averager = pliant.attach(model, optimizer, islands="node")
    train(model, optimizer, rank, 2)
    assert models.alike_on_all_ranks(whole(model))
    averager.close()
    assert models.alike_on_all_ranks(whole(model))


@on_ranks(4)
def test_refusals_of_islands_by_node(rank: int) -> None:
    nodes(rank)
    model = DistributedDataParallel(make(0))
    optimizer = adam(model)
    refused(ValueError, "islands='rack': allowed is 'node'", model, optimizer, islands="rack")
    refused(TypeError, "islands=2: allowed is 'node'", model, optimizer, islands=2)
    refused(
        ValueError,
        "islands='node' with across=",
        model,
        optimizer,
        islands="node",
        across=dist.group.WORLD,
    )
    refused(ValueError, "need the optimizer", model, islands="node")
    refused(
        ValueError, "gradients are not exchanged", model, optimizer, "gradients", islands="node"
    )
    assert dist.get_world_size(model.process_group) == 4  # as before the refusals
    refused(pliant.UnsupportedError, "not on Linear", nn.Linear(2, 2), optimizer, islands="node")
    sizes = {0: (0, 3), 1: (1, 3), 2: (2, 3), 3: (0, 1)}
    os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"] = map(str, sizes[rank])
    refused(
        pliant.DisagreementError,
        "from rank 0 has 3 ranks and node .* from rank 3 has 1",
        model,
        optimizer,
        islands="node",
    )
    nodes(rank)
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    refused(pliant.UnsupportedError, "fp16_compress_hook", model, optimizer, islands="node")
