# SPDX-License-Identifier: MIT
"""Dataclasses for the lines of a run log (docs/formats/run-log.md), and for a whole log.

`None` means that the line does not know the value."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORMAT, VERSION = "pliant-run-log", 1


class RunLogError(ValueError):
    """A file that is not a run log, or not one of this version. The text names the file, and the
    line if there is one."""


@dataclass(frozen=True)
class Header:
    name: str
    started: float
    mono: float
    versions: dict[str, str]
    command: list[str]
    rank: int
    world: int
    lanes: int
    parameters: int
    layout: str
    options: dict[str, str]
    optimizer: str | None
    buckets: list[int]


@dataclass(frozen=True)
class Link:
    latency: float
    latency_sd: float | None
    rate: float
    rate_sd: float | None

    @property
    def known_rate(self) -> float | None:
        """None if the link is too fast to tell: the rate might as well be infinite."""
        return None if self.rate_sd is not None and self.rate_sd >= self.rate else self.rate


@dataclass(frozen=True)
class Exchange:
    group: int
    lane: int
    begin: float
    enter: float
    leave: float
    end: float
    bytes: int
    entries: int


@dataclass(frozen=True)
class Step:
    t: float
    step: int
    plan: str
    epoch: int
    round: int | None
    whole: float | None
    compute: float | None
    exposed: float | None
    coding: float | None
    predicted: float | None
    seen: float | None
    bytes: int
    control_bytes: int
    link: Link | None
    dense_step: float | None
    worth: float | None  # older logs have none
    updated: float | None
    gain: float | None
    residual_ratio: float | None
    void: bool
    exchanges: list[Exchange]


@dataclass(frozen=True)
class Candidate:
    """A plan with what the model said of it."""

    plan: str
    step: float | None
    exchange: float | None
    exposed: float | None
    efficiency: float | None
    updated: float | None
    gain: float | None
    bytes: float | None


@dataclass(frozen=True)
class Decision:
    t: float
    step: int
    epoch: int
    plan: str
    before: str | None
    changed: bool
    trial: bool
    short: str  # for example "network slower (40 Mbit/s): top 10 % instead of 20 %"
    reason: str  # with whole plans and predictions
    inputs: str | None
    candidates: int | None
    front: list[Candidate]
    chosen: Candidate | None


@dataclass(frozen=True)
class Note:
    t: float
    step: int
    values: dict[str, float]  # may be NaN, for example a loss that has diverged


@dataclass(frozen=True)
class Phase:
    t: float
    step: int
    name: str


@dataclass(frozen=True)
class Message:
    t: float
    level: str
    text: str


@dataclass(frozen=True)
class End:
    t: float
    step: int
    status: str
    error: str | None
    summary: dict[str, Any]


Line = Step | Decision | Note | Phase | Message | End


@dataclass
class RunLog:
    path: Path
    header: Header
    steps: list[Step] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    end: End | None = None

    def add(self, line: Line) -> None:
        match line:
            case Step():
                self.steps.append(line)
            case Decision():
                self.decisions.append(line)
            case Note():
                self.notes.append(line)
            case Phase():
                self.phases.append(line)
            case Message():
                self.messages.append(line)
            case End():
                self.end = line

    def moves(self) -> list[str]:
        """The effect of each decision: "first", "trial" (for one exchange), "changed", or "kept",
        also where a trial gives way to the plan before it."""
        out, settled = [], None
        for decision in self.decisions:
            if decision.trial:
                out.append("trial")
                continue
            out.append(
                "first" if settled is None else "changed" if decision.plan != settled else "kept"
            )
            settled = decision.plan
        return out

    @property
    def seconds(self) -> float:
        """How far the log reaches."""
        ends = [self.end.t] if self.end else []
        return max(
            [
                0.0,
                *ends,
                *(
                    lines[-1].t
                    for lines in (
                        self.steps,
                        self.decisions,
                        self.notes,
                        self.phases,
                        self.messages,
                    )
                    if lines
                ),
            ]
        )
