# SPDX-License-Identifier: MIT
"""Settings of one demonstration: the number of hosts and steps, and a network whose phases begin at
given steps, the same for both methods.

The network is scaled to the model, because a small model on a fast emulated link would hide what a
large one meets on a real link. Plain DDP moves 2 (N-1)/N of the model's bytes in and out of each
host in every step; `rate` of a phase is such that this takes the stated multiple of the step's
compute."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

# The learning rate is tuned for plain DDP: of those that `python -m pliant.demo.tune` tries it has
# the lowest loss, over three seeds.
LEARNING_RATE = 0.1
MOMENTUM = 0.9
BATCH = 32  # images of each host and step
MODEL_BYTES = 4 * 206_922  # float32; of the CNN in model.py

# Every host's forward and backward take at least this long: they run, and the rest is waited. Two
# cores that play four hosts and the network between them would otherwise show how busy they are,
# not what the network costs.
COMPUTE_SECONDS = 0.020

JUDGEMENTS = 40  # how often loss and accuracy on held-back images are noted, over the run
JUDGED_IMAGES = 1_000


@dataclass(frozen=True)
class Phase:
    name: str
    begins: float  # at this share of the steps
    load: float  # bytes of plain DDP: so many times the compute
    delay_ms: float  # one way


# A local network; then one that is far and shared, where plain DDP mostly waits; then half of it
# comes back.
PHASES = (Phase("lan", 0.0, 0.5, 0.2), Phase("wan", 0.2, 3.5, 5.0), Phase("mending", 0.7, 1.0, 2.0))


@dataclass(frozen=True)
class Settings:
    out: str
    hosts: int = 4
    steps: int = 1_000
    seed: int = 1
    compute: float = COMPUTE_SECONDS

    @property
    def judge_every(self) -> int:
        return max(1, self.steps // JUDGEMENTS)

    def first_step(self, phase: Phase) -> int:
        return round(phase.begins * self.steps)

    def rate_mbit(self, phase: Phase) -> float:
        moved = 2 * (self.hosts - 1) / self.hosts * MODEL_BYTES
        return 8 * moved / (phase.load * self.compute) / 1e6

    def link(self, phase: Phase) -> str:
        return f"{self.rate_mbit(phase):.0f}mbit,{phase.delay_ms:g}ms"

    def expected_seconds(self) -> float:
        """Of plain DDP's training: compute, bytes, and a message's delay there and back for each
        hop of the ring's two rounds."""
        total = 0.0
        ends = [self.first_step(phase) for phase in PHASES[1:]] + [self.steps]
        for phase, end in zip(PHASES, ends, strict=True):
            latency = 2 * 2 * (self.hosts - 1) * phase.delay_ms / 1e3
            total += (end - self.first_step(phase)) * (self.compute * (1 + phase.load) + latency)
        return total

    def timeline(self) -> str:
        """For pliant-lab, entered by name."""
        lines = ['description = "pliant demo"', f'link = "{self.link(PHASES[0])}"']
        for phase in PHASES:
            lines += ["", "[[phase]]", f'name = "{phase.name}"', f'link = "{self.link(phase)}"']
        return "\n".join(lines) + "\n"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Settings:
        return Settings(**json.loads(text))


def steps_within(seconds: float, settings: Settings) -> int:
    """As many as fit if Pliant took as long as plain DDP."""
    return max(1, int(settings.steps * seconds / (2 * settings.expected_seconds())))
