# SPDX-License-Identifier: MIT
"""Benchmark of islands: 2 hosts of 4 ranks in the lab, DDP inside each host, updates across.

slow_bytes_over_flat: bytes that a host sends over the slow link per exchange, over those of a flat
attach with the same plan; the larger ratio of two plans. One is union. The other is a dense ring,
which crosses the link once even if it is flat, so that islands save little there.
overhead_inside: a step between exchanges over one of the island alone, in interleaved stretches.
Compute is paced, because 8 ranks share few cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import figures

HOSTS, RANKS = 2, 4
LINK = "100mbit,20ms"
PLANS = {
    "union": "updates every=4 late=0 union density=5% values=int8",
    "dense": "updates every=4 late=0 dense reduce=ring",
}
EXCHANGES = 6
STRETCHES, STEPS = 7, 20
COMPUTE = 0.2  # seconds of a step


def lab() -> Path:
    for preset in ("release", "dev"):
        path = figures.ROOT / "build" / preset / "tools" / "pliant-lab" / "pliant-lab"
        if path.exists():
            return path
    sys.exit("bench/islands.py: pliant-lab is not built")


def measure(job: str) -> dict[str, list[float]]:
    """Runs a job on all ranks; what rank 0 prints."""
    command = [str(lab()), "run", "--hosts", str(HOSTS), "--ranks-per-host", str(RANKS)]
    command += ["--link", LINK, "--timeout", "300s", "--"]
    command += [sys.executable, str(Path(__file__).resolve()), job]
    package = lab().parents[2] / "python"
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=330)
    lines = [line.partition("{")[2] for line in done.stdout.splitlines() if "{" in line]
    if done.returncode != 0 or not lines:
        sys.exit(f"bench/islands.py: {job} ended with {done.returncode}\n{done.stderr[-2000:]}")
    found: dict[str, list[float]] = json.loads("{" + lines[-1])
    return found


def sent_bytes() -> int:
    """By this host, over the link that torch uses."""
    device = os.environ["GLOO_SOCKET_IFNAME"]
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == device:
            return int(counts.split()[8])
    raise RuntimeError(f"/proc/self/net/dev has no {device}")


def run_job(job: str) -> None:
    import torch
    import torch.distributed as dist
    from pace import Pace
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    import pliant

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))

    def train(ddp: nn.Module, optimizer: torch.optim.Optimizer, steps: int, pace: Pace) -> float:
        begin = time.perf_counter()
        for _ in range(steps):
            pace.begin()
            optimizer.zero_grad()
            loss = ddp(torch.randn(4, 256)).pow(2).mean()
            pace.forward_done()
            loss.backward()
            optimizer.step()
        return (time.perf_counter() - begin) / steps

    def attached(plan: str, islands: str | None) -> tuple[pliant.Averager, nn.Module, object]:
        ddp = DistributedDataParallel(model)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.001)
        return pliant.attach(ddp, optimizer, plan, islands=islands), ddp, optimizer  # type: ignore[arg-type]

    found: dict[str, list[float]] = {}
    where, _, scheme = job.partition("/")
    if where in ("flat", "islands"):
        averager, ddp, optimizer = attached(PLANS[scheme], "node" if where == "islands" else None)
        pace = Pace(model, 0.02)
        train(ddp, optimizer, 8, pace)  # type: ignore[arg-type]
        dist.barrier()
        before = sent_bytes()
        train(ddp, optimizer, 4 * EXCHANGES, pace)  # type: ignore[arg-type]
        dist.barrier()
        found["bytes"] = [(sent_bytes() - before) / EXCHANGES]
        averager.close()
    else:
        inside = [dist.new_group(list(range(h * RANKS, (h + 1) * RANKS))) for h in range(HOSTS)]
        group = inside[dist.get_rank() // RANKS]
        pace = Pace(model, COMPUTE)
        for _ in range(STRETCHES):
            alone = DistributedDataParallel(model, process_group=group)
            plain = torch.optim.SGD(alone.parameters(), lr=0.001)
            train(alone, plain, 3, pace)
            found.setdefault("alone", []).append(train(alone, plain, STEPS, pace))
            del alone, plain
            averager, ddp, optimizer = attached("updates every=64 late=0 dense", "node")
            train(ddp, optimizer, 3, pace)  # type: ignore[arg-type]
            found.setdefault("attached", []).append(train(ddp, optimizer, STEPS, pace))  # type: ignore[arg-type]
            averager.close()
            del averager, ddp, optimizer
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    if len(sys.argv) > 1:
        run_job(sys.argv[1])
        return
    sent = {
        f"{where}/{scheme}": measure(f"{where}/{scheme}")["bytes"][0]
        for scheme in PLANS
        for where in ("flat", "islands")
    }
    overhead = measure("overhead")
    ratios = [
        ours / theirs for ours, theirs in zip(overhead["attached"], overhead["alone"], strict=True)
    ]
    saved = {scheme: sent[f"islands/{scheme}"] / sent[f"flat/{scheme}"] for scheme in PLANS}
    results = [
        figures.exact("slow_bytes_over_flat", max(saved.values()), "ratio"),
        *(
            figures.exact(f"slow_bytes_over_flat/{scheme}", ratio, "ratio")
            for scheme, ratio in saved.items()
        ),
        figures.spread("overhead_inside", ratios, "ratio"),
    ]
    print(figures.table(("figure", "value"), [(each.name, each.value) for each in results]))
    print(f"bytes that a host sends per exchange: {sent}")
    print(figures.write("islands", results, bytes=sent))


if __name__ == "__main__":
    main()
