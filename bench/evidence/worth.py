# SPDX-License-Identifier: MIT
"""Measurement of the worth of a step under a plan: `python -m evidence.worth JOB SEEDS PLAN ...`.
These are the numbers that the model's efficiency stands for (docs/model.md); they are trained on
loopback, and each run is kept as a file."""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

import figures
from evidence import specs
from evidence.curves import Curve, measured
from evidence.jobs import JOBS
from evidence.judge import TARGETS, over
from evidence.methods import Warmed
from evidence.runs import Runner

HOSTS = 4


def by_step(result: dict[str, Any]) -> Curve:
    return measured({**result, "ends": range(1, len(result["losses"]) + 1)})


def worths(plain: Curve, other: Curve) -> list[float]:
    """Plain DDP's steps to each of its own losses over the other's; 0: never there."""
    targets = [plain.losses[round(share * (len(plain.losses) - 1))] for share in TARGETS]
    never = float("inf")
    return [
        over(plain.time_to_loss(target) or never, other.time_to_loss(target) or never)
        for target in targets
    ]


def seeds_of(text: str) -> list[int]:
    return [int(seed) for seed in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("seeds", type=seeds_of, help="separated by commas")
    parser.add_argument("plans", nargs="+")
    parser.add_argument(
        "--warm-up", action="store_true", help=f"after {Warmed.STEPS} steps of dense gradients"
    )
    asked = parser.parse_args()
    how = "warmed" if asked.warm_up else "gain"
    runner, steps = Runner(8 * 3600), JOBS[asked.job].steps
    found: dict[str, list[list[float]]] = {}
    for seed in asked.seeds:
        plain = specs.Spec("train", asked.job, "ddp", seed, HOSTS, steps, snapshot_every=8)
        ours = {
            plan: specs.Spec(
                "train", asked.job, f"{how}: {plan}", seed, HOSTS, steps, snapshot_every=8
            )
            for plan in asked.plans
        }
        runner.prepare([plain, *ours.values()])
        if runner.failed:
            print("\n".join(runner.failed.values()), file=sys.stderr)
            return 2
        for plan, spec in ours.items():
            found.setdefault(plan, []).append(
                worths(by_step(runner.result(plain)), by_step(runner.result(spec)))
            )
    columns = [f"at {share:.0%} of DDP's steps" for share in TARGETS]
    rows: list[list[object]] = [
        [plan, *(statistics.median(seeds) for seeds in zip(*all_seeds, strict=True))]
        for plan, all_seeds in found.items()
    ]
    print(figures.table(["plan", *columns], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
