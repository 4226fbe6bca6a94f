# SPDX-License-Identifier: MIT
"""Specification of one run as a value. It names the run's file, so that no run is repeated."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Phase:
    name: str
    first: int  # step
    link: str  # as the lab reads it
    slow_host: str = ""  # host 1's, if it is another
    plan: str = ""  # the paper's

    def hardness(self) -> tuple[float, float]:
        """By which links can be ordered: milliseconds of latency, then of a megabit."""
        rate, latency = self.link.split(",")[:2]
        return float(latency.removesuffix("ms")), 1e3 / float(rate.removesuffix("mbit"))


@dataclass(frozen=True)
class Spec:
    mode: str  # "train": all steps, curve and clock; "time": step time in each phase
    job: str
    method: str
    seed: int
    hosts: int
    steps: int
    compute: float = 0.0  # seconds of a step's own work, held to by pace.py; 0: as fast as it goes
    rate: float | None = None  # learning rate; None: the job's
    snapshot_every: int = 8
    phases: tuple[Phase, ...] = field(
        default_factory=tuple
    )  # none: loopback, no clock worth reading
    # Where it goes: not part of its identity.
    out: str = ""
    log: str = ""

    def digest(self) -> str:
        facts = {key: value for key, value in asdict(self).items() if key not in ("out", "log")}
        return hashlib.sha1(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def read(path: Path) -> Spec:
    document = json.loads(path.read_text())
    document["phases"] = tuple(Phase(**phase) for phase in document["phases"])
    return Spec(**document)


def write(spec: Spec, path: Path) -> None:
    path.write_text(json.dumps(asdict(spec), indent=1) + "\n")


def timeline(spec: Spec) -> str:
    """The lab's timeline of a run: phases by name alone."""
    lines = ['description = "phases that the job enters by its step"']
    for phase in spec.phases:
        lines += ["", "[[phase]]", f'name = "{phase.name}"', f'link = "{phase.link}"']
        if phase.slow_host:
            lines.append(f'host.1 = "{phase.slow_host}"')
    return "\n".join(lines) + "\n"
