# SPDX-License-Identifier: MIT
"""Progress display of the two runs on standard error: live bars with step, loss, plan and time left
on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol

from pliant.demo.launch import Event
from pliant.demo.settings import Settings
from pliant.runlog import plan_text

TITLES = {"plain-ddp": "plain DDP", "pliant": "Pliant"}


class Progress(Protocol):
    def __enter__(self) -> Progress: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def say(self, text: str) -> None: ...
    def step(self, event: Event) -> None: ...
    def take(self, event: Event) -> None: ...


def make(settings: Settings) -> Progress:
    return Bars(settings) if sys.stderr.isatty() else Lines(settings)


class Lines:
    """One a tenth of the way."""

    def __init__(self, settings: Settings) -> None:
        self._steps = settings.steps
        self._begun: dict[str, float] = {}
        self._tenths: dict[str, int] = {}

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def step(self, event: Event) -> None:
        pass  # a line for each evaluation is enough

    def take(self, event: Event) -> None:
        method, step = event["method"], event["step"]
        begun = self._begun.setdefault(method, time.monotonic())
        tenth = 10 * step // self._steps
        if tenth > self._tenths.get(method, 0):
            self._tenths[method] = tenth
            left = (time.monotonic() - begun) / step * (self._steps - step)
            self.say(
                f"{TITLES[method]:9}  step {step} of {self._steps}  {_loss(event)}  "
                f"{plan_text.label(event['plan'])}  about {left:.0f} s left"
            )


class Bars:
    """A bar for each method, live."""

    def __init__(self, settings: Settings) -> None:
        from rich import progress as bars
        from rich.console import Console

        self._steps = settings.steps
        columns = [
            bars.TextColumn("{task.description:9}"),
            bars.BarColumn(bar_width=24),
            bars.MofNCompleteColumn(),
            bars.TextColumn("{task.fields[loss]}"),
            bars.TextColumn("{task.fields[plan]}", style="cyan"),
            bars.TimeElapsedColumn(),
            bars.TextColumn("left"),
            bars.TimeRemainingColumn(),
        ]
        self._bars = bars.Progress(*columns, console=Console(stderr=True))
        self._tasks = {
            name: self._bars.add_task(title, total=self._steps, start=False, loss="", plan="")
            for name, title in TITLES.items()
        }

    def __enter__(self) -> Bars:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def say(self, text: str) -> None:
        self._bars.console.print(text, markup=False, highlight=False)

    def step(self, event: Event) -> None:
        task = self._tasks[event["method"]]
        self._bars.start_task(task)
        self._bars.update(task, completed=event["step"], plan=plan_text.label(event["plan"]))

    def take(self, event: Event) -> None:
        self.step(event)
        self._bars.update(self._tasks[event["method"]], loss=_loss(event))


def _loss(event: Event) -> str:
    return f"loss {event['loss']:.3f}"
