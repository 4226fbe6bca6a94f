# SPDX-License-Identifier: MIT
"""One rank of some runs over the same network: `python -m evidence.rank SPEC.json ...`. Rank 0
writes the results."""

from __future__ import annotations

import gc
import json
import os
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import pliant
from evidence import methods, specs
from evidence.jobs import Batches, evaluate
from evidence.unseen_jobs import ALL
from pace import Pace

SETTLE = 8  # steps of a phase before its steps are timed
TIMED = 32  # at least; a multiple of every period
AT_MOST = 2  # times plain DDP's steps, under a schedule that follows what steps are worth
ROUNDING = 1e-6


class Lab:
    """The lab's control socket; outside the lab nothing happens."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        if path := os.environ.get("PLIANT_LAB_CONTROL"):
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(30)
            self._socket.connect(path)

    def phase(self, name: str) -> None:
        if self._socket is None:
            return
        self._socket.sendall(f"phase {name}\n".encode())
        answer = self._socket.recv(4096).decode()
        if not answer.startswith("ok"):
            raise RuntimeError(f"phase {name}: {answer}")


def sent() -> int:
    """Bytes that this host's interfaces have sent: every method is counted alike, with what TCP
    adds."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    return sum(
        int(counters.split()[8])
        for name, counters in (line.split(":") for line in lines)
        if name.strip() != "lo"
    )


class Rank:
    def __init__(self, spec: specs.Spec) -> None:
        self.spec = spec
        self.job = ALL[spec.job]
        self.rank = dist.get_rank()
        model = self.job.model(spec.seed)
        self.pace = Pace(model, spec.compute)
        self.batches = Batches(self.job, spec.seed, self.rank)
        self.ddp = DistributedDataParallel(model)
        optimizer = self.job.optimize(model.parameters(), spec.rate)
        self.loop = self._loop(optimizer)
        self.schedule = self.job.schedule(optimizer, spec.steps) if spec.mode == "train" else None
        # Goal time: the schedule follows what steps are worth, and ends with plain DDP's progress.
        self.stretched = self.schedule is not None and spec.method == "auto"
        if self.stretched:
            self.schedule = pliant.stretch(self.schedule, self.loop.averager)
        self.lab = Lab()

    def _loop(self, optimizer: torch.optim.Optimizer) -> methods.Loop:
        spec, log = self.spec, {"log": self.spec.log or None}
        if spec.method == "paper":
            return methods.Scripted(
                self.ddp, optimizer, [phase.plan for phase in spec.phases], **log
            )
        if spec.method == "oracle":
            return methods.Told(self.ddp, optimizer, [phase.link for phase in spec.phases], **log)
        if spec.method == "auto":
            return methods.Pliant(self.ddp, optimizer, "auto", goal="time", **log)
        if spec.method == "auto-steps":
            return methods.Pliant(self.ddp, optimizer, "auto", goal="steps", **log)
        if spec.method == "auto-gradients":
            return methods.Pliant(self.ddp, optimizer, "gradients", goal="time", **log)
        if spec.method.startswith("gain: "):
            return methods.Pliant(self.ddp, optimizer, spec.method.removeprefix("gain: "))
        if spec.method.startswith("warmed: "):
            return methods.Warmed(self.ddp, optimizer, spec.method.removeprefix("warmed: "))
        make = methods.METHODS[spec.method].make
        assert make is not None
        return make(self.ddp, optimizer)

    def step(self, number: int) -> float:
        inputs, answers = self.batches.next()
        with self.loop.scope(number):
            self.pace.begin()
            loss = self.job.loss(self.ddp(inputs), answers)
            self.pace.forward_done()
            (loss / self.loop.accumulate).backward()
        if self.job.clip:
            torch.nn.utils.clip_grad_norm_(self.ddp.parameters(), self.job.clip)
        self.loop.end(number)
        if self.schedule is not None:
            self.schedule.step()
        return float(loss.detach())

    def enter(self, phase: int) -> None:
        if self.rank == 0:
            self.lab.phase(self.spec.phases[phase].name)
        self.loop.enter(phase)

    def train(self) -> dict[str, Any]:
        """All steps; the model's state every few of them, evaluated when the clock has stopped."""
        spec = self.spec
        begins = {phase.first: i for i, phase in enumerate(spec.phases)}
        ends, losses, snapshots = [], [], []
        dist.barrier()
        begin, before = time.perf_counter(), sent()
        number = 0
        while not self._finished(number):
            if number in begins:
                self.enter(begins[number])
            losses.append(self.step(number))
            ends.append(time.perf_counter() - begin)
            number += 1
            if self.rank == 0 and number % spec.snapshot_every == 0:
                snapshots.append((number, self.loop.parameters()))
        if self.schedule is not None:  # what counts is the model at the end
            self.loop.close()
            ends[-1] = time.perf_counter() - begin
            if self.rank == 0:
                snapshots = [one for one in snapshots if one[0] < number]
                snapshots.append((number, methods.Loop.parameters(self.loop)))
        return {
            "ends": ends,
            "losses": losses,
            "sent": sent() - before,
            "curve": self._curve(snapshots),
            **self._counters(),
        }

    def _finished(self, steps: int) -> bool:
        if not self.stretched:
            return steps >= self.spec.steps
        assert self.loop.averager is not None
        effective = self.loop.averager.effective_steps
        return effective >= self.spec.steps - ROUNDING or steps >= AT_MOST * self.spec.steps

    def _curve(
        self, snapshots: list[tuple[int, list[torch.Tensor]]]
    ) -> list[tuple[int, float, float]]:
        """(steps, loss, accuracy)."""
        model = self.job.model(self.spec.seed)
        curve = []
        for steps, tensors in snapshots:
            model.load_state_dict(dict(zip(model.state_dict(), tensors, strict=True)))
            curve.append((steps, *evaluate(self.job, model)))
        return curve

    def time(self) -> dict[str, Any]:
        """Step time in each phase. Methods that begin with plain steps have them before, over the
        network that takes least time."""
        number = 0
        self.enter(min(range(len(self.spec.phases)), key=lambda i: self.spec.phases[i].hardness()))
        paced, self.pace.compute = self.pace.compute, 0.0
        while number < methods.warm_steps(self.spec.method) + SETTLE:
            self.step(number)
            number += 1
        self.pace.compute = paced
        timed = []
        for phase in range(len(self.spec.phases)):
            dist.barrier()
            self.enter(phase)
            durations = []
            for i in range(SETTLE + TIMED):
                if i == SETTLE:
                    before = sent()
                begin = time.perf_counter()
                self.step(number)
                number += 1
                if i >= SETTLE:
                    durations.append(time.perf_counter() - begin)
            timed.append(
                {
                    "mean": statistics.fmean(durations),
                    "median": statistics.median(durations),
                    "deviation": statistics.stdev(durations),
                    "sent": (sent() - before) / TIMED,
                }
            )
        return {"timed": timed, **self._counters()}

    def _counters(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "forwards": self.pace.forwards,
            "late_forwards": self.pace.late_forwards,
        }
        if self.loop.averager is not None:
            summary = self.loop.averager.summary()
            found |= {
                "bytes": summary.bytes_sent,
                "gain": summary.gain,
                "plan": summary.plan,
                "decisions": summary.decisions,
                "effective_steps": summary.effective_steps,
            }
        return found


def run(spec: specs.Spec) -> None:
    rank = Rank(spec)
    found = rank.train() if spec.mode == "train" else rank.time()
    rank.loop.close()
    dist.barrier()
    if rank.rank == 0:
        target = Path(spec.out)
        target.with_suffix(".partial").write_text(json.dumps(found))
        target.with_suffix(".partial").rename(target)


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for path in sys.argv[1:]:
        run(specs.read(Path(path)))
        gc.collect()  # a DDP model is a cycle, and its hooks hold what they average with
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
