# SPDX-License-Identifier: MIT
"""Benchmark of updates on a large model: 124 million parameters in GPT-2's 148 tensors, two ranks.
It measures host memory, what an exchange costs the training thread, and how much of an exchange
runs beside training.

Without arguments: the benchmark. With a role it is one rank of it. Compute is held to a pace (an
optimizer that changes every parameter, then a wait), because two ranks on one machine share cores
and memory.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import figures
import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel

HERE = Path(__file__).resolve()
EVERY = 8
PLAN = f"updates every={EVERY} late=2 union density=1% values=int8 indices=rice"
WARM_UP = 2  # exchanges that find their thresholds and memory
ROUNDS = 8
PLAN_TOOL = figures.ROOT / "build" / "release" / "tools" / "pliant-plan" / "pliant-plan"
COMPUTE = 2.0  # seconds of a step
LAYERS, WIDTH, VOCABULARY, CONTEXT = 12, 768, 50257, 1024

# The value that each figure should reach, and whether it is a largest or a smallest one.
MARKS = {
    "host_bytes_per_parameter": ("<=", 10),
    "host_bytes_per_parameter_64": ("<=", 10),
    "memory_report_error": ("<=", 0.05),
    "training_thread_passes": ("<=", 4),
    "overlap": (">=", 0.9),
    "step_overhead": ("<=", 1.03),
}


class Shapes(nn.Module):
    """GPT-2's parameters. Nothing is computed from them."""

    def __init__(self) -> None:
        super().__init__()
        layer = [(WIDTH,), (WIDTH,), (WIDTH, 3 * WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,)]
        layer += [(WIDTH,), (WIDTH,), (WIDTH, 4 * WIDTH), (4 * WIDTH,), (4 * WIDTH, WIDTH)]
        layer += [(WIDTH,)]
        shapes = [(VOCABULARY, WIDTH), (CONTEXT, WIDTH), *(LAYERS * layer), (WIDTH,), (WIDTH,)]
        torch.manual_seed(0)
        self.all = nn.ParameterList(nn.Parameter(0.02 * torch.randn(shape)) for shape in shapes)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs * self.all[-1]


class Drift(torch.optim.Optimizer):
    """An optimizer that needs no gradients: every parameter takes a small random step, larger in
    some places than in others."""

    def __init__(self, parameters: object, seed: int) -> None:
        super().__init__(parameters, {"lr": 1e-4})
        generator = torch.Generator().manual_seed(seed)
        self.noise = torch.randn(1 << 22, generator=generator) ** 3
        self.shift = 0
        self.ended = 0.0  # when the parameters were ready: all that follows is Pliant's

    @torch.no_grad()
    def step(self, closure: object = None) -> None:
        begin = time.perf_counter()
        for group in self.param_groups:
            for parameter in group["params"]:
                flat = parameter.view(-1)
                for piece in flat.split(self.noise.numel() // 2):
                    self.shift = (self.shift + 104_729) % (self.noise.numel() // 2)
                    noise = self.noise[self.shift : self.shift + piece.numel()]
                    piece.add_(noise, alpha=group["lr"])
        time.sleep(max(0.0, begin + COMPUTE - time.perf_counter()))
        self.ended = time.perf_counter()


def resident() -> int:
    """Bytes of this process in memory, now."""
    gc.collect()
    with open("/proc/self/smaps_rollup") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("Rss:"))


def copying(model: nn.Module) -> float:
    """Seconds of one memcpy of the model."""
    parameters = [parameter.detach() for parameter in model.parameters()]
    target = torch.empty(max(parameter.numel() for parameter in parameters))
    begin = time.perf_counter()
    for parameter in parameters:
        target[: parameter.numel()].copy_(parameter.view(-1))
    return time.perf_counter() - begin


def one_rank() -> None:
    import pliant

    training.start()
    model = DistributedDataParallel(Shapes())
    optimizer = Drift(model.parameters(), training.rank())
    entries = sum(parameter.numel() for parameter in model.parameters())
    alone = []
    for _ in range(EVERY):
        begin = time.perf_counter()
        optimizer.step()
        alone.append(time.perf_counter() - begin)
    with torch.no_grad():
        for parameter in model.parameters():
            dist.broadcast(parameter, 0)
    before = resident()
    averager = pliant.attach(model, optimizer, plan=PLAN)
    passes, errors, grown, overheads, overlaps = [], [], [], [], []
    for turn in range(WARM_UP + ROUNDS):
        dist.barrier()
        steps, hooks = [], []
        for _ in range(EVERY):
            begin = time.perf_counter()
            optimizer.step()
            now = time.perf_counter()
            steps.append(now - begin)
            hooks.append(now - optimizer.ended)
        if turn < WARM_UP:
            continue
        bytes_grown = (resident() - before) / entries
        summary = averager.summary()
        memory = summary.memory
        reported = memory.residual + memory.base + memory.in_flight + memory.scratch
        grown.append(bytes_grown)
        errors.append(abs(reported - bytes_grown) / bytes_grown)
        passes.append(sum(hooks) / sorted(copying(model) for _ in range(3))[1])
        overheads.append(statistics.mean(steps) / statistics.mean(alone))
        overlaps.append(summary.overlap)
    training.say(
        entries=entries,
        grown=grown,
        errors=errors,
        passes=passes,
        overheads=overheads,
        overlaps=overlaps,
    )
    averager.close()


def memory_at(ranks: int, entries: int) -> float:
    """Bytes per parameter by pliant-plan, which counts as the engine does."""
    asked = ["--params", f"{entries / 1e6}M", "--ranks", str(ranks), "--link", "1gbit,1ms"]
    asked += ["--compute", "100ms", "--costs", "none", "--plan", PLAN, "--json"]
    done = subprocess.run(
        [PLAN_TOOL, *asked], capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        raise RuntimeError(f"pliant-plan {' '.join(asked)}: exit {done.returncode}\n{done.stderr}")
    return float(json.loads(done.stdout)["best"]["memory_bytes_per_parameter"])


def main() -> None:
    if len(sys.argv) > 1:
        return {"rank": one_rank}[sys.argv[1]]()
    result = training.on_loopback(HERE, ["rank"], 2, 1800)
    results = [
        figures.spread("host_bytes_per_parameter", result["grown"], "bytes"),
        figures.exact("host_bytes_per_parameter_64", memory_at(64, result["entries"]), "bytes"),
        figures.spread("memory_report_error", result["errors"], "fraction"),
        figures.spread("training_thread_passes", result["passes"], "memcpys"),
        figures.spread("overlap", result["overlaps"], "fraction"),
        figures.spread("step_overhead", result["overheads"], "x"),
    ]
    print(figures.show(results))
    for figure in results:
        sign, mark = MARKS[figure.name]
        if figure.value > mark if sign == "<=" else figure.value < mark:
            print(f"{figure.name} misses its mark: {figure.value:.3g}, must be {sign} {mark}")
    figures.write("large", results, plan=PLAN, compute_seconds=COMPUTE)


if __name__ == "__main__":
    main()
