# SPDX-License-Identifier: MIT
"""What a run tells of itself while it runs: the run log (docs/formats/run-log.md), which the engine
writes, and metrics."""

from __future__ import annotations

import logging
import os
import sys
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pliant import _native, lab, metrics

_logger = logging.getLogger("pliant")


class _Overhearing(logging.Handler):
    """Warnings of the package's own. Those of the engine it has written itself."""

    def __init__(self, telling: Telling) -> None:
        super().__init__(logging.WARNING)
        self._telling = weakref.ref(telling)

    def emit(self, record: logging.LogRecord) -> None:
        telling = self._telling()
        if telling is not None and not getattr(record, "from_engine", False):
            telling.message(record.getMessage())


class Telling:
    """Of one averager. Where neither a log nor metrics were asked for it only knows the lab."""

    def __init__(self, log: str | None, name: str | None, where: str | None) -> None:
        self.path = log
        self.name = (
            name
            or (Path(log).stem if log else "")
            or Path(sys.argv[0] if sys.argv else "").stem
            or "run"
        )
        self._where = where
        self._rank = 0
        self._notes: dict[str, float] = {}
        self._engine: weakref.ref[_native.Engine] | None = None
        self._last = ""
        self._metrics: metrics.Server | metrics.File | None = None
        self._overhearing: _Overhearing | None = None

    def prepare(self, rank: int) -> str:
        """Before the engine, which tells all ranks what one of them objects to: an empty text, or
        why metrics cannot be had."""
        self._rank = rank
        if self._where is None or rank != 0:
            return ""
        me = weakref.ref(self)
        try:
            self._metrics = metrics.start(self._where, lambda: _say(me))
        except OSError as error:
            return str(error)
        return ""

    @property
    def arguments(self) -> dict[str, Any]:
        """For the engine."""
        return {
            "run_log": self.path or "",
            "run_name": self.name,
            "command": [sys.executable, *sys.argv] if self.path else [],
            "watched": self._metrics is not None,
        }

    def start(self, engine: _native.Engine) -> None:
        self._engine = weakref.ref(engine)
        if self.path is not None:
            self._overhearing = _Overhearing(self)
            _logger.addHandler(self._overhearing)

    def stop(self, engine: _native.Engine | None) -> None:
        """After the engine was closed."""
        if engine is not None:
            self._last = engine.latest()
        self._engine = None
        if self._overhearing is not None:
            _logger.removeHandler(self._overhearing)
            self._overhearing = None
        if self._metrics is not None:
            self._metrics.stop()
            self._metrics = None

    def note(self, values: Mapping[str, Any]) -> None:
        numbers = {key: _number(key, value) for key, value in values.items()}
        self._notes.update(numbers)
        engine = self._running()
        if engine is not None:
            engine.note(list(numbers.items()))

    def phase(self, name: str) -> None:
        """Rank 0 tells the lab; every rank that has a log writes it down."""
        if not name or any(not character.isprintable() for character in name):
            raise ValueError(f"phase {name!r}: the name of a phase is one line of text")
        if self._rank == 0:
            lab.enter_phase(name)
        engine = self._running()
        if engine is not None:
            engine.phase(name)

    def message(self, text: str) -> None:
        engine = self._running()
        if engine is not None:
            engine.message(text)

    def metrics_text(self) -> str:
        engine = self._running()
        return metrics.text(
            self._last if engine is None else engine.latest(), self.name, self._notes
        )

    @property
    def port(self) -> int | None:
        """Where metrics are served."""
        return self._metrics.port if isinstance(self._metrics, metrics.Server) else None

    def _running(self) -> _native.Engine | None:
        return None if self._engine is None else self._engine()


def _say(telling: weakref.ref[Telling]) -> str:
    alive = telling()
    return "" if alive is None else alive.metrics_text()


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"note({name}={value!r}): a note is a number") from None


def check(log: str | os.PathLike[str] | None, where: str | None) -> str | None:
    """The path as text; ValueError if something typed makes no sense."""
    if where is not None:
        metrics.read(where)
    if log is None:
        return None
    path = os.fspath(log)
    if not path:
        raise ValueError("log='': the path of a file")
    return path
