# SPDX-License-Identifier: MIT
"""Runs the MPI example under every kind of plan: it learns, and all ranks end with the same
weights."""

import json
import os
import re
import subprocess
import sys
import tempfile

mpirun, example = sys.argv[1:]
PLANS = [
    "gradients dense reduce=halving-doubling",
    "gradients union density=5% values=int8",
    "gradients shared/star density=5% values=f16",
    "gradients srs density=5%",
    "updates every=4 late=1 union density=5%",
    "updates every=2 late=0 srs density=10% values=int8",
    "updates",
    "auto",
]

folder = tempfile.TemporaryDirectory()
log = os.path.join(folder.name, "run.jsonl")
for plan in PLANS:
    done = subprocess.run(
        [mpirun, "-n", "3", example, plan, log], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, (plan, done.stdout, done.stderr)
    first = float(re.search(r"step 0: loss ([\d.]+)", done.stdout).group(1))
    ranks = re.findall(
        r"rank (\d): loss ([\d.]+), weights add up to (\S+), (\d+) exchanges", done.stdout
    )
    assert len(ranks) == 3, done.stdout
    assert all(float(loss) < first / 2 for _, loss, _, _ in ranks), (plan, done.stdout)
    assert len({weights for _, _, weights, _ in ranks}) == 1, (plan, done.stdout)
    least = 200 // 8 if plan in ("updates", "auto") else 40  # they may take every=8
    assert all(int(exchanges) >= least for *_, exchanges in ranks), (plan, done.stdout)
    with open(log) as written:
        lines = [json.loads(line) for line in written]
    assert (
        sum(line["type"] == "step" for line in lines) == 200 and lines[-1]["status"] == "closed"
    ), (plan, lines[-1])
    print(plan, "-> loss", first, "to", ranks[0][1])

bad = subprocess.run(
    [mpirun, "-n", "1", example, "gradients onion"], capture_output=True, text=True, timeout=60
)
assert bad.returncode == 2 and "onion" in bad.stderr, (bad.returncode, bad.stderr)

bad = subprocess.run(
    [
        mpirun,
        "-n",
        "2",
        example,
        "gradients dense",
        os.path.join(folder.name, "missing", "run.jsonl"),
    ],
    capture_output=True,
    text=True,
    timeout=60,
)
assert bad.returncode == 2 and "missing/run.jsonl" in bad.stderr, (bad.returncode, bad.stderr)
