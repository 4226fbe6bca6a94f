# SPDX-License-Identifier: MIT
"""Learning-rate schedules that advance by effective steps: `pliant.stretch`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from pliant.argument_checks import refusal
from pliant.averager import Averager

# Sums of worths are rounded: 1,000 steps that are worth 0.97 must make 970.
_ROUNDING = 1e-6


def stretch(scheduler: LRScheduler, averager: Averager) -> StretchedSchedule:
    """The schedule, advanced by what steps are worth instead of by their number.

    Call its step() once after every optimizer step, as that of the scheduler before. It advances
    the scheduler once for each effective step (`averager.effective_steps`), so that a schedule made
    for N steps of plain DDP ends when N steps' worth of progress is made. Every rank advances at
    the same steps."""
    if isinstance(scheduler, ReduceLROnPlateau) or not isinstance(scheduler, LRScheduler):
        raise refusal(
            TypeError,
            "scheduler",
            scheduler,
            "a learning-rate scheduler of torch.optim that counts steps",
        )
    if not isinstance(averager, Averager):
        raise refusal(TypeError, "averager", averager, "the averager that pliant.attach returned")
    return StretchedSchedule(scheduler, averager)


class StretchedSchedule:
    """The scheduler's own attributes (get_last_lr, last_epoch, ...) are found here too."""

    def __init__(self, scheduler: LRScheduler, averager: Averager) -> None:
        self.scheduler = scheduler
        self.averager = averager
        self._begin = averager.effective_steps
        self._advanced = 0

    def step(self) -> None:
        """After every optimizer step. Advances the scheduler if another effective step is done."""
        due = int(self.averager.effective_steps - self._begin + _ROUNDING)
        while self._advanced < due:
            self._advanced += 1
            self.scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        return {
            "scheduler": self.scheduler.state_dict(),
            "begin": self._begin,
            "advanced": self._advanced,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Together with the averager's state, which has the effective steps so far."""
        missing = [key for key in ("scheduler", "begin", "advanced") if key not in state]
        if missing:
            raise ValueError(
                "load_state_dict: not a state that state_dict() of a stretched schedule returned: "
                f"it has no '{missing[0]}'"
            )
        self.scheduler.load_state_dict(dict(state["scheduler"]))
        self._begin = float(state["begin"])
        self._advanced = int(state["advanced"])

    def __getattr__(self, name: str) -> Any:
        if name in ("scheduler", "averager"):  # not there yet: a copy is being made
            raise AttributeError(name)
        return getattr(self.scheduler, name)
