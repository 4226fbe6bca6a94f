# SPDX-License-Identifier: MIT
"""Monitor of one run: passes notes, phases and warnings to the run log (docs/formats/run-log.md),
which the engine writes, and serves metrics."""

from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pliant import _native
from pliant.argument_checks import check_text, number_of, refusal
from pliant.monitoring import lab, metrics
from pliant.monitoring.hide_secrets import hide_secrets
from pliant.options import Options

_logger = logging.getLogger("pliant")


class _WarningCopier(logging.Filter):
    """Copies the package's own warnings to the run log. The engine has written its own already.

    A filter that lets everything pass, not a handler: where a logger has a handler, Python no
    longer prints warnings of a program that never configured logging."""

    def __init__(self, monitor: RunMonitor) -> None:
        super().__init__()
        self._monitor = weakref.ref(monitor)

    def filter(self, record: logging.LogRecord) -> bool:
        monitor = self._monitor()
        from_engine = getattr(record, "from_engine", False)
        if monitor is not None and record.levelno >= logging.WARNING and not from_engine:
            monitor.message(record.getMessage())
        return True


class RunMonitor:
    """The monitor of one averager. Without a log and metrics it only talks to the lab."""

    def __init__(self, options: Options) -> None:
        self.path = options.log_path
        self.name = (
            options.name
            or (Path(self.path).stem if self.path else "")
            or Path(sys.argv[0] if sys.argv else "").stem
            or "run"
        )
        self._where = options.metrics
        self._rank = 0
        self._notes: dict[str, float] = {}
        self._engine: weakref.ref[_native.Engine] | None = None
        self._last = ""
        self._metrics: metrics.Server | metrics.File | None = None
        self._copier: _WarningCopier | None = None

    def start_metrics(self, rank: int) -> str:
        """Before the engine is made. Returns why metrics cannot be served, or an empty text: the
        engine raises it on all ranks."""
        self._rank = rank
        if self._where is None or rank != 0:
            return ""
        me = weakref.ref(self)
        try:
            self._metrics = metrics.start(self._where, lambda: _text(me))
        except OSError as error:
            return str(error)
        return ""

    def run_log(
        self, versions: list[tuple[str, str]], options: list[tuple[str, str]]
    ) -> _native.RunLogOptions:
        """The engine's options for the run log, with facts for its header."""
        return _native.RunLogOptions(
            path=self.path or "",
            name=self.name,
            command=hide_secrets([sys.executable, *sys.argv]) if self.path else [],
            versions=versions,
            options=options,
            watched=self._metrics is not None,
        )

    def start(self, engine: _native.Engine) -> None:
        self._engine = weakref.ref(engine)
        if self.path is not None:
            self._copier = _WarningCopier(self)
            _logger.addFilter(self._copier)

    def stop(self, engine: _native.Engine | None) -> None:
        """After the engine was closed; it may never have been made."""
        if engine is not None:
            self._last = engine.latest()
        self._engine = None
        if self._copier is not None:
            _logger.removeFilter(self._copier)
            self._copier = None
        if self._metrics is not None:
            self._metrics.stop()
            self._metrics = None

    def note(self, values: Mapping[str, Any]) -> None:
        numbers = {
            key: number_of(f"note: {key}", value, "a number") for key, value in values.items()
        }
        self._notes.update(numbers)
        engine = self._running()
        if engine is not None:
            engine.note(list(numbers.items()))

    def phase(self, name: str) -> None:
        """Enters a phase of the lab on rank 0, and logs it on every rank that has a log."""
        allowed = "one line of text"
        check_text("phase: name", name, allowed)
        if not name or not name.isprintable():
            raise refusal(ValueError, "phase: name", name, allowed)
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
        """The port at which metrics are served."""
        return self._metrics.port if isinstance(self._metrics, metrics.Server) else None

    def _running(self) -> _native.Engine | None:
        return None if self._engine is None else self._engine()


def _text(monitor: weakref.ref[RunMonitor]) -> str:
    alive = monitor()
    return "" if alive is None else alive.metrics_text()
