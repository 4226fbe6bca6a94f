# SPDX-License-Identifier: MIT
"""Study: one job on one network at one load, with the curve of every method."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection
from dataclasses import dataclass

from evidence import methods, paper, specs
from evidence.curves import Curve, composed, measured
from evidence.networks import NETWORKS, Link, stretch_for
from evidence.runs import Runner
from evidence.unseen_jobs import ALL

GAIN_STEPS = 80
ATTEMPTS = 3  # at setting the load
NEAR = 0.15  # of the wanted load
LONGER = 3  # halves of the usual steps: how long those train that need more; the network stays as it was in the end
LEAST_MEASURED_LOAD = 0.5  # a smaller one is lost in the noise of a step


@dataclass(frozen=True)
class Study:
    job: str
    network: str
    load: float
    hosts: int = 4
    compute: float = 0.06
    steps: int = 0  # 0: the job's
    published: bool = True  # the published system is among the methods

    @property
    def name(self) -> str:
        return f"{self.job}/{self.network}/{self.load:g}x" + (
            "" if self.hosts == 4 else f"/{self.hosts}"
        )

    @property
    def file_name(self) -> str:
        return self.name.replace("/", "-")

    @property
    def length(self) -> int:
        return self.steps or ALL[self.job].steps

    def links(self, stretch: float) -> list[tuple[int, Link]]:
        size = entries(self.job) / ALL[self.job].stands_for
        return [
            (first, link.scaled(size, stretch))
            for first, link in NETWORKS[self.network].phases(self.length)
        ]

    def phases(self, runner: Runner) -> tuple[specs.Phase, ...]:
        if not self.published:
            return self.bare_phases(stretch(self, runner))
        gained = gains(runner, self.job, self.hosts)
        made = []
        for bare, (_, link) in zip(
            self.bare_phases(stretch(self, runner)), self.links(stretch(self, runner)), strict=True
        ):
            plan = paper.plan_of(paper.choose(_worst(link), entries(self.job), self.hosts, gained))
            made.append(dataclasses.replace(bare, plan=plan))
        return tuple(made)

    def bare_phases(self, stretch: float) -> tuple[specs.Phase, ...]:
        """Without the published system's plans."""
        links = enumerate(self.links(stretch))
        return tuple(
            specs.Phase(
                f"p{i}", first, link.text(), _worst(link).text() if link.slow_host != 1 else ""
            )
            for i, (first, link) in links
        )

    def prepare(self, runner: Runner, some: Collection[str], seeds: Collection[int]) -> None:
        """Runs all that the curves of these methods need."""
        phases = self.phases(runner)
        adaptive = [name for name in some if methods.METHODS[name].looks_at_the_network]
        others = [name for name in some if name not in adaptive]
        runner.prepare(self.trained(name, seed) for seed in seeds for name in others)
        runner.prepare(self.timed(name, phases) for name in others)
        runner.prepare(self.full(runner, name, seed) for seed in seeds for name in adaptive)

    def curve(self, runner: Runner, method: str, seed: int, longer: bool = False) -> Curve:
        phases = self.phases(runner)
        if methods.METHODS[method].looks_at_the_network:
            return measured(runner.result(self.full(runner, method, seed, longer)))
        trained = runner.result(self.trained(method, seed, longer))
        mine = self.step_times(runner, method, phases)
        if warm := methods.warm_steps(method):
            return composed(trained, mine, self.step_times(runner, "ddp", phases), warm)
        return composed(trained, mine)

    def trained(self, method: str, seed: int, longer: bool = False) -> specs.Spec:
        """All steps on loopback: what they do to the loss, not how long they take."""
        return specs.Spec(
            "train",
            self.job,
            method,
            seed,
            self.hosts,
            self._steps(longer),
            snapshot_every=snapshots(method),
        )

    def full(self, runner: Runner, method: str, seed: int, longer: bool = False) -> specs.Spec:
        return specs.Spec(
            "train",
            self.job,
            method,
            seed,
            self.hosts,
            self._steps(longer),
            self.compute,
            snapshot_every=snapshots(method),
            phases=self.phases(runner),
        )

    def _steps(self, longer: bool) -> int:
        return self.length * LONGER // 2 if longer else self.length

    def timed(self, method: str, phases: tuple[specs.Phase, ...]) -> specs.Spec:
        """Each link once, wherever it stands in the timeline."""
        distinct = sorted({(phase.link, phase.slow_host) for phase in phases})
        return specs.Spec(
            "time",
            self.job,
            method,
            0,
            self.hosts,
            0,
            self.compute,
            phases=tuple(specs.Phase(f"l{i}", 0, *key) for i, key in enumerate(distinct)),
        )

    def step_times(
        self, runner: Runner, method: str, phases: tuple[specs.Phase, ...]
    ) -> list[tuple[int, float]]:
        """(first step, seconds a step)."""
        spec = self.timed(method, phases)
        timed = runner.result(spec)["timed"]
        mean = {
            (phase.link, phase.slow_host): float(one["mean"])
            for phase, one in zip(spec.phases, timed, strict=True)
        }
        return [(phase.first, mean[phase.link, phase.slow_host]) for phase in phases]


def _worst(link: Link) -> Link:
    return Link(link.latency, link.rate / link.slow_host)


@functools.cache
def stretch(study: Study, runner: Runner) -> float:
    """Stretch of the network at which plain DDP has the wanted load: from a formula, which ignores
    TCP, then corrected by the time of DDP's steps in the lab."""
    job = ALL[study.job]
    found = stretch_for(
        NETWORKS[study.network],
        study.load,
        study.compute,
        entries(study.job),
        study.hosts,
        job.stands_for,
    )
    for _ in range(ATTEMPTS if study.load >= LEAST_MEASURED_LOAD else 0):
        found = float(f"{found:.3g}")
        measured_load = (
            mean_step(study.step_times(runner, "ddp", study.bare_phases(found)), study.length)
            / study.compute
            - 1
        )
        if abs(measured_load / study.load - 1) <= NEAR:
            break
        found *= study.load / max(measured_load, 0.1 * study.load)
    return float(f"{found:.3g}")


def mean_step(times: list[tuple[int, float]], steps: int) -> float:
    """Over all steps, from (first step, seconds a step)."""
    ends = [first for first, _ in times[1:]] + [steps]
    return (
        sum((end - first) * seconds for (first, seconds), end in zip(times, ends, strict=True))
        / steps
    )


def snapshots(method: str) -> int:
    return max(8, methods.METHODS[method].period)


@functools.cache
def entries(job: str) -> int:
    return sum(p.numel() for p in ALL[job].make_model().parameters() if p.requires_grad)


def gains(runner: Runner, job: str, hosts: int) -> dict[float, float]:
    """Gains that the published system measures by exploring, at each of its densities."""
    plans = {
        density: f"gain: gradients union density={100 * density:g}% values=f32 indices=raw32 fuse=all"
        for density in paper.DENSITIES
    }
    wanted = {
        density: specs.Spec("train", job, plan, 0, hosts, GAIN_STEPS, snapshot_every=GAIN_STEPS)
        for density, plan in plans.items()
    }
    runner.prepare(wanted.values())
    return {density: float(runner.result(spec)["gain"]) for density, spec in wanted.items()}
