# SPDX-License-Identifier: MIT
"""Benchmark of every scheme beside the published system, in simulated time: its table of 36 rows,
growth with the number of ranks, and the price of an exchange against its executed time.
docs/bench.md explains the figures."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import figures
import pliant_bench

RANKS = 8
LATENCY = 1e-3
MODELS = {"ResNet18": 11.69e6, "ResNet50": 25.56e6, "AlexNet": 61.10e6, "ViT": 133.4e6}
RATES = (10, 5, 1)  # Gbit/s
DENSITIES = {"10%": 0.1, "1%": 0.01, "0.1%": 0.001}

# Published times in ms: for each model and rate, at each density: all-gather, shared by ring,
# shared by tree.
PAPER = {
    ("ResNet18", 10): [(54, 35, 43.2), (7.66, 18.1, 12.2), (3.28, 16.7, 9)],
    ("ResNet18", 5): [(107.76, 52.5, 76.3), (13.83, 20.8, 16.1), (4.25, 17.9, 10.1)],
    ("ResNet18", 1): [(526.3, 194.7, 345.6), (51.93, 34.1, 41.9), (8.86, 19.5, 12.8)],
    ("ResNet50", 10): [(115.1, 52.9, 83.4), (14.35, 20.3, 15.9), (4.65, 18.1, 10)],
    ("ResNet50", 5): [(232, 94.7, 156.2), (28.1, 26.1, 24.2), (5.3, 17.8, 10.5)],
    ("ResNet50", 1): [(1148, 405.5, 745), (126.5, 58.8, 83.7), (14.35, 21, 16.1)],
    ("AlexNet", 10): [(271.8, 106.8, 180.4), (32.73, 25.2, 25.8), (6, 18.6, 11.1)],
    ("AlexNet", 5): [(544.5, 200.4, 354.8), (61.75, 34.8, 42.6), (8.92, 19.3, 13.1)],
    ("AlexNet", 1): [(2718.7, 964.4, 1778), (282.7, 111.8, 186.8), (31.33, 27, 27.3)],
    ("ViT", 10): [(592.77, 238.6, 401.2), (68.48, 36.2, 46.2), (9.15, 19.2, 12.9)],
    ("ViT", 5): [(1206, 424.3, 779.1), (127.45, 58, 86.2), (15.3, 21.4, 16.9)],
    ("ViT", 1): [(5973, 2047, 3852), (601.8, 222.8, 385.2), (59.68, 36.7, 44.4)],
}

# Its three schemes, in its formats: 32-bit indices, 32-bit values, unpipelined binomial broadcast.
ITS_SCHEMES = {
    "all-gather": "gradients union gather=bruck density={} values=f32 indices=raw32",
    "ring": "gradients shared/star bcast=binomial reduce=ring density={} values=f32 indices=raw32",
    "tree": "gradients shared/star bcast=binomial reduce=tree density={} values=f32 indices=raw32",
}
# Ours, with schedules and segments by price. int4 and rice have the fewest bytes; block16 and f32
# cost less to code.
OUR_CODES = ("--values", "int4,f32", "--indices", "rice,block16")
# By price srs runs direct; halving merges less and waits longer.
OUR_PLANS = (
    "gradients srs scatter=halving density={} values=int4 indices=block16",
    "gradients srs scatter=halving density={} values=int4 indices=rice",
)

REPETITIONS = 3  # of measuring rates

GROWTH = (8, 16, 32, 64, 128, 256)
TARGETS = {  # at least, or at most where it says so
    "wire_speedup_over_paper/geomean": 2.8,
    "wire_speedup_over_paper/min": 1.0,
    "speedup_over_paper_with_codec/geomean": 1.7,
}
LIMITS = {"paper_formula_error/max": 0.05, "growth_8_to_256": 3.0, "price_error/p95": 0.05}


def in_words(plan: str) -> str:
    """smpirun splits its arguments at spaces."""
    return plan.replace(" ", ",")


def words_of(plan: str) -> dict[str, str]:
    """'gradients union density=1%' -> {'scheme': 'union', 'density': '1%'}."""
    parts = plan.split()
    return {"scheme": parts[1].split("/")[0], **dict(word.split("=") for word in parts[2:])}


# --- what an exchange costs besides the wire, at this machine's rates ---


@dataclass(frozen=True)
class Rates:
    """Nanoseconds per entry, by density and operation."""

    table: dict[str, dict[str, float]]

    @staticmethod
    def median(of: list[Rates]) -> Rates:
        first = of[0].table
        return Rates(
            {
                density: {
                    name: statistics.median(rates.table[density][name] for rates in of)
                    for name in costs
                }
                for density, costs in first.items()
            }
        )

    @staticmethod
    def measured() -> Rates:
        release = figures.ROOT / "build" / "release" / "pliant"
        table: dict[str, dict[str, float]] = json.loads(run(release / "exchange" / "sum_bench"))
        for figure in json.loads(run(release / "compress" / "payload_bench"))["figures"]:
            name, density = figure["name"].split("/density=")
            if name.endswith("_ns"):
                table[density][name.removesuffix("_ns")] = figure["value"]
        return Rates(table)

    def seconds(self, plan: str, density: str, entries: float) -> float:
        """Scatter and coding on the rank that has most of it; selection is not counted, nor is what
        raw formats need."""
        words, cost = words_of(plan), self.table[density]
        if words["scheme"] == "dense":
            return 0.0
        values, indices = words["values"], words["indices"]
        lossy = values != "f32"
        encode = cost[f"{values}_encode"]
        decode = cost[f"{values}_decode"] + cost["payload_check"]
        put_back = cost["scatter_add"] if lossy else 0.0
        n, rounds = RANKS, math.log2(RANKS)
        if words["scheme"] == "union":
            per_entry = (
                cost[f"{indices}_encode"]
                + encode
                + put_back
                + n * (cost[f"{indices}_decode"] + decode + cost["scatter_add"])
            )
        elif words["scheme"] == "shared":
            hops = rounds if words["reduce"] == "tree" else (n - 1) / n
            summing = hops * (encode + decode) + encode / n + decode
            per_entry = (
                cost[f"{indices}_encode"]
                + cost[f"{indices}_decode"]
                + summing
                + put_back
                + cost["scatter_add"]
            )
        else:
            # Direct: the owner merges N-1 arrivals into a growing slice and trims it once. Halving:
            # k/2, k/4, ... are merged and trimmed.
            direct = words["scatter"] == "direct"
            merges = sum(i + 2 for i in range(n - 1)) / n if direct else 2 * (n - 1) / n
            trims = 1 if direct else 2 * (n - 1) / n
            coded = (
                cost[f"{indices}_encode"]
                + encode
                + (1 + (n - 1) / n) * (cost[f"{indices}_decode"] + decode)
            )
            per_entry = (
                coded
                + merges * cost["merge"]
                + trims * cost["trim"]
                + put_back
                + cost["scatter_add"]
            )
        return per_entry * entries * 1e-9

    def its_seconds(self, scheme: str, density: str, entries: float) -> float:
        """The published schemes in their formats: scatter alone."""
        return (
            self.table[density]["scatter_add"]
            * entries
            * 1e-9
            * (RANKS if scheme == "all-gather" else 1)
        )


def run(program: object) -> str:
    return subprocess.run(
        [str(program)], capture_output=True, text=True, timeout=300, check=True
    ).stdout


# --- the 36 rows ---


def formula(scheme: str, elements: float, density: float, rate: float) -> float:
    """Published closed forms."""
    n, log, a = RANKS, math.log2(RANKS), LATENCY
    mcb = 4 * elements * density * 8e-9 / rate
    return {
        "all-gather": log * a + 2 * mcb * (n - 1),
        "ring": a * (2 * (n - 1) + log) + mcb * (2 * (n - 1) / n + log),
        "tree": 3 * log * a + 3 * log * mcb,
    }[scheme]


def executed(rate: int, density: str) -> list[dict]:
    """All models at one density and rate: ours and its three schemes. Dense is the same at every
    density: run once."""
    plans = [plan.format(density) for plan in (*ITS_SCHEMES.values(), *OUR_PLANS)]
    if density == "10%":
        plans += [
            "gradients dense reduce=halving-doubling",
            "gradients dense reduce=halving-doubling values=f16",
        ]
    asked = [word for plan in plans for word in ("--plan", in_words(plan))]
    sizes = ",".join(f"{n / 1e6}M" for n in MODELS.values())
    link = f"{rate}gbit,1ms"
    ours = ("--scheme", "union,shared/star,srs", "--density", density, *OUR_CODES)
    return pliant_bench.simulated(
        RANKS, link, "--params", sizes, "--reference", "none", *asked, *ours
    )["results"]


@dataclass(frozen=True)
class Row:
    model: str
    rate: int
    density: str
    published: tuple[float, float, float]  # seconds
    its: dict[str, float]  # executed here, by scheme
    ours: dict[str, float]  # executed, by plan
    ours_with_codec: dict[str, float]
    its_with_codec: dict[str, float]
    published_with_codec: dict[str, float]

    @property
    def speedup(self) -> float:
        return min(self.published) / min(self.ours.values())

    @property
    def speedup_with_codec(self) -> float:
        return min(self.published_with_codec.values()) / min(self.ours_with_codec.values())


def execute_rows(pool: ThreadPoolExecutor) -> dict[tuple[int, str], list[dict]]:
    cases = [(rate, density) for rate in RATES for density in DENSITIES]
    return dict(zip(cases, pool.map(lambda case: executed(*case), cases), strict=True))


def rows_of(results: dict[tuple[int, str], list[dict]], rates: Rates) -> list[Row]:
    rows = []
    for (model, rate), published in PAPER.items():
        count = round(MODELS[model])
        for density, times in zip(DENSITIES, published, strict=True):
            mine = {r["plan"]: r["seconds"] for r in results[rate, density] if r["count"] == count}
            mine |= {
                r["plan"]: r["seconds"]
                for r in results[rate, "10%"]
                if r["count"] == count and r["scheme"] == "dense"
            }
            its = {
                name: mine.pop(plan)
                for name in ITS_SCHEMES
                for plan in list(mine)
                if is_scheme(plan, ITS_SCHEMES[name].format(density))
            }
            entries = count * DENSITIES[density]
            scatter = {name: rates.its_seconds(name, density, entries) for name in ITS_SCHEMES}
            rows.append(
                Row(model, rate, density, tuple(t / 1e3 for t in times), its, mine,
                    {plan: seconds + rates.seconds(plan, density, entries) for plan, seconds in mine.items()},
                    {name: its[name] + scatter[name] for name in its},
                    {name: t / 1e3 + scatter[name] for name, t in zip(ITS_SCHEMES, times, strict=True)})
            )  # fmt: skip
    return rows


def is_scheme(plan: str, wanted: str) -> bool:
    """Defaults are not printed in a plan."""
    return set(plan.split()) - {"fuse=bucket"} == set(wanted.split()) - {"gather=bruck"}


def best(times: dict[str, float]) -> str:
    return min(times, key=times.__getitem__)


def short(plan: str) -> str:
    words = words_of(plan)
    drop = {"gradients", "fuse=bucket", f"density={words.get('density')}"}
    return " ".join(word for word in plan.split() if word not in drop)


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(v) for v in values))


def with_codec(rows: list[Row]) -> float:
    return geometric_mean([row.speedup_with_codec for row in rows])


def row_figures(rows: list[Row], repeated: list[float]) -> list[figures.Figure]:
    errors = [
        abs(row.its[s] / formula(s, MODELS[row.model], DENSITIES[row.density], row.rate) - 1)
        for row in rows
        for s in ITS_SCHEMES
    ]
    against_executed = geometric_mean(
        [min(row.its.values()) / min(row.ours.values()) for row in rows]
    )
    codec_against_executed = geometric_mean(
        [min(row.its_with_codec.values()) / min(row.ours_with_codec.values()) for row in rows]
    )
    return [
        figures.exact(
            "wire_speedup_over_paper/geomean",
            geometric_mean([r.speedup for r in rows]),
            "ratio, target >= 2.8",
        ),
        figures.exact(
            "wire_speedup_over_paper/min", min(r.speedup for r in rows), "ratio, target >= 1.0"
        ),
        figures.exact(
            "wire_speedup_over_its_schemes/geomean", against_executed, "ratio, both executed here"
        ),
        figures.spread("speedup_over_paper_with_codec/geomean", repeated, "ratio, target >= 1.7"),
        figures.exact(
            "speedup_over_paper_with_codec/min", min(r.speedup_with_codec for r in rows), "ratio"
        ),
        figures.exact(
            "speedup_over_its_schemes_with_codec/geomean",
            codec_against_executed,
            "ratio, both executed here",
        ),
        figures.exact("paper_formula_error/max", max(errors), "relative, target <= 0.05"),
    ]


def row_table(rows: list[Row]) -> list[list[object]]:
    return [
        [r.model, str(r.rate), r.density, *(1e3 * t for t in r.published), *(1e3 * r.its[s] for s in ITS_SCHEMES), 1e3 * min(r.ours.values()),
         r.speedup, short(best(r.ours)), r.speedup_with_codec, short(best(r.ours_with_codec))]
        for r in rows
    ]  # fmt: skip


def losing(rows: list[Row]) -> list[str]:
    """Rows slower than the published ones once coding is charged, and where the time goes."""
    lines = []
    for row in rows:
        if row.speedup_with_codec >= 1:
            continue
        plan = best(row.ours_with_codec)
        wire, whole = row.ours[plan], row.ours_with_codec[plan]
        lines.append(f"{row.model} {row.rate} Gbit/s {row.density}: {row.speedup_with_codec:.2f}x; wire {1e3 * wire:.3g} ms, scatter and coding {1e3 * (whole - wire):.3g} ms "
                     f"of {1e3 * whole:.3g} ms by {short(plan)}; published {1e3 * min(row.published_with_codec.values()):.3g} ms by {best(row.published_with_codec)}")  # fmt: skip
    return lines


# --- growth ---


def growth(pool: ThreadPoolExecutor) -> list[dict]:
    """All schemes at fixed k: ResNet50, 1 %, 10 Gbit/s, 0.1 ms. Dense and union stop at 64 ranks:
    they only grow."""

    def at(ranks: int) -> list[dict]:
        schemes = "union,shared/star,srs,dense" if ranks <= 64 else "shared/star,srs"
        options = (
            "--params",
            "25.56M",
            "--scheme",
            schemes,
            "--density",
            "1%",
            "--values",
            "int4",
            "--reference",
            "none",
        )
        return pliant_bench.simulated(ranks, "10gbit,100us", *options)["results"]

    points = []
    for ranks, results in zip(GROWTH, pool.map(at, GROWTH), strict=True):
        points += [
            {
                "ranks": ranks,
                **{
                    key: r[key]
                    for key in (
                        "scheme",
                        "plan",
                        "seconds",
                        "price_seconds",
                        "wire_bytes",
                        "messages",
                    )
                },
            }
            for r in results
        ]
    return points


def fastest_at(points: list[dict], ranks: int) -> dict:
    return min((p for p in points if p["ranks"] == ranks), key=lambda p: p["seconds"])


# --- price ---

# Real exchanges, of real payloads: schemes x schedules x densities x codes, over numbers of ranks
# and links.
PRICED_PLANS = [
    "gradients union gather=ring density={} values=f16 indices=rice", "gradients union gather=bruck density={} values=int4 indices=block16",
    "gradients shared/star bcast=binomial reduce=tree density={} values=f32 indices=raw32",
    "gradients shared/star bcast=scatter-allgather reduce=halving-doubling density={} values=int8 "
    "indices=rice",
    "gradients shared/star bcast=double-tree segments=6 reduce=ring density={} values=f16 "
    "indices=rice",
    "gradients shared/star bcast=chain reduce=recursive-doubling density={} values=f32 "
    "indices=rice",
    "gradients srs scatter=direct gather=bruck density={} values=int4 indices=rice",
    "gradients srs scatter=circulant gather=ring density={} values=f16 indices=rice",
    "gradients srs scatter=halving gather=bruck density={} values=int8 indices=block16",
]  # fmt: skip
PRICED_DENSE = [
    "gradients dense reduce=ring values=f16",
    "gradients dense reduce=halving-doubling values=f32",
]
PRICED_RANKS = {2: 400_000, 5: 400_000, 8: 400_000, 13: 200_000, 16: 200_000}  # elements
PRICED_LINKS = ("10gbit,50us", "1gbit,1ms")


def price_grid(
    pool: ThreadPoolExecutor,
    ranks: dict[int, int] = PRICED_RANKS,
    links: tuple[str, ...] = PRICED_LINKS,
    densities: tuple[str, ...] = ("5%", "0.5%"),
) -> list[dict]:
    plans = [plan.format(density) for plan in PRICED_PLANS for density in densities] + PRICED_DENSE

    def at(case: tuple[int, str]) -> list[dict]:
        n, link = case
        asked = [word for plan in plans for word in ("--plan", in_words(plan))]
        results = pliant_bench.simulated(
            n, link, "--params", ranks[n], "--reference", "none", *asked, checks=1
        )["results"]
        keys = ("plan", "count", "seconds", "price_seconds", "wire_bytes", "wrong")
        return [
            {
                "ranks": n,
                "link": link,
                "error": pliant_bench.price_error(r),
                **{key: r[key] for key in keys},
            }
            for r in results
        ]

    cases = [(n, link) for n in ranks for link in links]
    return [point for points in pool.map(at, cases) for point in points]


def percentile(values: list[float], fraction: float) -> float:
    return sorted(values)[min(len(values) - 1, math.ceil(fraction * len(values)) - 1)]


def main() -> int:
    measured = [Rates.measured() for _ in range(REPETITIONS)]
    rates = Rates.median(measured)
    with ThreadPoolExecutor(2) as pool:
        results = execute_rows(pool)
        points = growth(pool)
        grid = price_grid(pool)

    rows = rows_of(results, rates)
    found = row_figures(rows, [with_codec(rows_of(results, each)) for each in measured])
    small, large = fastest_at(points, GROWTH[0]), fastest_at(points, GROWTH[-1])
    found.append(
        figures.exact("growth_8_to_256", large["seconds"] / small["seconds"], "ratio, target <= 3")
    )
    errors = [point["error"] for point in grid]
    found.append(
        figures.exact(
            "price_error/p95",
            percentile(errors, 0.95),
            f"relative, {len(grid)} exchanges, target <= 0.05",
        )
    )
    found.append(figures.exact("price_error/max", max(errors), "relative"))

    print(
        "# 8 ranks, 1 ms, simulated: ms on the wire; published (P), its schemes executed here (E), "
        "the best of ours; with codec: scatter and coding charged"
    )
    header = [
        "model",
        "Gbit/s",
        "density",
        *(f"P {s}" for s in ITS_SCHEMES),
        *(f"E {s}" for s in ITS_SCHEMES),
        "ours",
        "speedup",
        "plan",
        "with codec",
        "plan with codec",
    ]
    print(figures.table(header, row_table(rows)))
    print("\n# scatter and coding, ns per entry: " + json.dumps(rates.table))
    lost = losing(rows)
    print(
        f"\n# {len(lost)} of {len(rows)} rows lose with scatter and coding charged"
        + "".join(f"\n  {line}" for line in lost)
    )
    print("\n# growth: ResNet50, 1 %, 10 Gbit/s, 0.1 ms")
    print(
        figures.table(
            ["ranks", "scheme", "ms", "wire MiB", "plan"],
            [
                [
                    str(p["ranks"]),
                    p["scheme"],
                    1e3 * p["seconds"],
                    p["wire_bytes"] / 2**20,
                    short(p["plan"]),
                ]
                for p in points
            ],
        )
    )
    worst = max(grid, key=lambda point: point["error"])
    print(
        f"\n# price is worst for {worst['plan']} over {worst['ranks']} ranks, {worst['link']}: "
        f"{100 * worst['error']:.2g} %; #wrong in all: {sum(p['wrong'] for p in grid)}"
    )
    print(figures.show(found))
    figures.write(
        "exchange",
        found,
        rows=[vars(row) for row in rows],
        growth=points,
        price=grid,
        rates=rates.table,
        losing=lost,
    )

    values = {figure.name: figure.value for figure in found}
    missed = [name for name, least in TARGETS.items() if values[name] < least] + [
        name for name, most in LIMITS.items() if values[name] > most
    ]
    if missed:
        print(f"target missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed or any(point["wrong"] for point in grid) else 0


if __name__ == "__main__":
    sys.exit(main())
