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


def conv() -> nn.Module:
    torch.manual_seed(5)
    layers = nn.Sequential(
        nn.Unflatten(1, (1, 2, 5)),
        nn.Conv2d(1, 4, 2),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 4, (1, 2)),
        nn.Flatten(),
        nn.Linear(12, 2),
    )
    return layers.to(memory_format=torch.channels_last)


class Branches(nn.Module):
    """Some parameters are used on some ranks, some on none, one is frozen, one is used twice, one
    half is tied to another."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.shared = nn.Linear(10, 10)
        self.even, self.odd, self.never = (nn.Linear(10, 2) for _ in range(3))
        self.frozen = nn.Linear(10, 10).requires_grad_(False)
        self.odd.bias = self.even.bias
        self.choice = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.shared(torch.relu(self.shared(self.frozen(inputs))))
        result: torch.Tensor = (self.odd if self.choice % 2 else self.even)(hidden)
        return result


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.table = nn.Embedding(50, 10, sparse=True)
        self.head = nn.Linear(10, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.table((inputs[:, 0].abs() * 20).long() % 50))
        return result


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
    """In host memory, wherever the model is."""
    return torch.cat([each.detach().float().flatten().cpu() for each in model.parameters()])


def alike_on_all_ranks(tensor: torch.Tensor, group: object = None) -> bool:
    import torch.distributed as dist

    size = dist.get_world_size(group)  # type: ignore[arg-type]
    every = [torch.empty_like(tensor) for _ in range(size)]
    dist.all_gather(every, tensor.contiguous(), group=group)  # type: ignore[arg-type]
    return all(torch.equal(every[0], other) for other in every)
