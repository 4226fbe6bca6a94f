# SPDX-License-Identifier: MIT
"""A rank that dies, stops or fails with exchanges in flight, wherever the others are: they say so,
by name, and nobody hangs."""

from __future__ import annotations

import datetime
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch.distributed as dist
from torch.distributed.algorithms.join import Join

from support import models, world


DEADLINE = 4.0
PLAN = "updates every=1 late=4 union density=5%"


def fail(how: str) -> None:
    if how == "exception":
        raise ValueError("failing, as asked")
    os.kill(os.getpid(), getattr(signal, how))


def failing(how: str) -> Callable[..., Any]:
    return lambda *_, **__: fail(how)


def on_some_rank(rank: int, size: int, how: str, where: str, plan: str) -> str:
    """Rank 1 fails; what the others raise."""
    import pliant

    model = models.ddp(models.conv())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, plan, deadline=DEADLINE)
    if rank == 1 and where == "late in settling":
        averager._attachment.support.driver._equalizer.settled = failing(how)  # type: ignore[union-attr,method-assign]  # the others are at the desk
    if rank == 1 and where == "changing kind":
        pliant.updates.merge_optimizers.merge = failing(how)

    def train() -> None:
        for number in range(100_000):
            if number == 9:
                if where.endswith("settling"):
                    if rank == 1 and where == "settling":
                        fail(how)
                    with averager.settled():
                        raise AssertionError("settled without rank 1")
                if where == "changing kind":
                    averager.set_plan("gradients dense")
                if where == "stepping" and rank == 1:
                    fail(how)
            models.step(model, optimizer, rank, number)

    begin = time.monotonic()
    with pytest.raises(pliant.CommError) as caught:
        train()
    print(
        f"rank {rank}, {how} while {where}, after {time.monotonic() - begin:.1f} s: {caught.value}",
        flush=True,
    )
    assert caught.value.rank == rank
    with pytest.raises(pliant.CommError):  # and again, instead of waiting once more
        for number in range(9):
            models.step(model, optimizer, rank, number)
    averager.close()
    if rank == 0:
        time.sleep(5)  # it keeps the store, where the others ask whom everybody waits for
    return str(caught.value)


EVERYWHERE = ("stepping", "settling", "late in settling", "changing kind")


@pytest.mark.parametrize(
    ("how", "where", "plan"),
    [
        ("SIGKILL", "stepping", PLAN),
        ("SIGSTOP", "changing kind", PLAN),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                *(("SIGKILL", where, PLAN) for where in EVERYWHERE[1:]),
                *(("SIGSTOP", where, PLAN) for where in EVERYWHERE[:-1]),
                ("exception", "stepping", PLAN),
                ("exception", "changing kind", PLAN),
                ("SIGKILL", "stepping", "updates every=2 late=0 srs density=5%"),
                ("SIGKILL", "stepping", "updates every=1 late=2 dense"),
            )
        ),
    ],
)
def test_the_others_name_the_culprit(how: str, where: str, plan: str) -> None:
    texts = world.run(on_some_rank, how, where, plan, ranks=3, expected_to_die=(1,), farewell=False)
    assert "rank 1" in texts[0] and "rank 1" in texts[2], texts


def in_join(rank: int, size: int, how: str) -> str:
    """Rank 2 has run out of data and serves; rank 1 fails; rank 0 trains. Who waits in Join waits
    in torch's own all-reduce, and raises torch's own error."""
    import pliant

    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, PLAN, deadline=DEADLINE)
    with (
        pytest.raises(
            RuntimeError if rank == 2 else pliant.CommError,
            match="(?i)connection|timed? ?out" if rank == 2 else "rank 1",
        ) as caught,
        Join([model, averager]),
    ):
        for number in range(4 if rank == 2 else 100_000):
            if rank == 1 and number == 9:
                fail(how)
            models.step(model, optimizer, rank, number)
    time.sleep(
        8
    )  # while others ask: rank 0 keeps the store, and rank 2's lanes find out for themselves whom they wait for
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
def test_the_others_name_the_culprit_in_join(how: str) -> None:
    texts = world.run(in_join, how, ranks=3, group=False, expected_to_die=(1,), farewell=False)
    assert "rank 1" in texts[0], texts
