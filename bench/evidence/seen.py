# SPDX-License-Identifier: MIT
"""Observations of a run besides its loss: bytes, exposed time, changes of plan, prediction
errors."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from evidence import methods
from evidence.curves import Curve
from evidence.runs import Runner
from evidence.study import Study
from pliant import runlog
from pliant.report import cli as report


@dataclass(frozen=True)
class Seen:
    """Observations of one run."""

    sent: float | None  # bytes a step, by rank 0's host
    exposed: float  # share of the time that is not compute
    changes: int | None = None  # of plan
    errors: list[float] = field(
        default_factory=list
    )  # of the predicted exchange, of what it took; absolute


def of(runner: Runner, study: Study, method: str, seed: int, curve: Curve) -> Seen:
    exposed = 1 - study.compute * curve.steps[-1] / curve.times[-1]
    if not methods.METHODS[method].looks_at_the_network:
        phases = study.phases(runner)
        spec = study.timed(method, phases)
        sent = [one.get("sent") for one in runner.result(spec)["timed"]]
        return Seen(statistics.fmean(sent) if None not in sent else None, exposed)
    spec = study.full(runner, method, seed)
    log = runlog.read(runner.log_of(spec))
    errors = [
        abs(step.predicted / step.seen - 1) for step in log.steps if step.predicted and step.seen
    ]
    return Seen(
        runner.result(spec)["sent"] / spec.steps, exposed, log.moves().count("changed"), errors
    )


def report_page(runner: Runner, study: Study, method: str, seed: int) -> None:
    """The page of a run in full, beside its log."""
    log = runner.log_of(study.full(runner, method, seed))
    if log.exists():
        report.main([str(log), "-o", str(runner.folder / f"{study.file_name}-{method}.html")])
