# SPDX-License-Identifier: MIT
"""Pacing of compute at a fixed rate. Four ranks share two cores, so the time of a step's own work
depends on the other ranks more than on the job. Each step therefore runs for real and is held back
to a timetable: forward takes a third of the step's compute, backward the rest, and a gradient is
ready once as much of backward is over as there were parameters before it. Exchanges beside backward
find the room that they would find on machines of their own. Forwards that overran their third are
counted: with many of them the timetable is too tight."""

from __future__ import annotations

import time

from torch import nn

FORWARD = 1 / 3


class Pace:
    def __init__(self, model: nn.Module, compute: float) -> None:
        self.compute = compute
        self.forwards = 0
        self.late_forwards = 0
        self._begin = 0.0
        self._ready = 0
        parameters = [p for p in model.parameters() if p.requires_grad]
        self._total = sum(p.numel() for p in parameters)
        for parameter in parameters:
            parameter.register_hook(lambda _, size=parameter.numel(): self._gradient(size))

    def begin(self) -> None:
        self._begin = time.perf_counter()
        self._ready = 0

    def forward_done(self) -> None:
        self.forwards += 1
        self.late_forwards += not self._hold(FORWARD)

    def _gradient(self, size: int) -> None:
        self._ready += size
        self._hold(FORWARD + (1 - FORWARD) * self._ready / self._total)

    def _hold(self, share: float) -> bool:
        """False: it was later than that already."""
        ahead = self._begin + share * self.compute - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        return ahead > 0
