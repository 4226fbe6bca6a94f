# SPDX-License-Identifier: MIT
"""A rank that dies or stops with exchanges in flight: the others say so, by name."""

from __future__ import annotations

import os
import signal
import time

import pytest

import models
import world

DEADLINE = 4.0


def fail(rank: int, size: int, how: str, plan: str) -> tuple[str, float]:
    import pliant

    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, plan, deadline=DEADLINE)
    begin = time.monotonic()
    with pytest.raises(pliant.CommError) as caught:
        for number in range(100_000):
            if rank == 1 and number == 9:
                os.kill(os.getpid(), getattr(signal, how))
            begin = time.monotonic()
            models.step(model, optimizer, rank, number)
    waited = time.monotonic() - begin
    assert caught.value.rank == rank
    with pytest.raises(pliant.CommError), averager.settled():
        pass
    averager.close()
    return str(caught.value), waited


@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
@pytest.mark.parametrize("plan", ["updates every=1 late=4 union density=5%", "updates every=2 late=0 srs density=5%"])
def test_the_others_name_the_culprit(how: str, plan: str) -> None:
    results = world.run(fail, how, plan, ranks=3, expected_to_die=(1,), farewell=False)
    for rank in (0, 2):
        text, waited = results[rank]
        assert "rank 1" in text, results
        print(f"rank {rank} after {waited:.1f} s: {text}")
