# SPDX-License-Identifier: MIT
"""A complete FSDP2 training script for two islands of ranks, on data it makes itself.

Run: torchrun --nproc-per-node 4 5_fsdp2_before.py"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def make_data(examples: int = 4096) -> TensorDataset:
    """Points in 16 dimensions: is the first half longer than the second?"""
    points = torch.randn(examples, 16, generator=torch.Generator().manual_seed(1))
    return TensorDataset(points, (points[:, :8].norm(dim=1) > points[:, 8:].norm(dim=1)).long())


def make_model() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(
        nn.Linear(16, 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, 2),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    epochs = parser.parse_args().epochs
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    data = make_data()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)

    mesh = init_device_mesh(
        "cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("across", "inside")
    )
    model = make_model()
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        right = 0
        for points, labels in loader:
            optimizer.zero_grad()
            scores = model(points)
            nn.functional.cross_entropy(scores, labels).backward()
            optimizer.step()
            right += int((scores.argmax(1) == labels).sum())
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: accuracy {right / len(sampler):.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
