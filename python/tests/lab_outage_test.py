# SPDX-License-Identifier: MIT
"""In the lab: ranks in hosts of their own, over a link that goes away for 20 s and comes back. With
the default deadline training goes on. Skipped, visibly, where the lab cannot run."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

LAB = os.environ.get("PLIANT_LAB", "")
OUTAGE_SECONDS = 20


def as_rank() -> None:
    """One rank's training, in a host of the lab. Rank 0 takes host 1's link down in mid-run and up
    again."""
    import torch.distributed as dist

    from support import models
    import pliant

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = models.ddp(models.mlp())
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, "gradients union density=5%")
    for number in range(12):
        if number == 6 and rank == 0:
            subprocess.run([LAB, "down", "1"], check=True, timeout=30)
            # The link comes back while every rank waits in the middle of its step.
            subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    f"import subprocess, time; time.sleep({OUTAGE_SECONDS}); "
                    f"subprocess.run([{LAB!r}, 'up', '1'], check=True)",
                ]
            )
        begin = time.monotonic()
        models.step(model, optimizer, rank, number)
        if number == 6:
            took = time.monotonic() - begin
            assert took > 0.8 * OUTAGE_SECONDS, (
                f"rank {rank} did not feel the outage: that step took {took:.1f} s"
            )
    assert averager.summary().steps == 12
    assert models.alike_on_all_ranks(models.flat(model))
    averager.close()
    print(f"rank {rank} is done", flush=True)
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.skipif(
    not LAB or not os.path.exists("/dev/net/tun") or os.geteuid() != 0,
    reason="needs pliant-lab, TUN and root",
)
def test_training_survives_an_outage() -> None:
    command = [
        LAB,
        "run",
        "--hosts",
        "3",
        "--link",
        "50mbit,2ms",
        "--timeout",
        "200s",
        "--",
        sys.executable,
        os.path.abspath(__file__),
        "rank",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count("is done") == 3, done.stdout


if __name__ == "__main__" and sys.argv[1:] == ["rank"]:
    as_rank()
