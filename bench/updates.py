# SPDX-License-Identifier: MIT
"""Benchmark of the cost of updates in a step, and of how much of an exchange landing late hides.

Without arguments: the benchmark. With a role it is one rank of it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import figures
import training

HERE = Path(__file__).resolve()
REPETITIONS = 15
TURN = 8  # steps: a multiple of every `every` below
COMPUTE = 0.2  # seconds of a step in the lab
SPARSE = "union density=1% values=int8 indices=rice"


def contender(plan: str | None, compute: float = 0.0) -> training.Contender:
    return training.Contender(plan, TURN, updates=True, compute=compute)


def overhead() -> None:
    """Step time under updates over plain DDP's, in turns."""
    training.start()
    plain, ours = contender(None), contender(f"updates every=4 late=1 {SPARSE}")
    for each in (plain, ours):
        each.steps(TURN)
    ratios = []
    for _ in range(REPETITIONS):
        there, here = training.timed(plain.steps), training.timed(ours.steps)
        ratios.append(here / there)
    training.say(ratios=ratios)
    ours.averager.close()


def calibrate() -> None:
    """Bytes of an exchange, and its time if it is waited for."""
    training.start()
    alone, ours = contender(None, COMPUTE), contender(f"updates every=2 late=0 {SPARSE}", COMPUTE)
    ours.steps(TURN)
    before = ours.averager.summary()
    ours.steps(TURN)
    after = ours.averager.summary()
    extra = sorted(
        (training.timed(ours.steps) - training.timed(alone.local_steps)) / (TURN / 2)
        for _ in range(5)
    )
    training.say(
        sent=(after.bytes_sent - before.bytes_sent) / (after.exchanges - before.exchanges),
        extra=extra[2],
    )
    ours.averager.close()


def exposed() -> None:
    """Step time with results landing late, at once, and without any exchange, in turns."""
    training.start()
    alone, late, serial = (
        contender(plan and f"updates every=2 {plan} {SPARSE}", COMPUTE)
        for plan in (None, "late=2", "late=0")
    )
    for each in (late, serial):
        each.steps(TURN)
    alone.local_steps()
    shares, lengths = [], []
    for _ in range(REPETITIONS):
        hidden, whole, compute = (
            training.timed(late.steps),
            training.timed(serial.steps),
            training.timed(alone.local_steps),
        )
        shares.append((hidden - compute) / (whole - compute))
        lengths.append((whole - compute) / (TURN / 2) / COMPUTE)
    training.say(shares=shares, lengths=lengths)
    for each in (late, serial):
        each.averager.close()


def main() -> None:
    roles = {"overhead": overhead, "calibrate": calibrate, "exposed": exposed}
    if len(sys.argv) > 1:
        return roles[sys.argv[1]]()
    loopback = training.on_loopback(HERE, ["overhead"], 2, 1200)
    # The link is set, in two attempts, so that an exchange that is waited for takes two steps of
    # compute.
    near = training.in_the_lab(HERE, ["calibrate"], 4, "1gbit,1ms", 900)
    on_the_wire = 2 * COMPUTE - near["extra"]
    guess = near["sent"] * 8 / on_the_wire
    far = training.in_the_lab(HERE, ["calibrate"], 4, f"{guess / 1e6:.2f}mbit,1ms", 900)
    rate = guess * (far["extra"] - near["extra"]) / on_the_wire
    lab = training.in_the_lab(HERE, ["exposed"], 4, f"{rate / 1e6:.2f}mbit,1ms", 1800)
    results = [
        figures.spread("overhead_updates", loopback["ratios"], "x"),
        figures.spread("exposed_share_late", lab["shares"], "fraction"),
        figures.spread("exchange_over_compute_step", lab["lengths"], "x"),
    ]
    print(figures.show(results))
    print(
        f"\nlab: 4 hosts, {rate / 1e6:.1f} Mbit/s, 1 ms; {near['sent'] / 1024:.0f} KiB sent per "
        f"exchange and rank; compute {1e3 * COMPUTE:.0f} ms a step"
    )
    figures.write("updates", results)


if __name__ == "__main__":
    main()
