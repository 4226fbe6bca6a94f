# SPDX-License-Identifier: MIT
"""One job on one network at one load: every method's curve."""
from __future__ import annotations

import functools
from dataclasses import dataclass

from evidence import methods, paper, specs
from evidence.curves import Curve, composed, measured
from evidence.jobs import JOBS
from evidence.networks import NETWORKS, Link, stretch_for
from evidence.runs import Runner

GAIN_STEPS = 80
WARM_METHODS = ("powersgd-1", "powersgd-4", "local-8", "local-32")


@dataclass(frozen=True)
class Study:
    job: str
    network: str
    load: float
    hosts: int = 4
    compute: float = 0.06
    steps: int = 0  # 0: the job's

    @property
    def name(self) -> str:
        return f"{self.job}/{self.network}/{self.load:g}x" + ("" if self.hosts == 4 else f"/{self.hosts}")

    @property
    def length(self) -> int:
        return self.steps or JOBS[self.job].steps

    def links(self) -> list[tuple[int, Link]]:
        job, network = JOBS[self.job], NETWORKS[self.network]
        size = entries(self.job)
        stretch = stretch_for(network, self.load, self.compute, size, self.hosts, job.stands_for)
        return [(first, link.scaled(size / job.stands_for, stretch)) for first, link in network.phases(self.length)]

    def phases(self, runner: Runner) -> tuple[specs.Phase, ...]:
        gained = gains(runner, self.job, self.hosts)
        made = []
        for i, (first, link) in enumerate(self.links()):
            worst = Link(link.latency, link.rate / link.slow_host)
            plan = paper.plan_of(paper.choose(worst, entries(self.job), self.hosts, gained))
            slow = worst.text() if link.slow_host != 1 else ""
            made.append(specs.Phase(f"p{i}", first, link.text(), slow, plan))
        return tuple(made)

    def curve(self, runner: Runner, method: str, seed: int) -> Curve:
        phases = self.phases(runner)
        if methods.METHODS[method].looks_at_the_network:
            return measured(runner.result(self.full(runner, method, seed)))
        trained = runner.result(specs.Spec("train", self.job, method, seed, self.hosts, self.length, snapshot_every=snapshots(method)))
        mine = self.step_times(runner, method, phases)
        if method in WARM_METHODS:
            return composed(trained, mine, self.step_times(runner, "ddp", phases), methods.WARM)
        return composed(trained, mine)

    def full(self, runner: Runner, method: str, seed: int) -> specs.Spec:
        return specs.Spec("train", self.job, method, seed, self.hosts, self.length, self.compute, snapshot_every=snapshots(method), phases=self.phases(runner))

    def step_times(self, runner: Runner, method: str, phases: tuple[specs.Phase, ...]) -> list[tuple[int, float]]:
        """(first step, seconds a step). Each link is timed once, wherever it stands in the timeline."""
        distinct = {(phase.link, phase.slow_host): phase for phase in reversed(phases)}
        bare = tuple(specs.Phase(f"l{i}", 0, *key) for i, key in enumerate(sorted(distinct)))
        timed = runner.result(specs.Spec("time", self.job, method, 0, self.hosts, 0, self.compute, phases=bare))["timed"]
        mean = {(phase.link, phase.slow_host): float(one["mean"]) for phase, one in zip(bare, timed, strict=True)}
        return [(phase.first, mean[phase.link, phase.slow_host]) for phase in phases]


def snapshots(method: str) -> int:
    return max(8, methods.METHODS[method].period)


@functools.cache
def entries(job: str) -> int:
    return sum(p.numel() for p in JOBS[job].make_model().parameters())


def gains(runner: Runner, job: str, hosts: int) -> dict[float, float]:
    """What the published system measures by exploring, at each of its densities."""
    found = {}
    for density in paper.DENSITIES:
        plan = f"gain: gradients union density={100 * density:g}% values=f32 indices=raw32 fuse=all"
        found[density] = float(runner.result(specs.Spec("train", job, plan, 0, hosts, GAIN_STEPS, snapshot_every=GAIN_STEPS))["gain"])
    return found
