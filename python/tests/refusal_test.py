# SPDX-License-Identifier: MIT
"""Tests that unsupported uses are refused with a message that names the reason and a remedy."""

from __future__ import annotations

import datetime
import logging
from collections import OrderedDict
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from pliant.options import Options
from support import models, world
from support.messages import Messages


def refusals(rank: int, size: int) -> None:
    import pliant

    def refused(error: type[Exception], words: str, *arguments: object, **options: object) -> None:
        with pytest.raises(error) as caught:
            pliant.attach(*arguments, **options)  # type: ignore[arg-type]
        assert words in str(caught.value), str(caught.value)

    refused(pliant.UnsupportedError, "DistributedDataParallel(model)", models.mlp())

    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    refused(
        pliant.UnsupportedError,
        "FSDP",
        FullyShardedDataParallel(models.mlp(), device_id=torch.device("cpu")),
    )
    refused(
        pliant.UnsupportedError,
        "FSDP",
        fully_shard(models.mlp(), mesh=init_device_mesh("cpu", (size,))),
    )

    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = models.ddp(models.mlp())
    zero = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    refused(pliant.UnsupportedError, "ZeroRedundancyOptimizer", model, zero)
    refused(pliant.UnsupportedError, "Optimizer", model, object())
    refused(pliant.UnsupportedError, "float64", models.ddp(models.mlp().double()))

    class Waves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.phase = nn.Parameter(torch.ones(3, dtype=torch.complex64))

    refused(pliant.UnsupportedError, "complex", models.ddp(Waves()))
    hooked = models.ddp(models.mlp())
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    hooked.register_comm_hook(None, allreduce_hook)
    refused(pliant.UnsupportedError, "allreduce_hook", hooked)
    built_in = models.ddp(models.mlp())
    built_in._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    refused(pliant.UnsupportedError, "a communication hook already", built_in)

    refused(
        ValueError,
        "plan: reduce= does not know 'rings' (did you mean 'ring'?)",
        model,
        None,
        "gradients dense reduce=rings",
    )
    refused(ValueError, "warm_up=", model, plan="union density=1%", ramp=True)


_WRONG_TYPES = [
    ("plan", None, "'auto' or any part of a plan"),
    ("plan", 5, "text"),
    ("deadline", [30], "seconds"),
    ("deadline", True, "seconds"),
    ("lanes", "2", "whole number from 0 to 32"),
    ("lanes", 2.0, "whole number"),
    ("lanes", True, "whole number"),
    ("lanes", None, "whole number"),
    ("clip_norm", "1.0", "number above 0"),
    ("clip_norm", torch.ones(300, 300), "number above 0"),
    ("warm_up", 1.5, "whole number"),
    ("warm_up", "8", "whole number"),
    ("ramp", "yes", "True or False"),
    ("check_every", None, "whole number"),
    ("scaler", True, "GradScaler"),
    ("buffers", "no", "True or False"),
    ("clear_momentum", "x", "True, False or None"),
    ("policy", 1, "'auto', 'knee' or 'fixed'"),
    ("dials", "p=0.3", "{'p': 0.3}"),
    ("dials", {5: 0.3}, "{'p': 0.3}"),
    ("dials", {"p": "0.3"}, "number"),
    ("log", 5, "path"),
    ("log", b"run.jsonl", "path"),
    ("name", 5, "text"),
    ("metrics", True, "port"),
    ("metrics", ["9095"], "port"),
]
_WRONG_VALUES = [
    ("deadline", "5 apples", "10ms, 2s"),
    ("deadline", 0, "seconds above 0"),
    ("deadline", float("inf"), "seconds"),
    ("deadline", float("nan"), "seconds"),
    ("lanes", -1, "whole number from 0 to 32"),
    ("lanes", 1000, "whole number from 0 to 32"),
    ("clip_norm", 0, "number above 0"),
    ("warm_up", -1, "whole number from 0"),
    ("check_every", 10**30, "whole number"),
    ("policy", "quick", "'auto', 'knee' or 'fixed'"),
    ("dials", {"p": 3}, "0 to 1"),
    ("dials", {"speed": 3}, "least_density_updates"),
    ("log", "", "path"),
    ("log", "run-{ranks}.jsonl", "{rank} stands for"),
    ("metrics", 70000, "port"),
]


@pytest.mark.parametrize(
    ("error", "name", "value", "allowed"),
    [(TypeError, *row) for row in _WRONG_TYPES] + [(ValueError, *row) for row in _WRONG_VALUES],
)
def test_a_wrong_argument_is_refused_in_one_sentence(
    error: type[Exception], name: str, value: object, allowed: str
) -> None:
    import pliant

    make: Any = Options if name in ("buffers", "clear_momentum") else pliant.comm_hook
    with pytest.raises(error) as caught:
        make(**{name: value})
    text = str(caught.value)
    assert name.removesuffix("s") in text and allowed in text, text
    assert "\n" not in text and len(text) < 250, text


def test_numbers_of_numpy_and_torch_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    options = Options(lanes=numpy.int64(1), clip_norm=torch.tensor(2.0), deadline=numpy.float32(3))  # type: ignore[arg-type]
    assert options.clip_norm == 2.0 and options.deadline_seconds == 3.0


def test_other_calls_with_wrong_arguments_are_refused_in_one_sentence() -> None:
    import pliant

    with pytest.raises(TypeError, match="model=5: allowed is"):
        pliant.comm_hook(model=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="process_group='world': allowed is"):
        pliant.comm_hook(process_group="world")  # type: ignore[arg-type]
    averager, _ = pliant.comm_hook()
    untyped: Any = averager
    for call, words in (
        (lambda: untyped.set_plan(None), "plan=None: allowed is 'auto'"),
        (lambda: untyped.tell_network(100), "link=100: allowed is a network"),
        (lambda: untyped.note(loss="low"), "note: loss='low': allowed is a number"),
        (lambda: untyped.note(loss=torch.ones(2)), "note: loss=tensor.*: allowed is a number"),
        (lambda: untyped.phase(5), "phase: name=5: allowed is one line"),
        (lambda: untyped.state_dict(parameters="no"), "parameters='no': allowed is True"),
        (lambda: untyped.load_state_dict([1]), r"state=\[1\]: allowed is a dict"),
    ):
        with pytest.raises(TypeError, match=words):
            call()
    with pytest.raises(ValueError, match="state: not a dict .* no 'format'"):
        averager.load_state_dict({"0.weight": torch.ones(2)})


def disagreements(rank: int, size: int) -> None:
    import pliant

    def disagree(words: list[str], model: nn.Module, *arguments: object, **options: object) -> None:
        with pytest.raises(pliant.DisagreementError) as caught:
            pliant.attach(models.ddp(model), *arguments, **options)  # type: ignore[arg-type]
        for word in words:
            assert word in str(caught.value), str(caught.value)

    disagree(["plan", "density=1%", "density=2%"], models.mlp(), None, f"union density={rank + 1}%")
    disagree(["lanes", "1", "2"], models.mlp(), lanes=rank + 1)
    disagree(["clip_norm"], models.mlp(), clip_norm=rank + 1.0)
    disagree(["check_every"], models.mlp(), check_every=rank)
    disagree(["warm_up:", "dense 8", "dense 9"], models.mlp(), warm_up=8 + rank)
    disagree(["dial p:", "0.3", "0.4"], models.mlp(), dials={"p": 0.3 + rank / 10})
    disagree(["dial better:", "1.5", "2.5"], models.mlp(), dials={"better": 1.5 + rank})
    module = models.mlp()
    disagree(
        ["clear_momentum", "True", "False"], module, models.sgd(module), clear_momentum=rank == 0
    )
    version = torch.__version__
    torch.__version__ = f"9.{rank}"  # type: ignore[assignment]
    disagree(["torch", "9.0", "9.1"], models.mlp())
    torch.__version__ = version

    layers = list(models.mlp())
    named = nn.Sequential(
        OrderedDict(
            {"first": layers[0], "second" if rank == 0 else "two": layers[2], "third": layers[4]}
        )
    )
    disagree(["parameter 2", "second.weight", "two.weight"], named)

    # A model that can be used afterwards: nothing is half attached.
    model = models.ddp(models.mlp())
    with pytest.raises(pliant.DisagreementError):
        pliant.attach(model, None, f"union density={rank + 1}%")
    optimizer = models.sgd(model)
    models.step(model, optimizer, rank, 0)
    averager = pliant.attach(model, optimizer, "union density=5%")
    models.step(model, optimizer, rank, 1)
    for change, words in (
        (averager.set_plan, "union density={}%"),
        (averager.tell_network, "{}mbit,10ms"),
    ):
        with pytest.raises(pliant.DisagreementError) as caught:
            change(words.format(rank + 1))
        assert words.format(1) in str(caught.value) and words.format(2) in str(caught.value)
    models.step(model, optimizer, rank, 2)  # as before
    assert models.alike_on_all_ranks(models.flat(model))
    averager.close()


def bare(rank: int, size: int) -> None:
    """The pair is made before the process group; the first step shows it the model."""
    import pliant

    pairs = [
        pliant.comm_hook("gradients union density=100%"),
        pliant.comm_hook("gradients union density=100%", deadline="60s"),
    ]
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    plain = models.ddp(models.mlp())
    theirs = models.sgd(plain)
    for number in range(5):
        models.step(plain, theirs, rank, number)
    for state, hook in pairs:
        model = models.ddp(models.mlp())
        model.register_comm_hook(state, hook)
        optimizer = models.sgd(model)
        for number in range(5):
            models.step(model, optimizer, rank, number)
        torch.testing.assert_close(models.flat(model), models.flat(plain), rtol=1e-5, atol=1e-6)
        assert state.summary().steps == 4
        assert list(state.state_dict()["parameters"]) == [str(i) for i in range(6)]
        state.close()
        models.step(model, optimizer, rank, 5)
        assert models.alike_on_all_ranks(models.flat(model))
    module = models.mlp()
    state, hook = pliant.comm_hook("gradients union density=10%", model=module)
    model = models.ddp(module)
    model.register_comm_hook(state, hook)
    optimizer = models.sgd(model)
    for number in range(3):
        models.step(model, optimizer, rank, number)
    assert state.summary().steps == 3
    assert "0.weight" in state.state_dict()["residual"]
    state.close()
    dist.destroy_process_group()


def alone(rank: int, size: int) -> None:
    import pliant

    for plan in ("gradients union density=1%", "updates every=4 late=1 union density=1%"):
        model, plain = models.ddp(models.mlp()), models.mlp()
        optimizers = [models.sgd(model), models.sgd(plain)]
        with Messages() as messages:
            messages.setLevel(logging.WARNING)
            averager = pliant.attach(model, optimizers[0], plan)
        assert messages.count("world size 1") == 1
        for number in range(6):
            models.step(model, optimizers[0], rank, number)
            models.step(plain, optimizers[1], rank, number)
            with averager.on_base(), averager.settled():
                assert torch.equal(models.flat(model), models.flat(plain))
        assert torch.equal(
            torch.cat([tensor.flatten() for tensor in averager.base().values()]), models.flat(plain)
        )
        averager.load_state_dict(averager.state_dict())
        averager.rebase()
        assert torch.equal(models.flat(model), models.flat(plain))
        print(averager.summary())
        averager.close()


def sub_groups(rank: int, size: int) -> None:
    """Ranks 0 and 2 average one model, ranks 1 and 2 another, all three a third."""
    import pliant

    for members in ([0, 2], [1, 2], [0, 1, 2]):
        group = dist.new_group(members)
        if rank in members:
            model = models.ddp(models.mlp(), process_group=group)
            optimizer = models.sgd(model)
            averager = pliant.attach(model, optimizer, "gradients union density=10%")
            for number in range(4):
                models.step(model, optimizer, rank, number)
            assert models.alike_on_all_ranks(models.flat(model), group)
            assert averager.state_dict()["world_size"] == len(members)
            averager.close()


def test_refusals() -> None:
    world.run(refusals, ranks=2)


def test_ranks_that_disagree() -> None:
    world.run(disagreements, ranks=2)


def test_the_bare_hook() -> None:
    world.run(bare, ranks=2, group=False)


def test_one_rank_alone() -> None:
    world.run(alone, ranks=1)


def test_sub_groups() -> None:
    world.run(sub_groups, ranks=3)
