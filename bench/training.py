# SPDX-License-Identifier: MIT
"""What the benchmarks of training share: a model of 25 million parameters, ranks as processes, steps that are timed in turns."""
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

LAB = figures.ROOT / "build" / "release" / "tools" / "pliant-lab" / "pliant-lab"
WIDTH = 2240  # five square layers: 25.1 million parameters
LAYERS = 5
BATCH = 24


def rank() -> int:
    return int(os.environ["RANK"])


def make_model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def one_step(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    model(inputs).square().mean().backward()
    optimizer.step()


class Contender:
    """A model under plain DDP, or with an averager; with `updates` that has the optimizer too. A turn is `turn` steps."""

    def __init__(self, plan: str | None, turn: int, *, updates: bool = False, **options: object) -> None:
        import pliant

        self.turn = turn
        self.model = DistributedDataParallel(make_model())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, momentum=0.9 if updates else 0.0)
        self.averager = None if plan is None else pliant.attach(self.model, self.optimizer if updates else None, plan=plan, **options)
        self.inputs = torch.randn(BATCH, WIDTH)

    def steps(self, count: int | None = None) -> None:
        for _ in range(self.turn if count is None else count):
            one_step(self.model, self.optimizer, self.inputs)

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


def environment() -> dict[str, str]:
    packages = [str(figures.ROOT / "build" / "release" / "python"), str(figures.ROOT / "python"), str(figures.ROOT / "bench")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(packages), "OMP_NUM_THREADS": "1"}


def on_loopback(script: Path, role: list[str], ranks: int, timeout: float) -> dict[str, object]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    processes = []
    for r in range(ranks):
        place = {"RANK": str(r), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(r), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        processes.append(
            subprocess.Popen([sys.executable, str(script), *role], env={**environment(), **place, "GLOO_SOCKET_IFNAME": "lo"}, stdout=subprocess.PIPE, text=True)
        )
    try:
        outputs = [process.communicate(timeout=timeout)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(process.returncode for process in processes):
        raise RuntimeError(f"{script.name} {role}: a rank failed\n" + "\n".join(outputs)[-4000:])
    return result_of(outputs[0])


def in_the_lab(script: Path, role: list[str], hosts: int, link: str, timeout: float) -> dict[str, object]:
    command = [str(LAB), "run", "--hosts", str(hosts), "--link", link, "--timeout", f"{timeout:.0f}s", "--", sys.executable, str(script), *role]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=timeout + 30)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
    return result_of(done.stdout)
