# SPDX-License-Identifier: MIT
"""Learning rates for plain DDP: `python -m evidence.tune`. The best of a grid by final loss goes
into jobs.py by hand."""

from __future__ import annotations

import figures
from evidence import specs
from evidence.jobs import JOBS
from evidence.runs import Runner

GRIDS = {"sgd": (0.0125, 0.025, 0.05, 0.1, 0.2), "adamw": (1e-3, 2e-3, 3e-3, 6e-3, 1.2e-2)}


def main() -> None:
    runner = Runner(3600)
    wanted = [
        specs.Spec("train", job.name, "ddp", 0, 4, job.steps, rate=rate, snapshot_every=64)
        for job in JOBS.values()
        for rate in GRIDS[job.optimizer]
    ]
    runner.prepare(wanted)
    rows: list[list[object]] = []
    for spec in wanted:
        _, loss, accuracy = runner.result(spec)["curve"][-1]
        rows.append([spec.job, spec.rate, loss, accuracy])
    print(figures.table(["job", "rate", "final loss", "accuracy"], rows))


if __name__ == "__main__":
    main()
