# SPDX-License-Identifier: MIT
"""Search for plain DDP's learning rate: `python -m pliant.demo.tune [STEPS]`.

One process with the batch of all hosts does the same arithmetic as DDP, to rounding. Prints the
final loss on held-back images for each rate and seed."""

from __future__ import annotations

import statistics
import sys

import torch

from pliant.demo import data, model
from pliant.demo.settings import BATCH, MOMENTUM, Settings

RATES = (0.02, 0.05, 0.1, 0.2)
SEEDS = (11, 12, 13)  # others than the demonstration's


def final_loss(rate: float, seed: int, steps: int, hosts: int, found: data.Data) -> float:
    network = model.cnn(seed)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate, momentum=MOMENTUM)
    for step in range(steps):
        parts = [
            data.batch(found.train, BATCH, rank=rank, step=step, seed=seed) for rank in range(hosts)
        ]
        model.train_step(
            network,
            optimizer,
            (torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])),
        )
    return model.judge(network, found.test)[0]


def main() -> None:
    settings = Settings(out="")
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else settings.steps
    found = data.load()
    print(
        f"{found.name}, {steps} steps: loss on held-back images for seeds "
        f"{', '.join(map(str, SEEDS))}; median"
    )
    for rate in RATES:
        losses = [final_loss(rate, seed, steps, settings.hosts, found) for seed in SEEDS]
        print(
            f"{rate:5g}  "
            + "  ".join(f"{loss:.3f}" for loss in losses)
            + f"  {statistics.median(losses):.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
