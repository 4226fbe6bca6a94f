# SPDX-License-Identifier: MIT
"""Benchmark of the worth of a step by the loss at the end of a schedule.

Several workers train in one process, so that only the arithmetic of a plan counts and no network. A
plan's worth is the number of steps after which plain DDP, with its schedule shortened to that
number, ends at the loss at which the plan ends; over the plan's number of steps. docs/model.md has
the table.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import figures

sys.path.insert(0, str(figures.ROOT / "build" / "release" / "python"))

import torch  # noqa: E402
from evidence.jobs import JOBS, Transformer, evaluate  # noqa: E402
from evidence.judge import steps_to  # noqa: E402
from torch import nn  # noqa: E402

WORKERS = 4
SHORTER = (0.5, 0.65, 0.8, 0.9)  # of plain DDP's steps
LEVELS = {"int8": (127, 1024), "int4": (7, 64), "int4/1024": (7, 1024)}  # levels, group of a scale
COMMON_SHARE_RATE = 0.1


@dataclass(frozen=True)
class Schedule:
    job: str  # of evidence.jobs: data, batch size, optimizer
    model: Callable[[], nn.Module] | None
    steps: int
    peak: float
    clip: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    batch: int | None = None  # of each worker; None: the job's
    optimizer: str | None = None

    def rate(self, step: int, steps: int) -> float:
        """A linear rise over a tenth of the steps, then half a cosine to zero."""
        rise = 0.1 * steps
        if step < rise:
            return self.peak * (step + 1) / (rise + 1)
        return self.peak * 0.5 * (1 + math.cos(math.pi * (step - rise) / (steps - rise)))


@dataclass(frozen=True)
class Plan:
    """Gradients if `every` is 0."""

    name: str
    every: int = 0
    late: int = 0
    code: str = ""


PLAIN = Plan("gradients dense")
PLANS = (
    Plan("gradients dense values=int8", code="int8"),
    Plan("gradients dense values=int4", code="int4"),
    Plan("the same, a scale per 1024 values", code="int4/1024"),
    Plan("updates every=1 late=0 dense", 1),
    Plan("updates every=1 late=0 dense values=int4", 1, 0, "int4"),
    Plan("updates every=1 late=1 dense", 1, 1),
    Plan("updates every=2 late=0 dense", 2),
    Plan("updates every=4 late=0 dense", 4),
    Plan("updates every=8 late=0 dense", 8),
)
SCHEDULES = {
    "transformer, AdamW": Schedule(
        "transformer", lambda: Transformer(128, 3), 240, 2e-3, 1.0, (0.9, 0.95)
    ),
    "the same, low rate": Schedule(
        "transformer", lambda: Transformer(128, 3), 240, 5e-4, 1.0, (0.9, 0.95)
    ),
    "CNN, SGD": Schedule("cnn", None, 400, 0.05),
    "ResNet, SGD": Schedule("resnet", None, 400, 0.1),
}


class Worker:
    """One model, its parameters and gradients flat, and its own optimizer."""

    def __init__(self, schedule: Schedule, seed: int, rank: int) -> None:
        torch.manual_seed(seed)
        job = JOBS[schedule.job]
        job = dataclasses.replace(
            job,
            batch=schedule.batch or job.batch,
            optimizer=schedule.optimizer or job.optimizer,
        )
        self.job, self.model = job, (schedule.model or job.make_model)()
        tensors = list(self.model.parameters())
        self.parameters = torch.cat([t.detach().flatten() for t in tensors])
        self.gradient = torch.zeros_like(self.parameters)
        begin = 0
        for tensor in tensors:
            end = begin + tensor.numel()
            tensor.data = self.parameters[begin:end].view(tensor.shape)
            tensor.grad = self.gradient[begin:end].view(tensor.shape)
            begin = end
        self.dice = torch.Generator().manual_seed(1_000_003 * seed + rank)
        self.inputs, self.answers = job.load("train")
        self.adam, self.betas = job.optimizer == "adamw", schedule.betas
        self.first, self.second = (torch.zeros_like(self.parameters) for _ in range(2))
        self.residual = torch.zeros_like(self.parameters)
        self.steps = 0

    def backward(self) -> float:
        """The loss of a batch; its gradient is in `gradient`."""
        self.batch = torch.randint(len(self.inputs), (self.job.batch,), generator=self.dice)
        return self.backward_again()

    def backward_again(self) -> float:
        """Of the last batch, with the parameters as they are now."""
        self.gradient.zero_()
        loss = self.job.loss(self.model(self.inputs[self.batch]), self.answers[self.batch])
        loss.backward()
        return float(loss.detach())

    def step(self, gradient: torch.Tensor, rate: float, clip: float) -> None:
        self.steps += 1
        if clip and (norm := float(gradient.norm())) > clip:
            gradient = gradient * (clip / norm)
        if not self.adam:
            self.first.mul_(0.9).add_(gradient).add_(self.parameters, alpha=5e-4)
            self.parameters.add_(self.first, alpha=-rate)
            return
        one, two = self.betas
        self.first.mul_(one).add_(gradient, alpha=1 - one)
        self.second.mul_(two).addcmul_(gradient, gradient, value=1 - two)
        size = (self.second / (1 - two**self.steps)).sqrt_().add_(1e-8)
        self.parameters.mul_(1 - 0.01 * rate)
        self.parameters.addcdiv_(self.first, size, value=-rate / (1 - one**self.steps))

    def taken(self, contribution: torch.Tensor, code: str) -> torch.Tensor:
        """What leaves; the rest stays in the residual."""
        accumulated = contribution + self.residual
        sent = coded(accumulated, code)
        self.residual = accumulated - sent
        return sent


def coded(values: torch.Tensor, code: str) -> torch.Tensor:
    if not code:
        return values
    levels, group = LEVELS[code]
    rows = torch.nn.functional.pad(values, (0, -len(values) % group)).view(-1, group)
    scale = rows.abs().amax(1, keepdim=True) / levels
    scale[scale == 0] = 1
    return (torch.round(rows / scale) * scale).view(-1)[: len(values)]


class StepScale:
    """The factor on Adam's rate, as the engine has it (docs/updates.md)."""

    def __init__(self) -> None:
        self.common = self.alike = 0.0

    def note(self, result: torch.Tensor, own: list[torch.Tensor]) -> None:
        common = sum(float(part @ (WORKERS * result - part)) for part in own)
        alike = sum((WORKERS - 1) * float(part @ part) for part in own)
        if self.alike == 0:
            self.common = self.alike = alike
        self.common += COMMON_SHARE_RATE * (common - self.common)
        self.alike += COMMON_SHARE_RATE * (alike - self.alike)

    def factor(self) -> float:
        share = min(max(self.common / self.alike, 0.0), 1.0) if self.alike else 1.0
        return 1 / math.sqrt(share + (1 - share) / WORKERS)


def average_gradients(workers: list[Worker], code: str) -> torch.Tensor:
    """With a code, both hops round: each rank's contribution, then the sum of each slice."""
    total = sum(w.taken(w.gradient, code) if code else w.gradient for w in workers)
    assert isinstance(total, torch.Tensor)
    rounded = coded(total, code)
    bounds = [len(total) * i // WORKERS for i in range(WORKERS + 1)]
    for worker, begin, end in zip(workers, bounds, bounds[1:], strict=False):
        worker.residual[begin:end] += (total - rounded)[begin:end]
    return rounded / WORKERS


class Watch:
    """What somebody may look at during a training."""

    def losses(self, step: int, losses: list[float]) -> None:
        """Of the workers' batches."""

    def landing(
        self, step: int, workers: list[Worker], result: torch.Tensor, own: list[torch.Tensor]
    ) -> None:
        """Comes before a result replaces the workers' own parts."""


def train(
    schedule: Schedule, plan: Plan, seed: int, steps: int, watch: Watch | None = None
) -> float:
    """The loss on the test set at the end."""
    watch = watch or Watch()
    workers = [Worker(schedule, seed, rank) for rank in range(WORKERS)]
    base, scale = workers[0].parameters.clone(), StepScale()
    flights: deque[tuple[int, torch.Tensor, list[torch.Tensor]]] = deque()

    def land() -> None:
        _, result, own = flights.popleft()
        base.add_(result)
        scale.note(result, own)
        watch.landing(step, workers, result, own)
        for worker, part in zip(workers, own, strict=True):
            worker.parameters.add_(result - part)

    for step in range(steps):
        rate = schedule.rate(step, steps)
        watch.losses(step, [worker.backward() for worker in workers])
        if plan.every == 0:
            gradient = average_gradients(workers, plan.code)
            for worker in workers:
                worker.step(gradient, rate, schedule.clip)
            continue
        factor = scale.factor() if workers[0].adam else 1.0
        for worker in workers:
            worker.step(worker.gradient, rate * factor, schedule.clip)
        while flights and flights[0][0] <= step:
            land()
        if (step + 1) % plan.every == 0:
            own = []
            for rank, worker in enumerate(workers):
                reference = base.clone()
                for _, _, parts in flights:
                    reference += parts[rank]
                own.append(worker.taken(worker.parameters - reference, plan.code))
                worker.parameters.copy_(reference + own[-1])
            mean = torch.stack(own).mean(0)
            flights.append((step + plan.late, mean, own))
            if plan.late == 0:
                land()
    while flights:
        land()
    if plan.every:
        workers[0].parameters.copy_(base)
    workers[0].model.train()  # batch statistics: the running ones are not averaged here
    return evaluate_in_training_mode(workers[0])


@torch.no_grad()
def evaluate_in_training_mode(worker: Worker) -> float:
    if any(isinstance(module, nn.BatchNorm2d) for module in worker.model.modules()):
        inputs, answers = (part[: worker.job.tested] for part in worker.job.load("test"))
        return float(worker.job.loss(worker.model(inputs), answers))
    return evaluate(worker.job, worker.model)[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds; minutes each [1]")
    seeds = range(1, parser.parse_args().seeds + 1)
    torch.set_num_threads(1)
    found, rows = [], []
    for name, schedule in SCHEDULES.items():
        lengths = [round(share * schedule.steps) for share in (*SHORTER, 1.0)]
        curve = [
            (
                steps,
                statistics.fmean(train(schedule, PLAIN, seed, steps) for seed in seeds),
            )
            for steps in lengths
        ]
        print(f"{name}: plain DDP after {lengths} steps: "
              + ", ".join(f"{loss:.4f}" for _, loss in curve), flush=True)  # fmt: skip
        for plan in PLANS:
            losses = [train(schedule, plan, seed, schedule.steps) for seed in seeds]
            worth = [steps_to(loss, curve) / schedule.steps for loss in losses]
            mean = steps_to(statistics.fmean(losses), curve) / schedule.steps
            found.append(
                figures.Figure(f"worth/{name}/{plan.name}", mean, "", min(worth), max(worth))
            )
            rows.append([name, plan.name, statistics.fmean(losses), mean])
            print(f"  {plan.name}: loss {rows[-1][2]:.4f}, worth {mean:.3f}", flush=True)
    print(figures.table(["job", "plan", "loss", "worth"], rows))
    figures.write("worth", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
