# SPDX-License-Identifier: MIT
"""Published system in its strongest form: it is told the true network and explores at no cost. Its
three collectives in its formats (plain floats, 32-bit indices; its own 64-bit ones would only be
slower), chosen by its cost formulas, at the density where the knee of (time, 1/gain) lies. Gains
are measured beforehand, one short run for each of its densities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from evidence.networks import Link

DENSITIES = (0.1, 0.033, 0.011, 0.004, 0.001)
PLANS = {
    "all-gather": "gradients union gather=recursive-doubling",
    "ring": "gradients shared/star bcast=binomial reduce=ring",
    "tree": "gradients shared/star bcast=binomial reduce=tree",
}


def times(link: Link, entries: int, density: float, ranks: int) -> dict[str, float]:
    """Seconds on the wire, by its formulas; M is in bytes, a value takes 4 and so does an index."""
    a, kept, rounds = link.latency, 4 * entries * density * 8 / link.rate, math.log2(ranks)
    return {
        "all-gather": rounds * a + 2 * kept * (ranks - 1),
        "ring": a * (2 * (ranks - 1) + rounds) + kept * (2 * (ranks - 1) / ranks + rounds),
        "tree": 3 * rounds * a + 3 * rounds * kept,
    }


@dataclass(frozen=True)
class Candidate:
    density: float
    collective: str
    seconds: float
    cost: float  # 1 / gain


def choose(link: Link, entries: int, ranks: int, gains: Mapping[float, float]) -> Candidate:
    candidates = []
    for density in DENSITIES:
        by_collective = times(link, entries, density, ranks)
        collective = min(by_collective, key=by_collective.__getitem__)
        candidates.append(
            Candidate(density, collective, by_collective[collective], 1 / gains[density])
        )
    return knee(candidates)


def knee(candidates: list[Candidate]) -> Candidate:
    """Both objectives scaled to the front's own range; the point with the least sum."""
    front = [
        c
        for c in candidates
        if not any(o.seconds <= c.seconds and o.cost <= c.cost and o != c for o in candidates)
    ]

    def scaled(value: float, every: list[float]) -> float:
        return 0.0 if max(every) == min(every) else (value - min(every)) / (max(every) - min(every))

    return min(
        front,
        key=lambda c: (
            scaled(c.seconds, [o.seconds for o in front]) + scaled(c.cost, [o.cost for o in front])
        ),
    )


def plan_of(chosen: Candidate) -> str:
    return f"{PLANS[chosen.collective]} density={100 * chosen.density:g}% values=f32 indices=raw32 fuse=all"
