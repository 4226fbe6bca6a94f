# SPDX-License-Identifier: MIT
"""Run logs and truth logs as docs/formats/ describes them, made up: every type of line, a network
that gets slow and recovers, whatever names a test wants."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Line = dict[str, Any]

PARAMETERS, WORLD = 2_500_000, 4
DENSE = "gradients dense reduce=backend values=f32 fuse=bucket"
STAR = "gradients shared/star bcast=scatter-allgather reduce=halving-doubling density=1% values=f16 indices=rice fuse=all"
UPDATES = "updates every=4 late=1 union density=0.3% values=int8 indices=rice"
# Steps that begin a phase: its name, latency in seconds, rate in bits per second, the plan, its
# time on the wire and its bytes.
PHASES = {
    0: ("fast", 1e-3, 1e9, DENSE, 0.120, 15_000_000),
    100: ("slow", 20e-3, 50e6, STAR, 0.110, 150_000),
    200: ("worse", 40e-3, 10e6, UPDATES, 0.210, 30_000),
}
COMPUTE, MONO, STARTED = 0.05, 5000.0, 1.8e9


@dataclass
class Made:
    """What was written, to compare with."""

    lines: list[Line] = field(default_factory=list)

    def of(self, kind: str) -> list[Line]:
        return [line for line in self.lines if line["type"] == kind]

    def write(self, path: Path, tail: str = "") -> Path:
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines) + tail)
        return path


def header(name: str = "run", **more: Any) -> Line:
    keys = {
        "type": "header",
        "t": 0.0,
        "format": "pliant-run-log",
        "version": 1,
        "name": name,
        "started": STARTED,
        "mono": MONO,
    }
    keys |= {
        "versions": {"pliant": "0.1.0", "torch": "2.13.0", "python": "3.11.7"},
        "command": ["train.py", "--epochs", "3"],
        "rank": 0,
        "world": WORLD,
        "lanes": 2,
    }
    keys |= {
        "parameters": PARAMETERS,
        "layout": "0123456789abcdef",
        "options": {"plan": "auto"},
        "optimizer": "sgd",
        "costs": "{}",
        "buckets": [2_000_000, 500_000],
    }
    return keys | more


def candidate(plan: str, step: float, efficiency: float) -> Line:
    return {
        "plan": plan,
        "step": step,
        "exchange": step - COMPUTE,
        "exposed": step - COMPUTE,
        "efficiency": efficiency,
        "updated": 0.01,
        "gain": 0.4,
        "bytes": 150_000,
    }


def _decision(
    step: int,
    epoch: int,
    t: float,
    plan: str,
    before: str | None,
    short: str,
    reason: str,
    **more: Any,
) -> Line:
    front = [candidate(UPDATES, 0.06, 0.6), candidate(STAR, 0.16, 0.8), candidate(DENSE, 0.17, 1.0)]
    keys = {
        "type": "decision",
        "t": t,
        "step": step,
        "round": step,
        "epoch": epoch,
        "plan": plan,
        "from": before,
        "changed": before is not None and before != plan,
        "trial": False,
    }
    return (
        keys
        | {
            "short": short,
            "reason": reason,
            "inputs": "link 1 Gbit/s, 1 ms",
            "candidates": 1234,
            "front": front,
            "chosen": candidate(plan, 0.16, 0.8),
        }
        | more
    )


def _step(step: int, epoch: int, t: float, begin: float, chance: random.Random) -> Line:
    name, latency, rate, plan, wire, size = PHASES[max(at for at in PHASES if at <= step)]
    updates = plan == UPDATES
    sends = not updates or step % 4 == 3
    compute = COMPUTE * chance.uniform(0.95, 1.1) + (3.0 if step == 150 else 0.0)  # an evaluation
    seen = wire * chance.uniform(0.9, 1.15) if sends else None
    exposed = 0.0 if seen is None else max(0.0, seen - (4 * compute if updates else 0.6 * COMPUTE))
    coding = 0.004 if plan != DENSE else 0.0005
    whole = compute + exposed + (coding if updates else 0.0)
    link = (
        None
        if step < 5
        else {
            "latency": latency * chance.uniform(0.9, 1.2),
            "latency_sd": 0.1 * latency,
            "rate": rate * chance.uniform(0.85, 1.05),
            "rate_sd": 0.08 * rate,
        }
    )
    enter = begin + compute if updates else begin + whole - (seen or 0.0) - 0.002
    span = {
        "group": 0,
        "lane": (step // 4 if updates else step) % 2,
        "begin": enter - 0.001,
        "enter": enter,
        "leave": enter + (seen or 0.0),
        "end": enter + (seen or 0.0) + 0.0015,
        "bytes": size,
        "entries": PARAMETERS,
    }
    keys = {
        "type": "step",
        "t": t,
        "step": step,
        "plan": plan,
        "epoch": epoch,
        "round": step if sends else None,
        "whole": whole,
        "compute": compute,
        "exposed": exposed,
    }
    keys |= {
        "coding": coding,
        "predicted": wire if sends and step >= 5 else None,
        "seen": seen,
        "bytes": size if sends else 0,
        "control_bytes": 3 * 64 if sends else 0,
        "link": link,
    }
    keys |= {
        "dense_step": None
        if step < 5
        else COMPUTE + 2 * 6 * latency + 8 * 1.5 * 4 * PARAMETERS / rate,
        "worth": 1.0 if plan == DENSE else 0.9,
        "updated": 1.0 if plan == DENSE else 0.012,
    }
    keys |= {
        "gain": 1.0 if plan == DENSE else chance.uniform(0.3, 0.5),
        "residual_ratio": 0.0 if plan == DENSE else chance.uniform(3, 4),
        "void": step == 120,
        "exchanges": [span] if sends else [],
    }
    return keys


def made(
    name: str = "run",
    steps: int = 300,
    seed: int = 1,
    short: str = "network slower (50 Mbit/s): top 1 % (shared/star) instead of dense",
    reason: str = "the link has become slow",
    **header_keys: Any,
) -> Made:
    """A run with every type of line."""
    chance, out, t, epoch = random.Random(seed), Made(), 0.05, 0
    out.lines.append(header(name, **header_keys))
    before: str | None = None
    for step in range(steps):
        if step in PHASES:
            phase, _, _, plan, _, _ = PHASES[step]
            epoch += 1
            out.lines += [
                {"type": "phase", "t": t, "step": step, "name": phase},
                _decision(step, epoch, t, plan, before, short, reason),
            ]
            before = plan
        if step == 50:
            out.lines.append(
                _decision(
                    step,
                    epoch,
                    t,
                    DENSE,
                    DENSE,
                    "dense stays",
                    "the plan in force is still the best",
                )
            )
            out.lines.append(
                _decision(
                    step,
                    epoch,
                    t,
                    STAR,
                    DENSE,
                    "trial of one exchange: top 1 % (shared/star) instead of dense",
                    "tried for one exchange",
                    trial=True,
                )
            )
        line = _step(step, epoch, 0.0, t, chance)
        line["t"] = t + line["whole"] + 0.001
        if step == steps - 1:
            line |= {"whole": None, "compute": None, "exposed": None}
        out.lines.append(line)
        t += line["whole"] or COMPUTE
        if step % 3 == 0:
            loss = 2.3 * math.exp(-step / 90) + 0.25 + chance.gauss(0, 0.03)
            out.lines.append(
                {
                    "type": "note",
                    "t": t,
                    "step": step,
                    "values": {"loss": loss, "accuracy": 1 - loss / 3},
                }
            )
    out.lines.append(
        {"type": "message", "t": t, "level": "warning", "text": "the exchange of step 120 was void"}
    )
    summary = {
        "plan": before,
        "steps": steps,
        "exchanges": steps,
        "bytes": 1,
        "control_bytes": 1,
        "voids": 1,
    }
    out.lines.append(
        {
            "type": "end",
            "t": t + 0.01,
            "step": steps,
            "status": "closed",
            "error": None,
            "summary": summary,
        }
    )
    return out


def _way(rate: float | None, delay: float) -> Line:
    return {
        "rate_bits_per_second": rate,
        "trace": False,
        "delay_s": delay,
        "jitter_s": 0,
        "loss": 0,
        "reorder": 0,
        "queue": "100 packets",
        "blackhole": False,
    }


def truth_of(run: Made) -> Made:
    """What the lab would have written beside it: it began 2 s earlier."""
    begin = MONO - 2.0
    out = Made(
        [
            {
                "type": "header",
                "mono": begin,
                "wall": STARTED - 2,
                "format": "pliant-lab-truth",
                "version": 1,
                "hosts": WORLD,
                "mtu": 1500,
                "seed": 1,
                "timeline": "made up",
            }
        ]
    )
    for line in run.of("phase"):
        _, latency, rate, _, _, _ = PHASES[line["step"]]
        mono = begin if line["step"] == 0 else MONO + line["t"]
        out.lines.append(
            {
                "type": "phase",
                "mono": mono,
                "wall": STARTED,
                "phase": line["name"],
                "cause": "phase",
            }
        )
        for host in range(WORLD):
            link = {
                "down": False,
                "out": _way(rate if host == 1 else 10 * rate, latency),
                "in": _way(None, latency / 2),
            }
            out.lines.append(
                {
                    "type": "link",
                    "mono": mono,
                    "wall": STARTED,
                    "host": host,
                    "cause": "phase",
                    "phase": line["name"],
                    "link": link,
                }
            )
    out.lines.append(
        {
            "type": "second",
            "mono": MONO + 1,
            "wall": STARTED,
            "host": 0,
            "interval_s": 1,
            "out": {},
            "in": {},
        }
    )
    return out
