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
from pliant.runlog.dense_time import DenseTime
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
    # Of recent steps: the time, and the range that a dense one would have taken.
    against: deque[tuple[float, float, float]] = field(default_factory=lambda: deque(maxlen=200))

    def __post_init__(self) -> None:
        self._dense = DenseTime(self.header)

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
                self._dense.learn(line)
                if (known := self._dense.of(line)) is not None and line.whole:
                    self.against.append((line.whole, known.low, known.high))
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
    def against_dense(self) -> str:
        """How a step compares with a dense one, in words; empty if too little is known."""
        if not self.against or 2 * len(self.against) < len(self.recent):
            return ""
        whole = sum(each[0] for each in self.against)
        low, high = (sum(each[i] for each in self.against) / whole for i in (1, 2))
        if (low + high) / 2 > 1.05:
            return f"{formatting.times_range(low, high)} less than dense"
        if (low + high) / 2 < 0.95:
            return f"{formatting.times_range(1 / high, 1 / low)} more than dense"
        return ""
