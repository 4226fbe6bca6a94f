# SPDX-License-Identifier: MIT
"""Test that the torchrun command of docs/two_machines.md trains on two hosts of the lab. Skipped
where the lab cannot run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

LAB = os.environ.get("PLIANT_LAB", "")
ROOT = Path(__file__).resolve().parents[2]
SET_BY_THE_LAB = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")


def documented() -> str:
    """The command for the first machine, as the page has it."""
    found = re.search(r"^torchrun .*$", (ROOT / "docs/two_machines.md").read_text(), re.MULTILINE)
    assert found, "docs/two_machines.md has no line that begins with torchrun"
    return found.group()


@pytest.mark.skipif(
    not LAB or not os.path.exists("/dev/net/tun") or os.geteuid() != 0,
    reason="needs pliant-lab, TUN and root",
)
def test_the_documented_command_trains_on_two_hosts() -> None:
    script = next((ROOT / "examples").glob("*ddp_after.py"))
    command = (
        documented()
        .replace("torchrun", f"{shlex.quote(sys.executable)} -m torch.distributed.run", 1)
        .replace("--node-rank 0", "--node-rank $PLIANT_LAB_HOST", 1)
        .replace("10.0.0.1", "10.77.0.1", 1)
        .replace("train.py", f"{shlex.quote(str(script))} --epochs 1", 1)
    )
    assert "$PLIANT_LAB_HOST" in command and "10.77.0.1" in command and "ddp_after" in command
    without = " ".join(f"-u {name}" for name in SET_BY_THE_LAB)  # torchrun sets them itself
    run = [LAB, "run", "--hosts", "2", "--link", "100mbit,10ms", "--timeout", "200s", "--"]
    done = subprocess.run(
        [*run, "sh", "-c", f"exec env {without} {command}"],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "epoch 0: accuracy" in done.stdout, done.stdout
