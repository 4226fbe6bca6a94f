# SPDX-License-Identifier: MIT
"""Benchmark of a claim in reports: how much less time a step took than dense would have taken.

On each link plain DDP is measured first. Then Pliant trains under several plans, and the factor
that `pliant report` prints is compared with the true one, plain DDP's time over Pliant's.

Without arguments: the benchmark. `--link 40mbit,3ms --plan auto` runs only these. With a role it
is one of its ranks."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import figures
import torch
import torch.distributed as dist
import training
from pace import Pace
from torch.nn.parallel import DistributedDataParallel

HERE = Path(__file__).resolve()
HOSTS = 4
WIDTH, LAYERS = 288, 4  # square layers: 333,000 parameters in two buckets
BUCKET_MB = 0.7
BATCH = 16
COMPUTE = 0.06  # seconds of a step's own work
PLAIN_STEPS = 25
STEPS = 160  # of which warm-up takes 100 where it is the planner's
SKIPPED = 3  # first steps of plain DDP, before it has cut its buckets anew
LINKS = ["40mbit,3ms", "150mbit,15ms", "25mbit,25ms", "400mbit,8ms", "70mbit,45ms", "15mbit,1ms"]
PLANS = [
    "auto",
    "gradients union density=20% values=f16",
    "updates every=3 late=1 union density=30% values=int8",
]
LARGEST_ERROR = 0.15


def job(plan: str | None, log: str | None) -> None:
    import pliant

    training.start()
    model = training.make_model(WIDTH, LAYERS)
    pace = Pace(model, COMPUTE)
    ddp = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3, momentum=0.9)
    averager = None if plan is None else pliant.attach(ddp, optimizer, plan, log=log)
    inputs = torch.randn(BATCH, WIDTH)
    times = []
    for _ in range(PLAIN_STEPS if plan is None else STEPS):
        begin = time.perf_counter()
        training.one_step(ddp, optimizer, inputs, pace)
        times.append(time.perf_counter() - begin)
    if averager is not None:
        averager.close()
    dist.barrier()
    training.say(seconds=statistics.mean(times[SKIPPED:]))


def claim(log: Path) -> tuple[float, tuple[float, float] | None]:
    """Seconds per step and the range of the factor, as the report has them."""
    sys.path[:0] = [str(figures.ROOT / "build" / "release" / "python")]
    from pliant import runlog
    from pliant.report import figures as reported

    found = reported.of(runlog.read(log))
    assert found.step_time is not None
    return found.step_time, found.speed_up


def measure(links: list[str], plans: list[str]) -> list[dict[str, object]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for link in links:
            plain = training.in_the_lab(HERE, ["job"], HOSTS, link, 300)["seconds"]
            for plan in plans:
                log = Path(folder) / f"{len(rows)}.jsonl"
                training.in_the_lab(HERE, ["job", plan, str(log)], HOSTS, link, 600)
                step, claimed = claim(log)
                true = plain / step
                middle = None if claimed is None else sum(claimed) / 2
                rows.append(
                    {
                        "link": link,
                        "plan": plan,
                        "plain": plain,
                        "step": step,
                        "true": true,
                        "claimed": claimed,
                        "error": None if middle is None else middle / true - 1,
                    }
                )
                print(line(rows[-1]), flush=True)
    return rows


def line(row: dict[str, object]) -> str:
    claimed, error = row["claimed"], row["error"]
    said = "none" if claimed is None else f"{claimed[0]:.2f} to {claimed[1]:.2f}"
    off = "" if error is None else f"{100 * error:+.0f} %"
    return (
        f"{row['link']:14} {1e3 * row['plain']:8.1f} {1e3 * row['step']:8.1f} {row['true']:6.2f}  "
        f"{said:16} {off:>6}  {row['plan']}"
    )


def main() -> int:
    if len(sys.argv) > 1 and sys.argv[1] == "job":
        job(*(sys.argv[2:] or [None, None]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--link", action="append")
    parser.add_argument("--plan", action="append")
    asked = parser.parse_args()
    print("link            DDP ms  ours ms   true  claimed           error  plan")
    rows = measure(asked.link or LINKS, asked.plan or PLANS)
    errors = [abs(row["error"]) for row in rows if row["error"] is not None]
    named = [figures.exact("claims", len(errors), f"of {len(rows)} runs print a factor")]
    if errors:
        named.append(figures.spread("error", errors, "of the factor's middle"))
        named.append(figures.exact("error/largest", max(errors), "of the factor's middle"))
    path = figures.write("dense_claim", named, rows=rows)
    met = not errors or max(errors) <= LARGEST_ERROR
    print(
        f"largest error {100 * max(errors, default=0):.0f} %: {'target met' if met else 'missed'}"
    )
    print(figures.show(named))
    print(f"written: {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
