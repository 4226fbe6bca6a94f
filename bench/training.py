# SPDX-License-Identifier: MIT
"""Helpers that the benchmarks of training share: a model of 25 million parameters, ranks as
processes, steps that are timed in turns."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import figures
from pace import Pace

LAB = figures.ROOT / "build" / "release" / "tools" / "pliant-lab" / "pliant-lab"
WIDTH = 2240  # five square layers: 25.1 million parameters
SMALL_WIDTH = 560  # 1.6 million: coding for four ranks takes two cores little time beside the step
LAYERS = 5
BATCH = 24


def rank() -> int:
    return int(os.environ["RANK"])


def make_model(width: int = WIDTH, depth: int = LAYERS) -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def one_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    inputs: torch.Tensor,
    pace: Pace | None = None,
) -> None:
    optimizer.zero_grad(set_to_none=True)
    if pace:
        pace.begin()
    loss = model(inputs).square().mean()
    if pace:
        pace.forward_done()
    loss.backward()
    optimizer.step()


class Contender:
    """A model under plain DDP, or with an averager; with `updates` that has the optimizer too. A
    turn is `turn` steps. With `compute` a step's own work takes that many seconds (pace.py) and the
    model is the small one: the wire's time can be hidden on two cores, but two ranks' processor
    time cannot."""

    def __init__(
        self,
        plan: str | None,
        turn: int,
        *,
        updates: bool = False,
        compute: float = 0.0,
        **options: object,
    ) -> None:
        import pliant

        self.turn = turn
        width = SMALL_WIDTH if compute else WIDTH
        model = make_model(width)
        self.pace = Pace(model, compute) if compute else None
        self.model = DistributedDataParallel(
            model, bucket_cap_mb=25 * (width / WIDTH) ** 2
        )  # a layer each
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=1e-4, momentum=0.9 if updates else 0.0
        )
        self.averager = (
            None
            if plan is None
            else pliant.attach(
                self.model, self.optimizer if updates else None, plan=plan, **options
            )
        )
        self.inputs = torch.randn(BATCH, width)

    def steps(self, count: int | None = None) -> None:
        for _ in range(self.turn if count is None else count):
            one_step(self.model, self.optimizer, self.inputs, self.pace)

    def local_steps(self, count: int | None = None) -> None:
        with self.model.no_sync():
            self.steps(count)


def timed(work: Callable[[], None]) -> float:
    """Seconds until all ranks are done, from when all were ready."""
    dist.barrier()
    begin = time.perf_counter()
    work()
    dist.barrier()
    return time.perf_counter() - begin


def start() -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo")


def say(**result: object) -> None:
    """From rank 0 to the benchmark."""
    if rank() == 0:
        print("RESULT " + json.dumps(result), flush=True)


def result_of(output: str) -> dict[str, object]:
    for line in output.splitlines():
        if "RESULT " in line:
            return json.loads(line.split("RESULT ", 1)[1])
    raise RuntimeError(f"no result in:\n{output[-4000:]}")


# Gradients are freed and allocated anew in every step. Whether malloc returns their pages to the
# system in between, only to fault them in again, is the luck of addresses: it made two models under
# plain DDP in one process differ as much as what is measured here.
KEEPS_PAGES = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 36),
}


def environment() -> dict[str, str]:
    packages = [
        str(figures.ROOT / "build" / "release" / "python"),
        str(figures.ROOT / "python"),
        str(figures.ROOT / "bench"),
    ]
    return {
        **os.environ,
        **KEEPS_PAGES,
        "PYTHONPATH": os.pathsep.join(packages),
        "OMP_NUM_THREADS": "1",
    }


def on_loopback(script: Path, role: list[str], ranks: int, timeout: float) -> dict[str, object]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    processes = []
    for r in range(ranks):
        place = {
            "RANK": str(r),
            "WORLD_SIZE": str(ranks),
            "LOCAL_RANK": str(r),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        processes.append(
            subprocess.Popen(
                [sys.executable, str(script), *role],
                env={**environment(), **place, "GLOO_SOCKET_IFNAME": "lo"},
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    try:
        outputs = [process.communicate(timeout=timeout)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(process.returncode for process in processes):
        raise RuntimeError(f"{script.name} {role}: a rank failed\n" + "\n".join(outputs)[-4000:])
    return result_of(outputs[0])


def in_the_lab(
    script: Path, role: list[str], hosts: int, link: str, timeout: float
) -> dict[str, object]:
    command = [
        str(LAB),
        "run",
        "--hosts",
        str(hosts),
        "--link",
        link,
        "--timeout",
        f"{timeout:.0f}s",
        "--",
        sys.executable,
        str(script),
        *role,
    ]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=timeout + 30
    )
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(command)}: exit "
            f"{done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        )
    return result_of(done.stdout)
