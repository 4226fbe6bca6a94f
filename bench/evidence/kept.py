# SPDX-License-Identifier: MIT
"""Kept runs: every run in a small form, a file for each study in docs/results.

Figures, tables and the picture are made of these files and nothing else: whoever has the repository
can make them anew, and a study that runs again replaces its own numbers and no others."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from evidence.curves import Curve
from evidence.histograms import Plans
from evidence.judge import Curves
from evidence.seen import Seen
from evidence.study import Study

POINTS = 41  # of a curve
DECILES = 10  # of the prediction errors of a run


@dataclass(frozen=True)
class Check:
    """A curve that was composed, against the same run in full."""

    method: str
    composed: float  # seconds for all steps
    in_full: float

    @property
    def error(self) -> float:
        return self.composed / self.in_full - 1


@dataclass(frozen=True)
class Record:
    """All runs of one study, by method and seed, and the plans that adaptive methods chose."""

    curves: Curves
    seen: Mapping[tuple[str, int], Seen]
    plans: Mapping[str, Plans]
    checks: Sequence[Check] = ()
    failures: Mapping[str, str] = field(default_factory=dict)  # method and seed -> what it said
    stretch: float | None = None  # of the network; None: not noted
    ran: str = ""  # the day
    note: str = ""  # what else a reader should know


def write(folder: Path, study: Study, record: Record) -> None:
    """Rounds: what is read again is not quite what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    checks = [
        {**asdict(check), "composed": round(check.composed, 3), "in_full": round(check.in_full, 3)}
        for check in record.checks
    ]
    facts = {
        "study": study.name,
        "ran": record.ran,
        "compute": study.compute,
        "stretch": record.stretch,
        "note": record.note,
    }
    head = {
        **facts,
        "plans": record.plans,
        "checks": checks,
        "failures": record.failures,
        "curve": ["step", "seconds", "loss", "accuracy"],
    }
    lines = [json.dumps(head)]
    for (method, seed), curve in record.curves.items():
        last = len(curve.steps) - 1
        chosen = sorted({round(i * last / (POINTS - 1)) for i in range(POINTS)})
        points = [
            [
                curve.steps[i],
                round(curve.times[i], 2),
                round(curve.losses[i], 4),
                round(curve.accuracies[i], 4),
            ]
            for i in chosen
        ]
        one = record.seen[method, seed]
        errors = [round(error, 4) for error in _deciles(one.errors)]
        run = {
            "method": method,
            "seed": seed,
            "bytes_a_step": one.sent and round(one.sent),
            "exposed": round(one.exposed, 3),
            "changes": one.changes,
            "errors": errors,
            "curve": points,
        }
        lines.append(json.dumps(run))
    _path(folder, study).write_text("\n".join(lines) + "\n")


def read(folder: Path, study: Study) -> Record | None:
    """None: no such study was kept."""
    path = _path(folder, study)
    if not path.exists():
        return None
    head, *runs = map(json.loads, path.read_text().splitlines())
    curves: Curves = {}
    seen = {}
    for run in runs:
        key = run["method"], run["seed"]
        steps, times, losses, accuracies = zip(*run["curve"], strict=True)
        curves[key] = Curve(times, steps, losses, accuracies)
        seen[key] = Seen(run["bytes_a_step"], run["exposed"], run["changes"], run["errors"])
    return Record(
        curves,
        seen,
        head["plans"],
        [Check(**check) for check in head["checks"]],
        head["failures"],
        head["stretch"],
        head["ran"],
        head["note"],
    )


def read_all(folder: Path, studies: Iterable[Study]) -> dict[Study, Record]:
    """Those that were kept, in this order."""
    found = {study: read(folder, study) for study in studies}
    return {study: record for study, record in found.items() if record is not None}


def _path(folder: Path, study: Study) -> Path:
    return folder / f"{study.file_name}.jsonl"


def _deciles(errors: list[float]) -> list[float]:
    return (
        statistics.quantiles(errors, n=DECILES, method="inclusive")
        if len(errors) > DECILES
        else errors
    )
