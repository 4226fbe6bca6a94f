# SPDX-License-Identifier: MIT
"""Every schedule of the catalogue, executed in simulated time, takes what price() says."""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import pliant_bench  # noqa: E402

LINK = "10gbit,50us"
SIZES = (2, 3, 8, 13, 32, 64)
TOLERANCE = 0.02


class ModelIsReality(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        # 64 KiB: latency rules; 724 KiB: both count; 8 MiB: bandwidth rules.
        options = (
            "--collective",
            "all",
            "--reference",
            "none",
            "-b",
            "64K",
            "-e",
            "8M",
            "-f",
            "11.3137",
        )
        cls.results = [
            (n, result)
            for n in SIZES
            for result in pliant_bench.simulated(n, LINK, *options)["results"]
        ]

    def test_price_is_the_executed_time(self) -> None:
        for n, result in self.results:
            with self.subTest(
                n=n, **{key: result[key] for key in ("collective", "schedule", "segments", "bytes")}
            ):
                self.assertLess(pliant_bench.price_error(result), TOLERANCE)

    def test_every_schedule_was_run_at_every_size(self) -> None:
        cases = {
            (n, r["collective"], r["schedule"], r["bytes"] > 4 << 20, r["bytes"] < 1 << 17)
            for n, r in self.results
        }
        self.assertEqual(len(cases), len(SIZES) * 15 * 3, "15 schedules, three sizes of vector")

    def test_simulated_time_is_the_same_in_every_run(self) -> None:
        twice = [pliant_bench.simulated(8, LINK, "-b", "1M", iterations=2) for _ in range(2)]
        self.assertEqual(twice[0], twice[1])
        for result in twice[0]["results"]:
            self.assertAlmostEqual(result["seconds_low"] / result["seconds_high"], 1, places=6)

    def test_results_are_right_in_simulation_too(self) -> None:
        command = [
            ROOT / "scripts" / "smpi",
            "-n",
            "5",
            ROOT / "build" / "smpi" / pliant_bench.TOOL,
            "--collective",
            "all",
            "-b",
            "4K",
            "-n",
            "1",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("every value is right", done.stdout)

    def test_simulated_ranks_refuse_threads(self) -> None:
        command = [
            ROOT / "scripts" / "smpi",
            "-n",
            "2",
            ROOT / "build" / "smpi" / pliant_bench.TOOL,
            "--local",
            "2",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("--local: simulated ranks have no threads"), 1)


if __name__ == "__main__":
    unittest.main()
