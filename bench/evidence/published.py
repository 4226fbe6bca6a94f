# SPDX-License-Identifier: MIT
"""The published table of communication times, all 108 cells, from our model: 4 models x 3 rates x 3
densities x 3 collectives."""

from __future__ import annotations

import exchange as paper_bench
import figures
from evidence import paper
from evidence.networks import GBIT, Link

COLLECTIVES = ("all-gather", "ring", "tree")


def cells() -> list[tuple[str, float, float, str, float, float]]:
    """(model, Gbit/s, density, collective, published ms, ours ms)."""
    rows: list[tuple[str, float, float, str, float, float]] = []
    for (model, rate), by_density in paper_bench.PAPER.items():
        for density, published in zip(paper_bench.DENSITIES.values(), by_density, strict=True):
            ours = paper.times(
                Link(paper_bench.LATENCY, rate * GBIT),
                round(paper_bench.MODELS[model]),
                density,
                paper_bench.RANKS,
            )
            rows += [
                (model, rate, density, name, value, 1e3 * ours[name])
                for name, value in zip(COLLECTIVES, published, strict=True)
            ]
    return rows


def figures_of_the_table() -> list[figures.Figure]:
    rows = cells()
    deviations = [abs(ours / published - 1) for *_, published, ours in rows]
    winners = 0
    for i in range(0, len(rows), 3):
        three = rows[i : i + 3]
        winners += min(three, key=lambda row: row[4])[3] == min(three, key=lambda row: row[5])[3]
    return [
        figures.spread(
            "published_table_deviation", deviations, f"of the published time, {len(rows)} cells"
        ),
        figures.exact("published_table_same_winner", winners, f"of {len(rows) // 3} rows"),
    ]
