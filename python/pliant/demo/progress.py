# SPDX-License-Identifier: MIT
"""Progress display of the two runs on standard error: bars with the time left on a terminal, plain
lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol

from pliant.demo.launch import Event
from pliant.demo.settings import Settings

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
    def take(self, event: Event) -> None: ...


def make(settings: Settings) -> Progress:
    return Bars(settings) if sys.stderr.isatty() else Lines(settings)


def state(event: Event) -> str:
    return f"loss {event['loss']:.3f}  accuracy {100 * event['accuracy']:.1f} %"


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

    def take(self, event: Event) -> None:
        method, step = event["method"], event["step"]
        begun = self._begun.setdefault(method, time.monotonic())
        tenth = 10 * step // self._steps
        if tenth > self._tenths.get(method, 0):
            self._tenths[method] = tenth
            left = (time.monotonic() - begun) / step * (self._steps - step)
            self.say(
                f"{TITLES[method]:9}  step {step} of {self._steps}  {state(event)}  about "
                f"{left:.0f} s left  ({event['plan']})"
            )


class Bars:
    def __init__(self, settings: Settings) -> None:
        from rich import progress as bars
        from rich.console import Console

        self._steps = settings.steps
        columns = [
            bars.TextColumn("{task.description:9}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TextColumn("{task.fields[state]}"),
        ]
        self._bars = bars.Progress(
            *columns,
            bars.TextColumn("left"),
            bars.TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._tasks = {
            name: self._bars.add_task(title, total=self._steps, start=False, state="")
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

    def take(self, event: Event) -> None:
        task = self._tasks[event["method"]]
        self._bars.start_task(task)
        self._bars.update(task, completed=event["step"], state=state(event))
