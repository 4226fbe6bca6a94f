# SPDX-License-Identifier: MIT
"""What the tests of pliant-lab share: starting it, and looking at what it left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import unittest
from collections.abc import Callable
from pathlib import Path

LAB = os.environ.get("PLIANT_LAB", "build/dev/tools/pliant-lab/pliant-lab")
SKIPPED = 77  # ctest shows a test with this exit status as skipped
LONGEST = 60  # seconds; a hang is a failure


def lab(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LAB, *arguments], capture_output=True, text=True, timeout=LONGEST, **options
    )  # type: ignore[call-overload]


def start(*arguments: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [LAB, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )  # type: ignore[call-overload]


def until(holds: Callable[[], bool]) -> bool:
    """Waits for something that must come true; not a measurement."""
    end = time.monotonic() + LONGEST
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def read(path: Path) -> str:
    """A file of /proc, empty if its process is gone."""
    try:
        return path.read_text()
    except OSError:
        return ""


def processes() -> list[Path]:
    return [path for path in Path("/proc").iterdir() if path.name.isdigit()]


def with_word(word: str) -> list[int]:
    """Processes that have the word in their command line."""
    return [
        int(p.name)
        for p in processes()
        if word in read(p / "cmdline") and int(p.name) != os.getpid()
    ]


def children(pid: int) -> dict[int, str]:
    found = {}
    for path in processes():
        fields = read(path / "stat").rsplit(") ", 1)
        if len(fields) == 2 and int(fields[1].split()[1]) == pid:
            found[int(path.name)] = read(path / "comm").strip()
    return found


def machine_network() -> bytes:
    """Interfaces, addresses and routes of the machine itself."""
    commands = (
        ["link"],
        ["address"],
        ["route", "show", "table", "all"],
        ["-6", "route", "show", "table", "all"],
    )
    return b"".join(
        subprocess.run(["ip", *c], capture_output=True, timeout=10, check=True).stdout
        for c in commands
    )


def main() -> None:
    """Runs the tests of the calling file, or says what is missing here and is skipped."""
    probe = lab("run", "--hosts", "1", "--", "true")
    if probe.returncode == 6 and "--anyway" not in sys.argv:
        print(f"skipped: {probe.stderr}")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], "-v"])
