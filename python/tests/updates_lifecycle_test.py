# SPDX-License-Identifier: MIT
"""Kind updates: from attach to the end of a script, with close() and without."""

from __future__ import annotations

import gc
import json
import logging
import os
import tempfile
import time
import weakref

import pytest
import torch
import torch.distributed as dist
from torch import nn

import pliant
from support import models
from support.messages import Messages
from support.training import steps
from support.updates import OWN, begin, outputs
from support.world import on_ranks


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


@pytest.mark.host  # the late device keeps a thread for each stream of its pool
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
def test_training_inside_an_except_block(rank: int) -> None:
    try:
        raise RuntimeError("out of memory")
    except RuntimeError:
        model, optimizer, averager = begin(OWN)
        steps(model, optimizer, rank, 5)
        averager.close()
    assert models.alike_on_all_ranks(models.flat(model)), "closing settles"


@on_ranks(2)
def test_a_cell_that_is_run_again(rank: int) -> None:
    """The same model and optimizer, wrapped and attached anew, as a notebook does."""
    module = models.mlp()
    optimizer = models.sgd(module)
    gc.disable()  # the first DDP object is garbage, and nobody has looked for it
    for _ in range(3):
        model = models.ddp(module)
        pliant.attach(model, optimizer, OWN)
        steps(model, optimizer, rank, 4)
    gc.enable()
    older, model = model, models.ddp(module)
    with pytest.raises(pliant.ContractError, match="0.weight belongs to another averager"):
        pliant.attach(model, optimizer, OWN)
    steps(older, optimizer, rank, 3)


class _Task(nn.Module):
    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(2, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.encoder(inputs))
        return result


@on_ranks(2)
def test_two_models_that_share_an_encoder(rank: int) -> None:
    encoder = models.mlp()
    tasks = [begin("gradients" if first else "auto", lambda: _Task(encoder)) for first in (1, 0)]
    for number in range(6):
        for model, optimizer, _ in tasks:
            models.step(model, optimizer, rank, number)
    for model, _, averager in tasks:
        assert models.alike_on_all_ranks(models.flat(model))
        assert averager.plan.startswith("gradients")
    model = models.ddp(_Task(encoder))
    with pytest.raises(pliant.UnsupportedError, match="belongs to another averager"):
        pliant.attach(model, models.sgd(model), OWN)
    for _, _, averager in tasks:
        averager.close()


@on_ranks(2)
def test_another_default_device_and_type(rank: int) -> None:
    """As after torch.set_default_device("cuda"): what travels is in host memory all the same."""
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cpu"):
        batches = [models.batch(rank, number) for number in range(6)]
        module = models.mlp().float()
    model = models.ddp(module)
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, OWN)
    for inputs, targets in batches:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs.float()), targets.float()).backward()
        optimizer.step()
        averager.load_state_dict(averager.state_dict())
        model.state_dict()
    with averager.settled():
        pass
    averager.close()
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    assert models.alike_on_all_ranks(models.flat(model))
