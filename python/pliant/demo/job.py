# SPDX-License-Identifier: MIT
"""Program of one rank: `python -m pliant.demo.job SETTINGS`.

It trains the same model from the same start twice, with plain DDP and then with Pliant. Rank 0
moves the network from phase to phase at the same steps in both, evaluates the model, and reports
progress as events."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import pliant
from pliant.demo import data, model
from pliant.demo.launch import EVENT
from pliant.demo.plain_log import PlainLog
from pliant.demo.settings import BATCH, JUDGED_IMAGES, LEARNING_RATE, MOMENTUM, PHASES, Settings
from pliant.monitoring import lab

PLAIN, PLIANT = "plain-ddp", "pliant"
SHOWN_EVERY = 5  # steps between two moves of the progress bar


class Method(Protocol):
    """How gradients or progress are averaged, and where that is logged."""

    name: str

    def begin_step(self) -> None: ...
    def base(self) -> AbstractContextManager[None]: ...
    def note(self, **values: float) -> None: ...
    def phase(self, name: str) -> None: ...
    def plan(self) -> str: ...
    def close(self) -> None: ...


class Plain:
    """DDP as it comes. Its log is written by rank 0."""

    name = PLAIN

    def __init__(self, path: Path, ddp: nn.Module) -> None:
        self._log: PlainLog | None = None
        if dist.get_rank() == 0:
            parameters = sum(parameter.numel() for parameter in ddp.parameters())
            self._log = PlainLog(
                path,
                world=dist.get_world_size(),
                parameters=parameters,
                learning_rate=LEARNING_RATE,
            )

    def begin_step(self) -> None:
        if self._log is not None:
            self._log.begin_step(device_bytes())

    def base(self) -> AbstractContextManager[None]:
        return nullcontext()

    def note(self, **values: float) -> None:
        if self._log is not None:
            self._log.note(**values)

    def phase(self, name: str) -> None:
        """As the averager's: rank 0 tells the lab, and logs it."""
        if self._log is not None:
            lab.enter_phase(name)
            self._log.phase(name)

    def plan(self) -> str:
        return "gradients dense"

    def close(self) -> None:
        if self._log is not None:
            self._log.close(device_bytes())


class Pliant:
    """The one line. With the optimizer, so that updates may be chosen too."""

    name = PLIANT

    def __init__(self, path: Path, ddp: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._averager = pliant.attach(ddp, optimizer, plan="auto", goal="time", log=str(path))
        self.note = self._averager.note
        self.phase = self._averager.phase
        self.base = self._averager.on_base
        self.close = self._averager.close

    def begin_step(self) -> None:
        pass  # the averager knows

    def plan(self) -> str:
        return self._averager.plan


class Rank:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.rank = dist.get_rank()
        self.in_the_lab = bool(os.environ.get("PLIANT_LAB_CONTROL"))
        self.data = data.load()
        self.begins = {settings.first_step(phase): phase.name for phase in PHASES}

    def train(self, name: str) -> None:
        """From the common start to the last step. The clock of the run is its log's."""
        network = model.cnn(self.settings.seed)
        ddp = DistributedDataParallel(network)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
        if self.rank == 0:
            lab.enter_phase(PHASES[0].name)  # attaching is over the first network too
        dist.barrier()
        path = Path(self.settings.out) / f"{name}.jsonl"
        method: Method = Plain(path, ddp) if name == PLAIN else Pliant(path, ddp, optimizer)
        sent = device_bytes()
        for step in range(self.settings.steps):
            self._enter(step, method)
            method.begin_step()
            self._step(step, ddp, optimizer)
            if step == 0 or (step + 1) % self.settings.judge_every == 0:
                self._judge(step + 1, network, method)
            elif self.rank == 0 and (step + 1) % SHOWN_EVERY == 0:
                self._say("step", method.name, step=step + 1, plan=method.plan())
        method.close()
        now = device_bytes()
        self._finish(method, network, None if now is None or sent is None else now - sent)

    def _enter(self, step: int, method: Method) -> None:
        if self.in_the_lab and step in self.begins:
            method.phase(self.begins[step])

    def _step(self, step: int, ddp: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Forward, a pause, backward: together they take the compute that the settings say, if they
        can."""
        begin = time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        loss = model.loss_of(
            ddp,
            data.batch(self.data.train, BATCH, rank=self.rank, step=step, seed=self.settings.seed),
        )
        # Backward takes about twice as long as forward.
        rest = self.settings.compute - 3 * (time.monotonic() - begin)
        if rest > 0:
            time.sleep(rest)
        torch.autograd.backward(loss)
        optimizer.step()

    def _judge(self, steps: int, network: nn.Module, method: Method) -> None:
        if self.rank != 0:
            return
        with method.base():
            loss, accuracy = model.judge(network, self.data.test, JUDGED_IMAGES)
        method.note(loss=loss, accuracy=accuracy)
        self._say(
            "progress", method.name, step=steps, loss=loss, accuracy=accuracy, plan=method.plan()
        )

    def _finish(self, method: Method, network: nn.Module, sent: int | None) -> None:
        if self.rank == 0:
            loss, accuracy = model.judge(network, self.data.test)
            self._say("done", method.name, loss=loss, accuracy=accuracy, bytes=sent)
        dist.barrier()

    def _say(self, event: str, method: str, **values: Any) -> None:
        print(EVENT + json.dumps({"event": event, "method": method, **values}), flush=True)


def device_bytes() -> int | None:
    """Sent by this host of the lab so far; None outside the lab, where all ranks share one device
    with everybody else."""
    if not os.environ.get("PLIANT_LAB_CONTROL"):
        return None
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        device, _, counters = line.partition(":")
        if device.strip() == "lab0":
            return int(counters.split()[8])
    return None


def main() -> None:
    settings = Settings.from_json(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = Rank(settings)
    if rank.rank == 0:
        print(
            EVENT + json.dumps({"event": "data", "name": rank.data.name, "real": rank.data.real}),
            flush=True,
        )
    for name in (PLAIN, PLIANT):
        rank.train(name)
    dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # at once: an orderly end would wait for peers that have failed too
