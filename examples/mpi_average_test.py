# SPDX-License-Identifier: MIT
"""Runs the MPI example under every kind of plan: it learns, and all ranks end with the same weights."""
import re
import subprocess
import sys

mpirun, example = sys.argv[1:]
PLANS = [
    "gradients dense reduce=halving-doubling",
    "gradients union density=5% values=int8",
    "gradients shared/star density=5% values=f16",
    "gradients srs density=5%",
    "updates every=4 late=1 union density=5%",
    "updates every=2 late=0 srs density=10% values=int8",
]

for plan in PLANS:
    done = subprocess.run([mpirun, "-n", "3", example, plan], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (plan, done.stdout, done.stderr)
    first = float(re.search(r"step 0: loss ([\d.]+)", done.stdout).group(1))
    ranks = re.findall(r"rank (\d): loss ([\d.]+), weights add up to (\S+), (\d+) exchanges", done.stdout)
    assert len(ranks) == 3, done.stdout
    assert all(float(loss) < first / 2 for _, loss, _, _ in ranks), (plan, done.stdout)
    assert len({weights for _, _, weights, _ in ranks}) == 1, (plan, done.stdout)
    assert all(int(exchanges) > 40 for *_, exchanges in ranks), (plan, done.stdout)
    print(plan, "-> loss", first, "to", ranks[0][1])

bad = subprocess.run([mpirun, "-n", "1", example, "gradients onion"], capture_output=True, text=True, timeout=60)
assert bad.returncode == 2 and "onion" in bad.stderr, (bad.returncode, bad.stderr)
