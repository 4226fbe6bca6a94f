# SPDX-License-Identifier: MIT
"""Every run in a small form, a file for each study: what the tables are made of outlives the machine that made them."""
from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from evidence.judge import Judge
from evidence.seen import Seen
from evidence.study import Study

POINTS = 16  # of a curve


def write(folder: Path, study: Study, judge: Judge, seen: Mapping[tuple[str, int], Seen]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for (method, seed), curve in judge.curves.items():
        last = len(curve.steps) - 1
        chosen = sorted({round(i * last / (POINTS - 1)) for i in range(POINTS)})
        points = [[curve.steps[i], round(curve.times[i], 2), round(curve.losses[i], 4), round(curve.accuracies[i], 4)] for i in chosen]
        one = seen[method, seed]
        run = {"method": method, "seed": seed, "bytes_a_step": one.sent and round(one.sent), "exposed": round(one.exposed, 3), "changes": one.changes, "curve": points}
        lines.append(json.dumps(run))
    head = json.dumps({"study": study.name, "compute": study.compute, "targets": [round(t, 4) for t in judge.targets()], "curve": ["step", "seconds", "loss", "accuracy"]})
    (folder / f"{study.file_name}.jsonl").write_text("\n".join([head, *lines]) + "\n")
