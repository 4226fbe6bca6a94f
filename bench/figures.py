# SPDX-License-Identifier: MIT
"""Figures of a benchmark: one table for people, one JSON file for machines
(build/bench/NAME.json)."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = 1


@dataclass(frozen=True)
class Figure:
    """A named result. `low` and `high` span its repetitions, or equal `value` where it is exact
    (simulated time)."""

    name: str
    value: float
    unit: str
    low: float
    high: float


def exact(name: str, value: float, unit: str) -> Figure:
    return Figure(name, value, unit, value, value)


def spread(name: str, samples: Sequence[float], unit: str) -> Figure:
    """Median of the samples, with the 10th and 90th percentile as its spread."""
    ordered = sorted(samples)
    return Figure(
        name,
        statistics.median(ordered),
        unit,
        ordered[len(ordered) // 10],
        ordered[-1 - len(ordered) // 10],
    )


def commit() -> str:
    """The commit measured, with "-dirty" if the tree differs from it."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
    )
    return done.stdout.strip() or "unknown"


def write(name: str, figures: Iterable[Figure], **extra: object) -> Path:
    """Writes build/bench/NAME.json; `extra` keys (plot data, tables) stand beside the figures."""
    path = ROOT / "build" / "bench" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "schema": SCHEMA,
        "commit": commit(),
        "figures": [asdict(f) for f in figures],
        **extra,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Plain columns, numbers to three significant digits and right-aligned."""
    texts = [[cell if isinstance(cell, str) else f"{cell:.3g}" for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(header), *texts]) for i in range(len(header))]
    lines = [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in [header, *texts]
    ]
    return "\n".join(line.rstrip() for line in lines)


def show(figures: Iterable[Figure]) -> str:
    return table(
        ["figure", "value", "low", "high", "unit"],
        [[f.name, f.value, f.low, f.high, f.unit] for f in figures],
    )
