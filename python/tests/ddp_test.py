# SPDX-License-Identifier: MIT
"""Training with DDP: dense is DDP, sparse conserves and keeps replicas alike."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from support import models, world


def train(rank: int, plan: str | None, steps: int, **options: object) -> torch.Tensor:
    import pliant

    model = models.ddp(models.mlp(), bucket_cap_mb=0.004, **options)
    optimizer = models.sgd(model)
    averager = pliant.attach(model, optimizer, plan) if plan else None
    for number in range(steps):
        models.step(model, optimizer, rank, number)
    result = models.flat(model)
    if averager:
        summary = averager.summary()
        assert summary.steps == steps, summary
        assert summary.bytes_sent > 0
        averager.close()
    return result


def dense_is_ddp(rank: int, size: int) -> None:
    """The engine exchanges DDP's own cut of the model, also while that changes: sums are taken in
    the same order at any size."""
    import pliant

    for plan in ("gradients dense", "gradients dense reduce=backend values=f32 fuse=bucket"):
        ours, plain = (models.ddp(models.mlp(), bucket_cap_mb=0.004) for _ in range(2))
        optimizers = [models.sgd(ours), models.sgd(plain)]
        averager = pliant.attach(ours, optimizers[0], plan)
        for number in range(8):
            models.step(ours, optimizers[0], rank, number)
            models.step(plain, optimizers[1], rank, number)
            assert torch.equal(models.flat(ours), models.flat(plain)), (plan, number)
        assert averager.summary().steps == 8
        averager.close()


def sparse_is_alike(rank: int, size: int) -> None:
    for plan in (
        "union density=5%",
        "shared/star density=5% values=f16",
        "srs density=5% values=int8",
        "shared/var density=10% fuse=all",
    ):
        assert models.alike_on_all_ranks(train(rank, "gradients " + plan, 8)), plan


def as_spawned(rank: int, port: int, size: int) -> None:
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size
    )
    sparse_is_alike(rank, size)
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.slow
def test_ranks_that_torch_spawns() -> None:
    torch.multiprocessing.spawn(as_spawned, args=(world.free_port(), 2), nprocs=2)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    "ranks", [pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(4, marks=pytest.mark.slow)]
)
def test_dense_is_ddp_bit_for_bit(ranks: int) -> None:
    world.run(dense_is_ddp, ranks=ranks)


def test_replicas_stay_alike() -> None:
    world.run(sparse_is_alike, ranks=3)
