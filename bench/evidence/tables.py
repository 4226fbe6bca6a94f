# SPDX-License-Identifier: MIT
"""Tables of the results as CSV files: every method of every study, the plans that were chosen, and
the published table."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from evidence import kept, published
from evidence.judge import TARGETS, Judge
from evidence.seen import Seen
from evidence.study import Study

Records = Mapping[Study, kept.Record]


def rows(record: kept.Record) -> list[dict[str, object]]:
    """One per method: median times to the targets, accuracy, time in all, and what else it did."""
    judge = Judge(record.curves)
    return [
        _row(judge, method, record.seen) for method in dict.fromkeys(m for m, _ in record.curves)
    ]


def _finite(seconds: float) -> float | None:
    return None if math.isinf(seconds) else seconds


def _row(judge: Judge, method: str, seen: Mapping[tuple[str, int], Seen]) -> dict[str, object]:
    what = [seen[method, seed] for seed in judge.seeds]
    sent = [one.sent for one in what if one.sent is not None]
    changes = [one.changes for one in what if one.changes is not None]
    errors = [error for one in what for error in one.errors]
    curves = [judge.curves[method, seed] for seed in judge.seeds]
    return {
        "method": method,
        "seconds_to_targets": [_finite(t) for t in judge.median_times(method)],
        "seconds_to_accuracy": _finite(
            statistics.median(judge.time_to_accuracy(method, seed) for seed in judge.seeds)
        ),
        "over_ddp": statistics.median(judge.speedups("ddp", method)),
        "worth": judge.worth(method),
        "accuracy": statistics.median(judge.final_accuracy(method, seed) for seed in judge.seeds),
        "accuracy_when_ddp_ends": statistics.median(
            curve.at_time(judge.curves["ddp", seed].times[-1])[1]
            for seed, curve in zip(judge.seeds, curves, strict=True)
        ),
        "seconds": statistics.median(judge.whole(method, seed) for seed in judge.seeds),
        "bytes_a_step": statistics.median(sent) if sent else None,
        "exposed": statistics.median(one.exposed for one in what),
        "changes": statistics.median(changes) if changes else None,
        "prediction_error": statistics.median(errors) if errors else None,
    }


def methods(records: Records) -> str:
    """The fastest method of a study first. An empty cell: never reached, or not measured."""
    targets = [f"seconds_to_target_{100 * share:.0f}" for share in TARGETS]
    others: list[str] = []
    lines: list[list[object]] = []
    for study, record in records.items():
        for row in sorted(rows(record), key=lambda row: -float(str(row["over_ddp"]))):
            others = others or [key for key in row if key not in ("method", "seconds_to_targets")]
            times = list(row["seconds_to_targets"])  # type: ignore[call-overload]
            lines.append([study.name, row["method"], *times, *(row[key] for key in others)])
    return _csv(["study", "method", *targets, *others], lines)


def plans(records: Records) -> str:
    """Share of the steps under each scheme, density, every and late, over all seeds."""
    lines = [
        [study.name, method, part, value, share]
        for study, record in records.items()
        for method, parts in record.plans.items()
        for part, shares in parts.items()
        for value, share in shares.items()
    ]
    return _csv(["study", "method", "part", "value", "share"], lines)


def published_table() -> str:
    """Times of the published system at 8 ranks and 1 ms, as printed and by its formulas."""
    header = ["model", "gbit_per_second", "density", "collective", "published_ms", "formula_ms"]
    return _csv(header, published.cells())


def _csv(header: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    def cell(value: object) -> object:
        return f"{value:.4g}" if isinstance(value, float) else "" if value is None else value

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([cell(value) for value in line] for line in lines)
    return text.getvalue()
