# SPDX-License-Identifier: MIT
"""Options of one averager: the arguments of `attach` or `comm_hook`, checked and immutable."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant import _native
from pliant.argument_checks import (
    check_flag,
    check_text,
    check_whole,
    check_word,
    number_of,
    refusal,
)
from pliant.monitoring import metrics

# Each lane is a thread with a connection to every other rank. More than a few gain nothing.
_MOST_LANES = 32
_MOST_COUNT = 10**9
_MOST_SECONDS = 1e9

_PLAN = "'auto' or any part of a plan (docs/plans.md), as a text"
_DEADLINE = "a number of seconds above 0 and below 1e9, or a duration such as '30s'"
_DIALS = "a dict from the name of a dial to a number, such as {'p': 0.3} (docs/control.md)"
_LOG = "the path of a file, in which {rank} stands for the number of the rank"


@dataclass(frozen=True)
class Options:
    """The docstring of `pliant.attach` describes each option. Making an instance checks them all:
    TypeError or ValueError names the option that cannot be used."""

    plan: str = "auto"
    deadline: float | str | None = None
    lanes: int = 2
    clip_norm: float | None = None
    warm_up: int | None = None
    ramp: bool = False
    check_every: int = 100
    scaler: Any = None
    buffers: bool = True
    clear_momentum: bool | None = None
    policy: str = "auto"
    goal: str = "steps"
    dials: Mapping[str, float] | None = None
    log: str | os.PathLike[str] | None = None
    name: str | None = None
    metrics: str | int | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        check_plan(self.plan)
        check_whole("lanes", self.lanes, 0, _MOST_LANES)
        check_whole("check_every", self.check_every, 0, _MOST_COUNT)
        if self.warm_up is not None:
            check_whole("warm_up", self.warm_up, 0, _MOST_COUNT)
        check_flag("ramp", self.ramp)
        check_flag("buffers", self.buffers)
        if self.clear_momentum is not None:
            check_flag("clear_momentum", self.clear_momentum, "True, False or None")
        check_word("policy", self.policy, ("auto", "knee", "fixed"))
        check_word("goal", self.goal, ("steps", "time"))
        if self.name is not None:
            check_text("name", self.name, "a text")
        if self.scaler is not None and not callable(getattr(self.scaler, "get_scale", None)):
            raise refusal(TypeError, "scaler", self.scaler, "a torch.amp.GradScaler")
        if self.metrics is not None:
            metrics.read(self.metrics)
        self._check_clip_norm()
        self._check_deadline()
        self._check_dials()
        self._check_log()
        if self.ramp and not self.warm_up:
            raise ValueError("ramp=True: say with warm_up= how many steps it takes")
        self.native()

    def _check_clip_norm(self) -> None:
        if self.clip_norm is not None:
            allowed = "a number above 0"
            norm = number_of("clip_norm", self.clip_norm, allowed)
            if not norm > 0:
                raise refusal(ValueError, "clip_norm", self.clip_norm, allowed)
            object.__setattr__(self, "clip_norm", norm)

    def _check_deadline(self) -> None:
        if self.deadline is None:
            return
        if not isinstance(self.deadline, str):
            number_of("deadline", self.deadline, _DEADLINE)
        if not 0 < (self.deadline_seconds or 0.0) < _MOST_SECONDS:
            raise refusal(ValueError, "deadline", self.deadline, _DEADLINE)

    def _check_dials(self) -> None:
        if self.dials is None:
            return
        if not isinstance(self.dials, Mapping):
            raise refusal(TypeError, "dials", self.dials, _DIALS)
        for name, value in self.dials.items():
            check_text("dials", name, _DIALS)
            number_of(f"dials: {name}", value, "a number")

    def _check_log(self) -> None:
        if self.log is None:
            return
        if not isinstance(self.log, (str, os.PathLike)) or not isinstance(
            path := os.fspath(self.log), str
        ):
            raise refusal(TypeError, "log", self.log, _LOG)
        unknown = set(re.findall(r"\{[^{}]*\}", path)) - {"{rank}"}
        if not path or unknown:
            raise refusal(ValueError, "log", self.log, _LOG)

    @property
    def deadline_seconds(self) -> float | None:
        """None if the timeout of the process group applies."""
        if isinstance(self.deadline, str):
            return _native.read_duration(self.deadline, "deadline")
        return None if self.deadline is None else float(self.deadline)

    @property
    def log_path(self) -> str | None:
        return None if self.log is None else os.fspath(self.log)

    def native(self) -> _native.Options:
        """The engine's options, as far as they are the user's."""
        return _native.Options(
            plan=self.plan,
            check_every=self.check_every,
            clip_norm=self.clip_norm or 0.0,
            warm_up=self.warm_up,
            ramp=self.ramp,
            policy=self.policy,
            goal=self.goal,
            dials={
                name: float(value) for name, value in (self.dials or {}).items()
            },  # last: a dial overrides warm_up
        )


def check_plan(plan: object) -> None:
    """Whether it is a text: reading it comes later."""
    check_text("plan", plan, _PLAN)


def pins_updates(plan: str) -> bool:
    """Whether the text of a plan asks for kind updates."""
    pins = _native.Pins(plan)
    return pins.kind == "updates" or pins.every is not None or pins.late is not None
