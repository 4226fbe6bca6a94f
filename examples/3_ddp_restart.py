# SPDX-License-Identifier: MIT
r"""Resumes from its last checkpoint when torchrun starts it again, to the same bits as without the
interruption.

Run: TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --standalone --nproc-per-node 2 \
         --max-restarts 2 3_ddp_restart.py --folder checkpoints

The variable gives each attempt a store of its own: in a shared one Gloo finds the addresses of
processes that are gone. Each rank keeps a file of its own: the averager's state (the residual)
differs between ranks. Under a plan of kind updates so do the parameters and the optimizer
(--plan "updates every=4 late=2 union density=5%").
"""

import argparse
import os
from pathlib import Path

import pliant
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def batch(step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    inputs = torch.randn(16, 20, generator=generator)
    return inputs, inputs[:, :1] * inputs[:, 1:2]


def save(path: Path, **what: object) -> None:
    """Whole or not at all: a rank may be stopped at any time."""
    torch.save(what, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--plan", default="gradients union density=5% values=int8")
    parser.add_argument(
        "--fail-at", type=int, default=-1, help="rank 1 fails at this step, the first time"
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank = dist.get_rank()

    torch.manual_seed(3)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    averager = pliant.attach(model, optimizer, plan=options.plan, deadline=20)

    # The newest checkpoint that every rank has.
    mine = max(
        (int(path.stem.split("-")[0]) for path in options.folder.glob(f"*-{rank}.pt")), default=0
    )
    first = torch.tensor(mine)
    dist.all_reduce(first, op=dist.ReduceOp.MIN)
    step = int(first)
    if step > 0:
        saved = torch.load(options.folder / f"{step}-{rank}.pt", weights_only=True)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        averager.load_state_dict(saved["averager"])
        print(f"rank {rank}: resumed at step {step}", flush=True)

    for step in range(step, options.steps):
        if (
            step == options.fail_at
            and rank == 1
            and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0"
        ):
            raise SystemExit("rank 1: failing, as asked")
        if step % 10 == 0 and step > 0:
            save(
                options.folder / f"{step}-{rank}.pt",
                model=model.module.state_dict(),
                optimizer=optimizer.state_dict(),
                averager=averager.state_dict(),
            )
        inputs, targets = batch(step, rank)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    averager.close()  # under updates ranks hold the same parameters from here on
    total = float(sum(parameter.detach().double().sum() for parameter in model.parameters()))
    print(
        f"rank {rank}: weights add up to {total.hex()}\n", end="", flush=True
    )  # in one piece: ranks share the terminal
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
