# SPDX-License-Identifier: MIT
"""Tests that the commands and the Python of README.md, and the commands of docs/tools.md, run as
they stand there. readme_cpp_test compiles and runs the C++ of docs/cpp.md.

Usage: readme_test.py BUILD_DIR   (with the package on PYTHONPATH)"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import readme

ROOT = Path(__file__).resolve().parents[2]
BUILD = ""
MISSING = 6
PRELUDE = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
A_STEP = """
ddp(torch.ones(2, 4)).sum().backward()
optimizer.step()
averager.close()
dist.destroy_process_group()
"""
# These need a log of the user's own, minutes, or the right to install. The doctor has doctor_test.
NOT_HERE = ("pip install", "pliant demo", "pliant doctor", "pliant report", "pliant watch")


class Commands(unittest.TestCase):
    def test_each_runs(self) -> None:
        commands = readme.commands()
        self.assertGreaterEqual(len(commands), 5)
        ran = 0
        for command in commands:
            with self.subTest(command), tempfile.TemporaryDirectory() as folder:
                if command.startswith("make "):
                    subprocess.run(
                        ["make", "-n", "-C", str(ROOT), *command.split()[1:]],
                        check=True,
                        capture_output=True,
                        timeout=60,
                    )
                    continue
                if command.startswith(NOT_HERE):
                    continue
                shown = Path(folder) / "pliant"
                shown.write_text(f'#!/bin/sh\nexec {sys.executable} -m pliant "$@"\n')
                shown.chmod(0o755)
                environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
                line = command.replace("build/release", BUILD)
                done = subprocess.run(
                    ["bash", "-c", line],
                    cwd=ROOT,
                    capture_output=True,
                    text=True,
                    timeout=240,
                    env=environment,
                )
                ran += 1
                if done.returncode == MISSING and "lab" in command:
                    continue
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(done.stdout)
        self.assertGreater(ran, 0, "no command could be run here")


# What a block that goes on from an earlier one finds.
BEFORE = """
import pliant
ddp = DistributedDataParallel(model)
evaluate = save = lambda model: [parameter.sum() for parameter in model.parameters()]
"""


class Python(unittest.TestCase):
    def test_each_block_runs(self) -> None:
        self.assertTrue(readme.blocks("python"))
        for block in readme.blocks("python"):
            with self.subTest(block):
                before = PRELUDE if "import pliant" in block else PRELUDE + BEFORE
                done = subprocess.run(
                    [sys.executable, "-c", before + block + A_STEP],
                    capture_output=True,
                    text=True,
                    timeout=240,
                )
                self.assertEqual(done.returncode, 0, done.stderr)


class Text(unittest.TestCase):
    def test_every_block_is_of_a_kind_that_is_run(self) -> None:
        kinds = {
            line.removeprefix("```")
            for line in readme.README.read_text().splitlines()
            if line.startswith("```")
        }
        self.assertLessEqual(kinds, {"", "python"})


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
