# SPDX-License-Identifier: MIT
"""State of a run as far as its log has been read: totals, the latest values, the last decisions."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from pliant.runlog import (
    Decision,
    End,
    Header,
    Line,
    Link,
    Message,
    Note,
    Phase,
    Step,
    plan_text,
)
from pliant.tools import formatting


@dataclass
class State:
    """The sum of the lines that `take` was given."""

    header: Header
    full: bool = False  # plans and reasons are shown whole
    steps: int = 0
    bytes: int = 0
    voids: int = 0
    t: float = 0.0
    last: Step | None = None
    link: Link | None = None
    phase: str | None = None
    noted: dict[str, float] = field(default_factory=dict)
    decision: Decision | None = None  # the one that took the plan in force
    decisions: deque[Decision] = field(default_factory=lambda: deque(maxlen=5))
    messages: deque[Message] = field(default_factory=lambda: deque(maxlen=3))
    recent: deque[Step] = field(default_factory=lambda: deque(maxlen=200))
    end: End | None = None

    def plan(self, plan: str) -> str:
        """A plan as it is shown."""
        return formatting.plain(plan) if self.full else plan_text.label(plan)

    def reason(self, decision: Decision) -> str:
        """A decision as it is shown."""
        if not self.full:
            return formatting.plain(decision.short)
        return f"{formatting.plain(decision.plan)}: {formatting.plain(decision.reason)}"

    def take(self, line: Line) -> None:
        self.t = max(self.t, line.t)
        match line:
            case Step():
                self.steps, self.last, self.link = self.steps + 1, line, line.link or self.link
                self.bytes += line.bytes
                self.voids += line.void
                self.recent.append(line)
            case Decision():
                self.decisions.append(line)
                if self.decision is None or (not line.trial and line.plan != self.decision.plan):
                    self.decision = line
            case Note():
                self.noted |= line.values
            case Phase():
                self.phase = line.name
            case Message():
                self.messages.append(line)
            case End():
                self.end = line

    @property
    def step_time(self) -> float | None:
        """The mean of the last steps."""
        times = [step.whole for step in self.recent if step.whole is not None]
        return sum(times) / len(times) if times else None

    @property
    def against_dense(self) -> float | None:
        both = [
            (step.whole, step.dense_step) for step in self.recent if step.whole and step.dense_step
        ]
        return sum(dense for _, dense in both) / sum(whole for whole, _ in both) if both else None
