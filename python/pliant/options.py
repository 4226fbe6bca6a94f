# SPDX-License-Identifier: MIT
"""Options of one averager: the arguments of `attach` or `comm_hook`, checked and immutable."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant import _native
from pliant.monitoring import metrics


@dataclass(frozen=True)
class Options:
    """The docstring of `pliant.attach` describes each option. Making an instance checks them all:
    ValueError names the option that cannot be used."""

    plan: str = "auto"
    deadline: float | str | None = None
    lanes: int = 2
    clip_norm: float | None = None
    warm_up: int | None = None
    ramp: bool = False
    check_every: int = 100
    selector: str = "native"
    scaler: Any = None
    buffers: bool = True
    clear_momentum: bool | None = None
    policy: str = "auto"
    dials: Mapping[str, float] | None = None
    log: str | os.PathLike[str] | None = None
    name: str | None = None
    metrics: str | None = None

    def __post_init__(self) -> None:
        if self.metrics is not None:
            metrics.read(self.metrics)
        if self.log is not None and not os.fspath(self.log):
            raise ValueError("log='': the path of a file")
        self.native()
        if self.selector not in ("native", "torch"):
            raise ValueError(f"selector='{self.selector}': 'native' or 'torch'")
        seconds = self.deadline_seconds
        for name in ("lanes", "warm_up", "check_every"):
            if (value := getattr(self, name) or 0) < 0:
                raise ValueError(f"{name}={value}: at least 0")
        if seconds is not None and not seconds > 0:
            raise ValueError(f"deadline={seconds}: more than 0 seconds")
        if self.ramp and not self.warm_up:
            raise ValueError("ramp=True: say with warm_up= how many steps it takes")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm={self.clip_norm}: more than 0")

    @property
    def deadline_seconds(self) -> float | None:
        """None if the timeout of the process group applies."""
        if isinstance(self.deadline, str):
            return _native.read_duration(self.deadline, "deadline")
        return self.deadline

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
            dials=dict(self.dials or {}),  # last: a dial overrides warm_up
        )


def pins_updates(plan: str) -> bool:
    """Whether the text of a plan asks for kind updates."""
    pins = _native.Pins(plan)
    return pins.kind == "updates" or pins.every is not None or pins.late is not None
