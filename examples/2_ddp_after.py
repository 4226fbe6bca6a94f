# SPDX-License-Identifier: MIT
"""A complete DDP training script, on data it makes itself.

Run: torchrun --nproc-per-node 2 2_ddp_after.py"""

import argparse

import pliant
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def make_data(examples: int = 2048) -> TensorDataset:
    """Pictures of 12 x 12 with a bright horizontal or vertical bar, in noise: which one is it?"""
    generator = torch.Generator().manual_seed(1)
    pictures = torch.randn(examples, 1, 12, 12, generator=generator)
    labels = torch.randint(2, (examples,), generator=generator)
    places = torch.randint(12, (examples,), generator=generator)
    for picture, label, place in zip(pictures, labels, places):
        (picture[0, place] if label == 0 else picture[0, :, place]).add_(3)
    return TensorDataset(pictures, labels)


def make_model() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2048, 64),
        nn.ReLU(),
        nn.Linear(64, 2),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    epochs = parser.parse_args().epochs
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    data = make_data()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)

    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    averager = pliant.attach(model, optimizer)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        right = 0
        for pictures, labels in loader:
            optimizer.zero_grad()
            scores = model(pictures)
            nn.functional.cross_entropy(scores, labels).backward()
            optimizer.step()
            scheduler.step()
            right += int((scores.argmax(1) == labels).sum())
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: accuracy {right / len(sampler):.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
