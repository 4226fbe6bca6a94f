# SPDX-License-Identifier: MIT
"""Kind updates: a script that knows nothing of it saves and loads what it means to."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
import tempfile
import threading

import pytest
import torch
import torch.distributed as dist
from torch import nn

import pliant
from support import models
from support.messages import Messages
from support.training import loss_of, steps
from support.updates import OWN, begin, flat_state, outputs
from support.world import on_ranks


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


WITHOUT_PLIANT = """
import sys
sys.modules["pliant"] = None  # importing it fails
import torch
model = torch.load(sys.argv[1], weights_only=False)
model.load_state_dict(model.state_dict())
outputs = model.eval()(torch.ones(2, 10))
assert outputs.requires_grad and torch.compile(model, backend="eager")(torch.ones(2, 10)).equal(outputs)
"""


@pytest.mark.host  # the process that loads it has no late device
@on_ranks(2)
def test_a_file_of_the_whole_model_is_loaded_without_pliant(rank: int) -> None:
    model, optimizer, averager = begin(OWN, models.conv)
    steps(model, optimizer, rank, 4)
    if rank == 0:
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.module, f"{folder}/model.pt")
            done = subprocess.run(
                [sys.executable, "-c", WITHOUT_PLIANT, f"{folder}/model.pt"],
                env={**os.environ, "PYTHONPATH": ""},
                capture_output=True,
                text=True,
                timeout=120,
            )
        assert done.returncode == 0, done.stderr
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
        with torch.device(next(model.parameters()).device):  # a thread has a default of its own
            steps(model, optimizer, rank, 1)
            answers.append(outputs(model))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(60)
    assert models.alike_on_all_ranks(answers[0])


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


@on_ranks(2)
def test_a_state_that_is_loaded_between_backward_and_step(rank: int) -> None:
    model, optimizer, averager = begin("updates every=1 late=0 dense")
    other = models.mlp(seed=5)
    steps(model, optimizer, rank, 3)
    optimizer.zero_grad()
    loss_of(model, rank, 0).backward()
    model.module.load_state_dict(other.state_dict())
    optimizer.step()
    assert models.alike_on_all_ranks(models.flat(model))
    assert (models.flat(model) - models.flat(other)).abs().max() < 0.1
    averager.close()


@on_ranks(2)
def test_distributed_checkpoints_of_an_optimizer_are_warned_about(rank: int) -> None:
    """They take each tensor from one rank, and the optimizers' state differs between ranks."""
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_state_dict

    model, optimizer, averager = begin(OWN)
    steps(model, optimizer, rank, 4)
    with Messages() as messages:
        assert models.alike_on_all_ranks(flat_state(get_model_state_dict(model)))
        optimizer.state_dict()
        assert messages.count("torch.distributed.checkpoint") == 0, messages.texts
        for _ in range(2):
            get_state_dict(model, optimizer)
    assert messages.count("torch.distributed.checkpoint") == 1, messages.texts
    averager.close()


@on_ranks(2)
def test_models_with_parts_that_torch_jit_has_compiled(rank: int) -> None:
    for whole in (False, True):
        for plan in ("gradients union density=10%", OWN):
            net = models.mlp()
            module = torch.jit.script(net if whole else net[2:])
            if not whole:
                module = nn.Sequential(net[0], net[1], module)
            model = models.ddp(module)
            optimizer = models.sgd(model)
            averager = pliant.attach(model, optimizer, plan)
            steps(model, optimizer, rank, 4)
            assert models.alike_on_all_ranks(flat_state(model.state_dict()))
            assert models.alike_on_all_ranks(outputs(model))
            steps(model, optimizer, rank, 3)
            averager.close()
            assert models.alike_on_all_ranks(models.flat(model))


@on_ranks(2)
def test_torch_jit_script_says_what_to_do(rank: int) -> None:
    model, optimizer, averager = begin(OWN)
    steps(model, optimizer, rank, 4)
    net = model.module
    with pytest.raises(AttributeError, match=r"averager\.close\(\) first"):
        torch.jit.script(net)
    averager.close()
    torch.jit.script(net)
