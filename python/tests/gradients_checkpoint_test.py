# SPDX-License-Identifier: MIT
"""Checkpoints: training that is interrupted comes to the same bits as training that is not."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from support import models, world


PLANS = (
    "gradients union density=10% values=int8",
    "gradients shared/var density=10% fuse=all",
    "gradients dense",
)


def resume(rank: int, size: int, folder: str) -> None:
    import pliant

    for number, plan in enumerate(PLANS):
        model = models.ddp(models.mlp())
        optimizer = models.sgd(model)
        averager = pliant.attach(model, optimizer, plan)
        for step in range(10):
            if step == 5:
                torch.save(averager.state_dict(), f"{folder}/{number}-{rank}.pt")
                weights, momentum = (
                    copy.deepcopy(model.module.state_dict()),
                    copy.deepcopy(optimizer.state_dict()),
                )
            models.step(model, optimizer, rank, step)
        averager.close()

        other = models.ddp(models.mlp(seed=9))
        second = models.sgd(other)
        saved = torch.load(f"{folder}/{number}-{rank}.pt", weights_only=True)
        if number % 2:  # in either order
            resumed = pliant.attach(other, second, plan)
            resumed.load_state_dict(saved)
            other.module.load_state_dict(weights)
            second.load_state_dict(momentum)
        else:
            other.module.load_state_dict(weights)
            second.load_state_dict(momentum)
            resumed = pliant.attach(other, second, plan)
            resumed.load_state_dict(saved)
        for step in range(5, 10):
            models.step(other, second, rank, step)
        assert torch.equal(models.flat(model), models.flat(other)), plan
        assert (resumed.summary().steps, resumed.summary().rounds) == (5, 10)
        if number == 0:
            refuses(rank, size, resumed, saved)
        resumed.close()


def refuses(rank: int, size: int, averager: Any, saved: dict[str, Any]) -> None:
    import pliant

    for change, words in (
        ({"world_size": size + 1}, "pliant.reshard"),
        ({"rank": rank + 1}, "each rank has its own"),
        (
            {"parameters": {**saved["parameters"], "0.weight": [3, 3]}},
            "0.weight is [3, 3] in the state and [32, 10]",
        ),
        ({"parameters": {"else": [1]}}, "another model"),
        ({"format": 99}, "format 99"),
    ):
        with pytest.raises(pliant.ContractError) as caught:
            averager.load_state_dict({**saved, **change})
        assert words in str(caught.value)


def three_go_on_as_two(rank: int, size: int, folder: str) -> None:
    import pliant

    states = [torch.load(f"{folder}/0-{old}.pt", weights_only=True) for old in range(3)]
    mine = pliant.reshard(states, size)[rank]
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, PLANS[0])
    averager.load_state_dict(mine)
    residuals = averager.state_dict()["residual"]
    assert residuals.keys() == mine["parameters"].keys()
    for name, residual in residuals.items():
        mean = sum(state["residual"][name] for state in states) / 3
        torch.testing.assert_close(residual, mean)
    for step in range(5, 8):
        models.step(model, optimizer, rank, step)
    assert models.alike_on_all_ranks(models.flat(model))
    averager.close()


def all_or_none(rank: int, size: int, with_optimizer: bool) -> None:
    import pliant

    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, PLANS[0])
    for step in range(3):
        models.step(model, optimizer, rank, step)
    saved = averager.state_dict()
    averager.close()
    mine = saved if rank == 0 else None
    if with_optimizer:  # loading is collective then
        averager = pliant.attach(model, optimizer, PLANS[0])
        with pytest.raises(
            pliant.DisagreementError,
            match="rank 0 has one of kind gradients, exchange 3 and rank 1 none",
        ):
            averager.load_state_dict(mine)
        return
    averager = pliant.attach(model, plan=PLANS[0])
    averager.load_state_dict(mine)
    with pytest.raises(pliant.DisagreementError) as caught:
        models.step(model, optimizer, rank, 3)
    for words in (
        "on all ranks or on none",
        "rank 0 has round 3",
        "rank 1 has round 0",
        "no state loaded",
    ):
        assert words in str(caught.value), str(caught.value)


@pytest.mark.parametrize("with_optimizer", [True, False])
def test_a_state_that_one_rank_misses(with_optimizer: bool) -> None:
    world.run(all_or_none, with_optimizer, ranks=2, farewell=False)


def test_resumed_training_is_bit_identical(tmp_path: Any) -> None:
    world.run(resume, str(tmp_path), ranks=3)
    world.run(three_go_on_as_two, str(tmp_path), ranks=2)


def test_reshard_refuses_what_does_not_belong_together() -> None:
    import pliant

    state = {
        "format": 1,
        "rank": 0,
        "world_size": 2,
        "parameters": {"a": [2]},
        "plan": "auto",
        "kind": "gradients",
        "policy": "",
        "epoch": 0,
        "step": 3,
        "exchanges": 3,
        "units": [["a"]],
        "voted": [],
    }
    state |= {"last_norm": 0.0, "residual": {"a": torch.ones(2)}}
    other = {**state, "rank": 1, "residual": {}}
    resharded = pliant.reshard([other, state], 3)
    assert [new["rank"] for new in resharded] == [0, 1, 2]
    assert all(torch.equal(new["residual"]["a"], torch.full((2,), 0.5)) for new in resharded)
    for states, size, words in (
        ([state], 2, "each of the 2 ranks"),
        ([state, {**other, "step": 4}], 2, "step is 3 on rank 0 and 4 on rank 1"),
        ([], 2, "no states"),
        ([state, other], 0, "world_size=0: allowed is a whole number from 1"),
        ([state, {}], 2, r"states\[1\]: empty"),
        ([state, {"a.weight": torch.ones(2)}], 2, r"states\[1\].*no 'format'"),
    ):
        with pytest.raises(ValueError, match=words):
            pliant.reshard(states, size)
    for states, size, words in (
        (5, 2, "states=5: allowed is a list"),
        ([state, 5], 2, r"states\[1\]=5: allowed is a dict"),
        ([state, other], "2", "world_size='2': allowed is a whole number"),
    ):
        with pytest.raises(TypeError, match=words):
            pliant.reshard(states, size)  # type: ignore[arg-type]
