# SPDX-License-Identifier: MIT
"""Training in host memory and on the late device, in ranks that registered it by themselves."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from support import models


def on_device(rank: int, size: int) -> Any:
    """Registers the device in this rank, and makes a process group that has a backend for it."""
    import late_device

    from support import late_backend  # noqa: F401

    dist.init_process_group("cpu:gloo,late:staged")
    late_device.set_delays(seed=rank + 1, most=500, period=4)
    return late_device


def leave() -> None:
    dist.barrier()
    dist.destroy_process_group()


def train(
    rank: int,
    device: str,
    plan: str | None,
    steps: int = 6,
    make: Any = models.mlp,
    optimizer: Any = models.sgd,
    **options: Any,
) -> torch.Tensor:
    import pliant

    model = models.ddp(make().to(device), bucket_cap_mb=0.004)
    chosen = optimizer(model)
    averager = pliant.attach(model, chosen, plan, **options) if plan else None
    for number in range(steps):
        inputs, targets = (tensor.to(device) for tensor in models.batch(rank, number))
        chosen.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        chosen.step()
    if averager is not None:
        averager.close()
    return models.flat(model).cpu()
