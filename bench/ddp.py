# SPDX-License-Identifier: MIT
"""What Pliant costs a DDP step, and how much of an exchange it hides behind backward.

Without arguments: the benchmark. With a role it is one rank of it.
"""
from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import figures
import training

HERE = Path(__file__).resolve()
REPETITIONS = 15
STEPS = 2  # of a turn
SPARSE = "gradients union density=1% values=int8 indices=rice fuse=bucket"


def contender(plan: str | None, **options: object) -> training.Contender:
    return training.Contender(plan, STEPS, **options)


def overhead() -> None:
    """Step time of our dense gradients over plain DDP's, in turns; and what a spinning Python thread loses beside them."""
    training.start()
    plain, ours = contender(None), contender("gradients dense")
    spins = [0]
    stop = threading.Event()
    spinning = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            if spinning.is_set():
                for _ in range(1000):
                    spins[0] += 1
            else:
                time.sleep(0.01)

    thread = threading.Thread(target=spin, daemon=True)
    if training.rank() == 0:
        thread.start()

    def rate(one: training.Contender) -> float:
        spinning.set()
        before, begin = spins[0], time.perf_counter()
        one.steps()
        spun, seconds = spins[0] - before, time.perf_counter() - begin
        spinning.clear()
        return spun / seconds

    for each in (plain, ours):
        each.steps(3)
    ratios, losses = [], []
    for _ in range(REPETITIONS):
        there, here = training.timed(plain.steps), training.timed(ours.steps)
        ratios.append(here / there)
        with_plain, with_ours = rate(plain), rate(ours)
        if training.rank() == 0:
            losses.append(1 - with_ours / with_plain)
    stop.set()
    training.say(ratios=ratios, losses=losses)
    ours.averager.close()


def calibrate() -> None:
    """How long compute and backward take, and what a sparse step sends."""
    training.start()
    ours = contender(SPARSE)
    ours.steps(3)
    before = ours.averager.summary().bytes_sent
    ours.steps(4)
    sent = (ours.averager.summary().bytes_sent - before) / 4
    seconds = [training.timed(lambda: ours.local_steps(1)) for _ in range(5)]
    training.say(sent=sent, compute=sorted(seconds)[2])
    ours.averager.close()


def exposed() -> None:
    """Step time with exchanges beside backward, after backward, and without any, in turns."""
    training.start()
    beside, after = contender(SPARSE), contender(SPARSE, lanes=0)
    for each in (beside, after):
        each.steps(3)
    shares, serial = [], []
    for _ in range(REPETITIONS):
        overlapped, whole, compute = training.timed(beside.steps), training.timed(after.steps), training.timed(beside.local_steps)
        shares.append((overlapped - compute) / (whole - compute))
        serial.append((whole - compute) / compute)
    training.say(shares=shares, serial=serial)
    for each in (beside, after):
        each.averager.close()


def main() -> None:
    roles = {"overhead": overhead, "calibrate": calibrate, "exposed": exposed}
    if len(sys.argv) > 1:
        return roles[sys.argv[1]]()
    loopback = training.on_loopback(HERE, ["overhead"], 2, 1200)
    known = training.in_the_lab(HERE, ["calibrate"], 2, "1gbit,1ms", 600)
    # Backward is about two thirds of the step; the link is set so that a step's bytes take that long.
    rate = known["sent"] * 8 / (known["compute"] * 2 / 3)
    lab = training.in_the_lab(HERE, ["exposed"], 2, f"{rate / 1e6:.2f}mbit,1ms", 1200)
    results = [
        figures.spread("overhead_dense", loopback["ratios"], "x"),
        figures.spread("gil_share", loopback["losses"], "fraction"),
        figures.spread("exposed_share", lab["shares"], "fraction"),
        figures.spread("serial_exchange_over_compute", lab["serial"], "x"),
    ]
    print(figures.show(results))
    print(f"\nlab: 2 hosts, {rate / 1e6:.1f} Mbit/s, 1 ms; {known['sent'] / 1024:.0f} KiB sent per step and rank")
    figures.write("ddp", results)


if __name__ == "__main__":
    main()
