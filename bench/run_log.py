# SPDX-License-Identifier: MIT
"""Benchmark of the run log: processor time of one step's line, alone and with all work that the log
causes, as a share of a 10 ms step.

8 ranks, 10 M parameters in 4 exchanges a step, a fixed plan (where the log alone makes the engine
measure and predict). The program is pliant/runlog/observer_bench.cc; it writes to a file under
build/bench."""

from __future__ import annotations

import json
import subprocess
import sys

import figures

STEP_US = 10_000
MOST_SHARE = 0.005


def main() -> int:
    program = figures.ROOT / "build" / "release" / "pliant" / "runlog" / "observer_bench"
    folder = figures.ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [program, folder / "observer_bench.jsonl"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    found = json.loads(done.stdout)
    named = [
        figures.spread("log_share", [us / STEP_US for us in found["step_us"]], "of a 10 ms step"),
        figures.spread("log_step", found["step_us"], "us"),
        figures.spread("log_line", found["line_us"], "us"),
        figures.spread(
            "log_decision", found["decision_us"], "us, where all candidates were evaluated"
        ),
        figures.exact("log_bytes", found["bytes"], "B per step"),
    ]
    path = figures.write("run_log", named)
    share = named[0].value
    print(
        f"the run log costs {100 * share:.2g} % of a 10 ms step: "
        + ("target met" if share < MOST_SHARE else f"missed, target {100 * MOST_SHARE:g} %")
    )
    print(figures.show(named))
    print(f"written: {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
