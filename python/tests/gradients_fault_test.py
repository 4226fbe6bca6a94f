# SPDX-License-Identifier: MIT
"""A rank that dies, stops or fails: the others say so, by name, and nobody hangs."""

from __future__ import annotations

import os
import signal
import time

import pytest
import torch

from support import models, world


DEADLINE = 4.0
# After its deadline a rank looks at the others' words for up to 2 s. Four times as long where the
# machine is busy with other things.
PATIENCE = 4 * (DEADLINE + 3)


class Failing(torch.autograd.Function):
    """Passes through, and fails in backward."""

    @staticmethod
    def forward(context: object, tensor: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context: object, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        raise ValueError("failing in the middle of backward, as asked")


def fail(rank: int, size: int, how: str, plan: str) -> str:
    import pliant

    # Many buckets: the last layers' have been handed over when the first one's backward fails.
    model = models.ddp(models.mlp(), bucket_cap_mb=0.0001)
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, plan, deadline=DEADLINE)
    begin = time.monotonic()
    with pytest.raises(pliant.CommError) as caught:
        for number in range(1000):
            if rank == 1 and number == 3:
                if how.startswith("exception"):
                    model.module[2].register_forward_hook(
                        lambda layer, inputs, output: Failing.apply(output)
                    )  # type: ignore[no-untyped-call]
                    try:
                        models.step(model, optimizer, rank, number)
                    except ValueError as error:
                        assert "in the middle of backward" in str(error)
                        if how == "exception, caught":
                            time.sleep(1000)  # as in a notebook: the process lives on
                        raise SystemExit(1) from error
                os.kill(os.getpid(), getattr(signal, how))
            begin = time.monotonic()
            models.step(model, optimizer, rank, number)
    waited = time.monotonic() - begin
    assert waited < PATIENCE, waited
    assert caught.value.rank == rank
    assert (caught.value.culprit == 1) == ("All waits lead to rank 1" in str(caught.value))
    assert caught.value.__class__ is pliant.CommError
    with pytest.raises(pliant.CommError):
        models.step(model, optimizer, rank, 0)
    with pytest.raises(pliant.CommError):
        averager.set_plan("gradients dense")
    averager.close()
    # The process group of the user is in no better shape: end as a crash would, without saying
    # good-bye to it.
    print(f"rank {rank} after {waited:.1f} s: {caught.value}", flush=True)
    if rank == 0:
        time.sleep(5)  # it keeps the store, where the others ask whom everybody waits for
    return str(caught.value)


SPARSE = "gradients union density=5%"


@pytest.mark.parametrize(
    ("how", "plan"),
    [
        ("SIGKILL", SPARSE),
        ("SIGSTOP", SPARSE),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("SIGKILL", "gradients dense"),
                ("SIGKILL", "gradients srs density=5%"),
                ("exception", SPARSE),
                ("exception, caught", SPARSE),
            )
        ),
    ],
)
def test_the_others_name_the_culprit(how: str, plan: str) -> None:
    texts = world.run(fail, how, plan, ranks=3, expected_to_die=(1,), farewell=False)
    for rank in (0, 2):
        assert "rank 1" in texts[rank], texts
    assert any("All waits lead to rank 1" in texts[rank] for rank in (0, 2)), texts
