# SPDX-License-Identifier: MIT
"""pliant-bench as a user meets it: its table, its document, its refusals.

Usage: pliant_bench_test.py local|mpi PLIANT_BENCH
"""
from __future__ import annotations

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT = 60
QUICK = ("-b", "4K", "-n", "2", "-w", "1")
COLUMNS = ["size", "count", "time", "algbw", "busbw", "#wrong"]
KEYS = {
    "collective", "schedule", "segments", "bytes", "count", "seconds", "seconds_low", "seconds_high", "algbw_bytes_per_second",
    "busbw_bytes_per_second", "wrong", "reference_seconds", "price_seconds", "bound_seconds",
}  # fmt: skip
TOOL = ""


def run(*options: str, ranks: int = 0) -> subprocess.CompletedProcess[str]:
    """Alone, or under mpirun if `ranks` says so."""
    launcher = [str(ROOT / "scripts" / "mpirun"), "-n", str(ranks)] if ranks else []
    return subprocess.run([*launcher, TOOL, *options], capture_output=True, text=True, timeout=LIMIT)


def blocks(table: str) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Title -> (columns, rows) of a printed table."""
    found: dict[str, tuple[list[str], list[list[str]]]] = {}
    title = ""
    for line in table.splitlines():
        if match := re.fullmatch(r"# ([a-z-]+, [\w-]+)", line):
            title = match[1]
        elif line.startswith("#") and line.split()[1:2] == ["size"]:
            found[title] = (line[1:].split(), [])
        elif line and not line.startswith("#"):
            found[title][1].append(line.split())
    return found


class Case(unittest.TestCase):
    def assert_refused(self, done: subprocess.CompletedProcess[str], *texts: str) -> None:
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("pliant-bench: "), 1, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)


class Local(Case):
    def test_table(self) -> None:
        done = run("--local", "3", "-b", "1K", "-e", "16K", "-f", "4", "-n", "2", "--collective", "all", "--link", "1gbit,1ms")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("# pliant-bench: 3 ranks on threads"))
        self.assertIn("# every value is right", done.stdout)
        found = blocks(done.stdout)
        self.assertEqual(len(found), 15 + 4, "every schedule, and the copy for each collective")
        for title, (columns, rows) in found.items():
            self.assertEqual(columns[:6], COLUMNS, title)
            self.assertEqual(columns[6:9], ["time/memcpy", "price", "time/bound"], title)
            self.assertEqual(len(rows), 3, title)
            if not title.endswith("memcpy"):
                self.assertEqual([row[5] for row in rows], ["0"] * 3, title)
        self.assertEqual([row[0] for row in found["all-reduce, ring"][1]], ["1024", "4096", "16384"])
        self.assertEqual(found["broadcast, chain"][0][-1], "segments")
        self.assertEqual(found["all-gather, ring"][1][0][1], "255", "equal parts, rounded down")

    def test_json(self) -> None:
        done = run("--local", "2", *QUICK, "--json", "--link", "100mbit,1ms", "--schedule", "ring,halving-doubling")
        document = json.loads(done.stdout)
        self.assertEqual((document["schema"], document["tool"], document["ranks"], document["engine"]), (1, "pliant-bench", 2, "threads"))
        self.assertEqual(document["link"], "100mbit,1ms")
        self.assertEqual([r["schedule"] for r in document["results"]], ["ring", "halving-doubling", "memcpy"])
        for result in document["results"]:
            self.assertEqual(set(result), KEYS)
            self.assertLessEqual(result["seconds_low"], result["seconds"])
        self.assertAlmostEqual(document["results"][0]["price_seconds"], 2e-3 + 4096 * 8e-8)
        self.assertAlmostEqual(document["results"][0]["bound_seconds"], 4096 * 8e-8)
        self.assertEqual(document["results"][0]["wrong"], 0)

    def test_nothing_is_checked_if_nothing_shall_be(self) -> None:
        done = run("--local", "2", *QUICK, "-c", "0", "--schedule", "ring", "--reference", "none")
        self.assertIn("N/A", done.stdout)
        self.assertIn("# not checked", done.stdout)
        self.assertNotIn("memcpy", done.stdout)

    def test_any_number_of_ranks_root_and_segments(self) -> None:
        for ranks in ("1", "2", "5", "7"):
            root = str(int(ranks) - 1)
            done = run("--local", ranks, "-b", "60", "-n", "1", "--collective", "all", "--root", root, "--segments", "3")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_show_draws(self) -> None:
        done = run("--show", "halving-doubling", "--ranks", "8")
        self.assertEqual(done.returncode, 0)
        self.assertIn("all-reduce, halving-doubling, 8 ranks, 8 blocks", done.stdout)
        self.assertIn(">4 [4-7]  <4 +[0-3]", done.stdout)
        self.assertEqual(run("--show", "ring", "--ranks", "3").stdout.count("3 ranks, 3 blocks"), 3, "one drawing for each collective")

    def test_help_and_version(self) -> None:
        self.assertIn("--minbytes", run("--help").stdout)
        self.assertRegex(run("--version").stdout, r"^pliant-bench \d+\.\d+\.\d+\n$")

    def test_refusals_name_the_option_and_the_fix(self) -> None:
        for options, texts in [
            (("--schedul", "ring"), ("'--schedul'", "did you mean '--schedule'?")),
            (("--schedule", "rung"), ("--schedule", "did you mean 'ring'?")),
            (("--schedule", "binomial"), ("--schedule", "allowed: ring")),
            (("--collective", "all-reduc"), ("--collective", "did you mean 'all-reduce'?")),
            (("--show", "halving-doublin"), ("--show", "did you mean 'halving-doubling'?")),
            (("-b", "8MB"), ("-b", "'8MB'", "8MiB")),
            (("-b", "0"), ("-b",)),
            (("-b", "2G"), ("-b", "1G")),
            (("-b", "8K", "-e", "4K"), ("-e", "below the smallest")),
            (("-f", "1"), ("-f", "above 1")),
            (("-n", "0"), ("-n", "not in range")),
            (("-n",), ("-n", "missing")),
            (("-n", "many"), ("-n", "many")),
            (("--segments", "0"), ("--segments", "auto")),
            (("--link", "10gbps,1ms"), ("--link",)),
            (("--deadline", "5"), ("--deadline",)),
            (("--reference", "x"), ("--reference", "none")),
            (("--root", "-1"), ("--root",)),
            (("--root", "2"), ("--root", "no rank 2 among 2")),
            (("ring",), ("'ring'", "--help")),
            (("--local", "0"), ("--local",)),
        ]:
            with self.subTest(options=options):
                self.assert_refused(run(*(() if "--local" in options else ("--local", "2")), *options), *texts)


class Mpi(Case):
    def test_table_with_mpi_itself_beside_ours(self) -> None:
        done = run(*QUICK, "--collective", "all", ranks=4)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("# pliant-bench: 4 ranks on Open MPI"), 1, "one rank prints")
        self.assertIn("# every value is right", done.stdout)
        found = blocks(done.stdout)
        for collective in ("all-reduce", "reduce-scatter", "all-gather", "broadcast"):
            columns, rows = found[f"{collective}, MPI"]
            self.assertEqual(columns[:7], [*COLUMNS, "time/MPI"])
            self.assertEqual((rows[0][5], rows[0][6]), ("0", "1.00"))

    def test_mpi_alone(self) -> None:
        document = json.loads(run(*QUICK, "--json", "--schedule", "mpi", ranks=3).stdout)
        self.assertEqual([r["schedule"] for r in document["results"]], ["MPI"])
        self.assertEqual(document["ranks"], 3)

    def test_a_bad_option_is_told_once(self) -> None:
        for options, text in [(("--bogus",), "--bogus"), (("--root", "9"), "no rank 9 among 4")]:
            self.assert_refused(run(*options, ranks=4), text)

    def test_help_is_told_once(self) -> None:
        done = run("--help", ranks=3)
        self.assertEqual((done.returncode, done.stdout.count("--minbytes")), (0, 1))

    def test_threads_need_no_mpirun_and_a_deadline_may_be_none(self) -> None:
        self.assertEqual(run("--local", "2", *QUICK, "--deadline", "none").returncode, 0)
        self.assertEqual(run(*QUICK, "--deadline", "none", ranks=2).returncode, 0)

    def test_a_deadline_that_passes_is_a_lost_peer(self) -> None:
        done = run("-b", "64M", "-n", "1", "--schedule", "ring", "--deadline", "1us", ranks=2)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("deadline", done.stderr)


if __name__ == "__main__":
    suite, TOOL = {"local": "Local", "mpi": "Mpi"}[sys.argv[1]], sys.argv[2]
    unittest.main(argv=[sys.argv[0], suite])
