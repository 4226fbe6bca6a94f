# SPDX-License-Identifier: MIT
"""Benchmark of collectives against their bandwidth bound: Pliant's schedules beside those of Open
MPI and others in simulated time, and all-reduce among threads against the memory traffic that it
needs. docs/bench.md explains the figures."""

from __future__ import annotations

import statistics
import sys

import figures
import pliant_bench

LINK = "10gbit,50us"
SIZES = (8, 32)
PRICED_SIZES = (2, 3, 8, 13, 32, 64)

# For each figure: the collective, bytes for N ranks (all-gather: 1 MiB a rank), SimGrid's name of
# it, the most that the figure may be for each of SIZES, and the algorithms that SimGrid has taken
# from Open MPI, MPICH and STAR-MPI (not its ompi_split_bintree: it needs buffered sends, without
# which it deadlocks).
COLLECTIVES = {
    "bcast": ("broadcast", lambda n: "8M", "bcast", (1.5, 1.75),
              ["flattree", "binomial_tree", "ompi_pipeline", "scatter_LR_allgather", "scatter_rdb_allgather"]),
    "allreduce": ("all-reduce", lambda n: "8M", "allreduce", (1.04, 1.04), ["redbcast", "rdb", "lr", "rab", "rab1", "rab2", "ompi_ring_segmented"]),
    "allgather": ("all-gather", lambda n: f"{n}M", "allgather", (1.04, 1.04), ["ring", "rdb", "bruck", "ompi_neighborexchange"]),
}  # fmt: skip
TRAFFIC_TARGET = 2.0

# Bytes that a rank reads and writes in an all-reduce of M bytes between two ranks, by messages:
# copying half out (M/2 read, M/2 written), adding what came (M/2 + M/2 read, M/2 written), copying
# the sum out (M/2 read, M/2 written). Over the 2M of a memcpy of M bytes.
COPIES_NEEDED = 3.5 / 2
REPETITIONS = 7


def over_bound(result: dict) -> float:
    return result["seconds"] / result["bound_seconds"]


def ours(name: str, ranks: int) -> dict[str, float]:
    collective, size_of, *_ = COLLECTIVES[name]
    results = pliant_bench.simulated(
        ranks, LINK, "--collective", collective, "-b", size_of(ranks), "--reference", "none"
    )["results"]
    return {
        r["schedule"] + (f" ({r['segments']} segments)" if r["segments"] else ""): over_bound(r)
        for r in results
    }


def theirs(name: str, ranks: int) -> dict[str, float]:
    collective, size_of, simgrid, _, algorithms = COLLECTIVES[name]
    configs = {
        "Open MPI's choice": "smpi/coll-selector:ompi",
        "MPICH's choice": "smpi/coll-selector:mpich",
    }
    configs |= {algorithm: f"smpi/{simgrid}:{algorithm}" for algorithm in algorithms}
    times = {}
    for label, config in configs.items():
        document = pliant_bench.simulated(
            ranks,
            LINK,
            "--collective",
            collective,
            "-b",
            size_of(ranks),
            "--schedule",
            "mpi",
            config=[config],
        )
        times[label] = over_bound(document["results"][0])
    return times


def simulated_figures() -> tuple[list[figures.Figure], list[list[object]]]:
    found, rows = [], []
    for name, (collective, _, _, targets, _) in COLLECTIVES.items():
        for ranks, target in zip(SIZES, targets, strict=True):
            mine, others = ours(name, ranks), theirs(name, ranks)
            best = min(mine.values())
            found.append(
                figures.exact(
                    f"{name}/n={ranks}", best, f"time over bandwidth bound, target <= {target}"
                )
            )
            rows += [
                [collective, str(ranks), label, "pliant" + (" *" if value == best else ""), value]
                for label, value in sorted(mine.items(), key=lambda kv: kv[1])
            ]
            rows += [
                [collective, str(ranks), label, "MPI", value]
                for label, value in sorted(others.items(), key=lambda kv: kv[1])
            ]
    return found, rows


def price_errors() -> list[dict]:
    options = (
        "--collective",
        "all",
        "--reference",
        "none",
        "-b",
        "64K",
        "-e",
        "8M",
        "-f",
        "11.3137",
    )
    return [
        {
            "ranks": n,
            "collective": r["collective"],
            "schedule": r["schedule"],
            "bytes": r["bytes"],
            "error": pliant_bench.price_error(r),
        }
        for n in PRICED_SIZES
        for r in pliant_bench.simulated(n, LINK, *options)["results"]
    ]


def local_figures() -> list[figures.Figure]:
    """Among two threads; each repetition is a process of its own in which all-reduce and memcpy
    take turns."""
    ratios = []
    for _ in range(REPETITIONS):
        results = pliant_bench.on_threads(
            2, "-b", "32M", "-n", 9, "-w", 2, "-c", 0, "--schedule", "halving-doubling"
        )["results"]
        ratios.append(results[0]["seconds"] / results[0]["reference_seconds"])
    return [
        figures.spread(
            "allreduce_local/traffic_ratio",
            [r / COPIES_NEEDED for r in ratios],
            f"time over that of the traffic, target <= {TRAFFIC_TARGET}",
        ),
        figures.spread(
            "allreduce_local/memcpy_ratio",
            ratios,
            "time over one memcpy of the vector by each rank",
        ),
    ]


def main() -> int:
    found, rows = simulated_figures()
    errors = price_errors()
    worst = max(errors, key=lambda e: e["error"])
    found.append(
        figures.exact("price_error/max", worst["error"], "relative, over all schedules and sizes")
    )
    found.append(
        figures.exact(
            "price_error/median", statistics.median(e["error"] for e in errors), "relative"
        )
    )
    found += local_figures()
    print(
        f"# simulated, {LINK} end to end; 8 MiB, all-gather 1 MiB a rank; time over the bandwidth "
        "bound, * = best of ours"
    )
    print(figures.table(["collective", "ranks", "algorithm", "whose", "time/bound"], rows))
    print(
        f"\n# price is worst for {worst['collective']} {worst['schedule']} of {worst['bytes']} "
        f"bytes over {worst['ranks']} ranks (docs/model.md)"
    )
    print(figures.show(found))
    figures.write("collectives", found, table=rows, price_errors=errors)
    missed = [f"{name}/n={n}" for name, (_, _, _, targets, _) in COLLECTIVES.items() for n, target in zip(SIZES, targets, strict=True)
              if next(f.value for f in found if f.name == f"{name}/n={n}") > target]  # fmt: skip
    if missed:
        print(f"above target: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
