# SPDX-License-Identifier: MIT
"""Benchmark of Pliant's cost in a DDP step, and of how much of an exchange backward hides.

Without arguments: the benchmark. With a role it is one rank of it.
"""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path

import figures
import training
from pace import FORWARD

HERE = Path(__file__).resolve()
REPETITIONS = 21
STEPS = 4  # of a turn
COMPUTE = 0.15  # seconds of a step in the lab
BACKWARD = COMPUTE * (1 - FORWARD)
SPARSE = "gradients union density=1% values=int8 indices=rice fuse=bucket"
SERIAL = SPARSE.replace(
    "fuse=bucket", "fuse=all"
)  # after backward; a timetable would let a thread that is held up in mid-backward catch up


def contender(plan: str | None, **options: object) -> training.Contender:
    return training.Contender(plan, STEPS, **options)


class HookTime:
    """CPU seconds that this rank's training thread spends in the Python functions of ours that a
    training step calls.

    All of it counts as if the GIL were held throughout, which it is not: submit() lets it go.
    Nothing else of ours takes the GIL in a step that succeeds, but torch does around a Python hook,
    and that is not in here. It stands for what a spinning Python thread loses, and does not depend
    on which of the machine's threads happen to have a core."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def watch(self, owner: object, name: str) -> None:
        inner = getattr(owner, name)

        @functools.wraps(inner)
        def timed(*args: object, **kwargs: object) -> object:
            begin = time.thread_time()
            self._depth += 1
            try:
                return inner(*args, **kwargs)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self.seconds += time.thread_time() - begin

        setattr(owner, name, timed)

    def watch_gradients(self) -> None:
        from pliant.ddp import hook, loop_observer

        self.watch(hook, "hook")
        for name in ("_before_forward", "_after_step"):
            self.watch(loop_observer.LoopObserver, name)


def overhead() -> None:
    """Step time of our dense gradients over plain DDP's, in turns; and the share of it that our
    hooks may hold the GIL."""
    training.start()
    hooks = HookTime()
    hooks.watch_gradients()
    plain, ours = contender(None), contender("gradients dense")
    for each in (plain, ours):
        each.steps(3)
    ratios, shares = [], []
    for _ in range(REPETITIONS):
        there = training.timed(plain.steps)
        hooks.seconds = 0.0
        here = training.timed(ours.steps)
        ratios.append(here / there)
        shares.append(hooks.seconds / here)
    training.say(ratios=ratios, shares=shares)
    ours.averager.close()


def calibrate() -> None:
    """Bytes of a sparse step, and the time of its exchange after backward where the network hardly
    counts."""
    training.start()
    ours = contender(SERIAL, lanes=0, compute=COMPUTE)
    ours.steps(3)
    before = ours.averager.summary().bytes_sent
    ours.steps(STEPS)
    sent = (ours.averager.summary().bytes_sent - before) / STEPS
    extra = sorted(
        (training.timed(ours.steps) - training.timed(ours.local_steps)) / STEPS for _ in range(5)
    )
    training.say(sent=sent, extra=extra[2])
    ours.averager.close()


def exposed() -> None:
    """Step time with exchanges beside backward, after backward, and without any, in turns."""
    training.start()
    beside, after = contender(SPARSE, compute=COMPUTE), contender(SERIAL, lanes=0, compute=COMPUTE)
    for each in (beside, after):
        each.steps(3)
    shares, serial = [], []
    for _ in range(REPETITIONS):
        overlapped, whole, compute = (
            training.timed(beside.steps),
            training.timed(after.steps),
            training.timed(beside.local_steps),
        )
        shares.append((overlapped - compute) / (whole - compute))
        serial.append((whole - compute) / STEPS / BACKWARD)
    training.say(shares=shares, serial=serial)
    for each in (beside, after):
        each.averager.close()


def main() -> None:
    roles = {"overhead": overhead, "calibrate": calibrate, "exposed": exposed}
    if len(sys.argv) > 1:
        return roles[sys.argv[1]]()
    loopback = training.on_loopback(HERE, ["overhead"], 2, 1200)
    known = training.in_the_lab(HERE, ["calibrate"], 2, "1gbit,1ms", 600)
    # The link is set so that an exchange after backward takes as long as backward.
    rate = known["sent"] * 8 / max(BACKWARD - known["extra"], 0.1 * BACKWARD)
    lab = training.in_the_lab(HERE, ["exposed"], 2, f"{rate / 1e6:.2f}mbit,1ms", 1200)
    results = [
        figures.spread("overhead_dense", loopback["ratios"], "x"),
        figures.spread("gil_share", loopback["shares"], "fraction"),
        figures.spread("exposed_share", lab["shares"], "fraction"),
        figures.spread("serial_exchange_over_backward", lab["serial"], "x"),
    ]
    print(figures.show(results))
    print(
        f"\nlab: 2 hosts, {rate / 1e6:.1f} Mbit/s, 1 ms; {known['sent'] / 1024:.0f} KiB sent per "
        f"step and rank; compute {1e3 * COMPUTE:.0f} ms a step"
    )
    figures.write("ddp", results)


if __name__ == "__main__":
    main()
