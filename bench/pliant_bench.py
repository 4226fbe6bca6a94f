# SPDX-License-Identifier: MIT
"""Runner of pliant-bench that reads its JSON: on threads, or in simulated time."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOL = Path("tools") / "pliant-bench" / "pliant-bench"
LIMIT = 600  # seconds of real time, for any one run


def _run(command: Sequence[object]) -> dict:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode != 0 or not done.stdout.startswith("{"):  # a simulated deadlock exits 0
        raise RuntimeError(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def on_threads(ranks: int, *options: object) -> dict:
    """The document of the release build on `ranks` threads."""
    return _run([ROOT / "build" / "release" / TOOL, "--json", "--local", ranks, *options])


def simulated(
    ranks: int,
    link: str,
    *options: object,
    config: Sequence[str] = (),
    iterations: int = 1,
    checks: int = 0,
) -> dict:
    """The document of a simulated run, priced for the same link. Simulated time is exact, so one
    iteration tells all."""
    smpi = [
        ROOT / "scripts" / "smpi",
        "-n",
        ranks,
        "--link",
        link,
        *(f"--cfg={each}" for each in config),
    ]
    return _run(
        [
            *smpi,
            ROOT / "build" / "smpi" / TOOL,
            "--json",
            "--link",
            link,
            "-n",
            iterations,
            "-w",
            0,
            "-c",
            checks,
            *options,
        ]
    )


def price_error(result: dict) -> float:
    """Difference between executed and predicted time, relative to the latter."""
    return abs(result["seconds"] / result["price_seconds"] - 1)
