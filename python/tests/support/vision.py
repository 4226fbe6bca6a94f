# SPDX-License-Identifier: MIT
"""Small images and a small CNN, for tests that train until something is reached."""

from __future__ import annotations

import functools
import gzip
import os
from pathlib import Path

import pytest
import torch
from torch import nn

CLASSES = 10


def images(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Generated: a pattern of its class under noise, 8 x 8."""
    patterns = torch.randn(CLASSES, 1, 8, 8, generator=torch.Generator().manual_seed(77))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (count,), generator=generator)
    return 0.3 * patterns[labels] + torch.randn(count, 1, 8, 8, generator=generator), labels


def small_cnn(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, CLASSES),
    )


def loss_of(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def evaluate(module: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> float:
    module.eval()
    with torch.no_grad():
        loss = loss_of(module, batch).item()
    module.train()
    return loss


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: tuple[torch.Tensor, torch.Tensor]
) -> None:
    optimizer.zero_grad()
    loss_of(model, batch).backward()
    optimizer.step()


# --- real data ---

_FOLDERS = (os.environ.get("PLIANT_FASHION_MNIST", ""), "/usr/share/datasets/fashion-mnist")


def _read(path: Path, header: int) -> torch.Tensor:
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def _files() -> list[Path]:
    """Images and labels, as Debian's dataset-fashion-mnist has them."""
    for folder in filter(None, _FOLDERS):
        found = [
            next(Path(folder).rglob(f"train-{what}*.gz"), None) for what in ("images", "labels")
        ]
        if None not in found:
            return found  # type: ignore[return-value]
    return []


def needs_clothes() -> None:
    if not _files():
        pytest.skip(
            "Fashion-MNIST is not here: apt-get install dataset-fashion-mnist, or set "
            "PLIANT_FASHION_MNIST to its folder"
        )


@functools.cache
def clothes() -> tuple[torch.Tensor, torch.Tensor]:
    """Fashion-MNIST, the first 20,000: images, made 14 x 14, and labels."""
    images, labels = _files()
    pixels = _read(images, 16).view(-1, 1, 28, 28)[:20_000].float() / 255
    return nn.functional.avg_pool2d(pixels, 2) - 0.3, _read(labels, 8)[:20_000].long()


def clothes_held_back() -> tuple[torch.Tensor, torch.Tensor]:
    inputs, labels = clothes()
    return inputs[:1000], labels[:1000]


def cnn_for_clothes(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(  # 38,282 parameters
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def clothes_batch(
    rank: int, step: int, seed: int, size: int = 32
) -> tuple[torch.Tensor, torch.Tensor]:
    inputs, labels = clothes()
    chosen = torch.randint(
        1000,
        len(labels),
        (size,),
        generator=torch.Generator().manual_seed(1_000_003 * seed + 101 * step + rank),
    )
    return inputs[chosen], labels[chosen]
