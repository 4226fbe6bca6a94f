# SPDX-License-Identifier: MIT
"""Small convolutional network for images of 28 x 28, and its evaluation."""

from __future__ import annotations

import torch
from torch import nn

from pliant.demo.data import CLASSES, Images


def cnn(seed: int) -> nn.Module:
    """206,922 parameters, nearly all of them in one layer: little to compute, much to exchange, as
    large models are on large machines."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 128),
        nn.ReLU(),
        nn.Linear(128, CLASSES),
    )


def loss_of(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: tuple[torch.Tensor, torch.Tensor]
) -> None:
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(loss_of(model, batch))
    optimizer.step()


def judge(model: nn.Module, images: Images, count: int | None = None) -> tuple[float, float]:
    """(loss, accuracy) on the first `count` images. Pass the module inside DDP: nothing is
    communicated."""
    count = len(images) if count is None else min(count, len(images))
    loss = right = 0.0
    was_training = model.training
    model.eval()
    with torch.no_grad():
        for begin in range(0, count, 500):
            inputs, labels = images.at(slice(begin, min(begin + 500, count)))
            scores = model(inputs)
            loss += nn.functional.cross_entropy(scores, labels, reduction="sum").item()
            right += (scores.argmax(1) == labels).sum().item()
    model.train(was_training)
    return loss / count, right / count
