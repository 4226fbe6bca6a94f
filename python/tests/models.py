# SPDX-License-Identifier: MIT
"""Small models and data for tests; the same on every rank that asks with the same seed."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def mlp(seed: int = 1, width: int = 32) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(10, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2)
    )


def batch(rank: int, step: int, size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(size, 10, generator=generator)
    return inputs, torch.stack([inputs.sum(1), inputs[:, 0] * inputs[:, 1]], 1)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int, number: int) -> float:
    inputs, targets = batch(rank, number)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


def sgd(model: nn.Module, momentum: float = 0.9) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=momentum)


def ddp(model: nn.Module, **options: object) -> DistributedDataParallel:
    return DistributedDataParallel(model, **options)  # type: ignore[arg-type]


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().float().flatten() for parameter in model.parameters()])


def alike_on_all_ranks(tensor: torch.Tensor, group: object = None) -> bool:
    import torch.distributed as dist

    size = dist.get_world_size(group)  # type: ignore[arg-type]
    every = [torch.empty_like(tensor) for _ in range(size)]
    dist.all_gather(every, tensor.contiguous(), group=group)  # type: ignore[arg-type]
    return all(torch.equal(every[0], other) for other in every)
