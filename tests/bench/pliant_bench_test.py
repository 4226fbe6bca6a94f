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
EXCHANGE_KEYS = {
    "plan", "scheme", "density", "count", "bytes", "kept", "seconds", "seconds_low", "seconds_high", "effective_bandwidth_bytes_per_second",
    "wire_bytes", "messages", "updated_fraction", "select_seconds", "encode_seconds", "wire_seconds", "decode_seconds", "wrong",
    "reference_seconds", "dense_seconds", "price_seconds",
}  # fmt: skip
SCHEMES = "union,shared/star,shared/var,srs,dense"
TOOL = ""


def run(*options: str, ranks: int = 0) -> subprocess.CompletedProcess[str]:
    """Alone, or under mpirun if `ranks` says so."""
    launcher = [str(ROOT / "scripts" / "mpirun"), "-n", str(ranks)] if ranks else []
    return subprocess.run(
        [*launcher, TOOL, *options], capture_output=True, text=True, timeout=LIMIT
    )


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
        done = run(
            "--local",
            "3",
            "-b",
            "1K",
            "-e",
            "16K",
            "-f",
            "4",
            "-n",
            "2",
            "--collective",
            "all",
            "--link",
            "1gbit,1ms",
        )
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
        self.assertEqual(
            [row[0] for row in found["all-reduce, ring"][1]], ["1024", "4096", "16384"]
        )
        self.assertEqual(found["broadcast, chain"][0][-1], "segments")
        self.assertEqual(found["all-gather, ring"][1][0][1], "255", "equal parts, rounded down")

    def test_json(self) -> None:
        done = run(
            "--local",
            "2",
            *QUICK,
            "--json",
            "--link",
            "100mbit,1ms",
            "--schedule",
            "ring,halving-doubling",
        )
        document = json.loads(done.stdout)
        self.assertEqual(
            (document["schema"], document["tool"], document["ranks"], document["engine"]),
            (1, "pliant-bench", 2, "threads"),
        )
        self.assertEqual(document["link"], "100mbit,1ms")
        self.assertEqual(
            [r["schedule"] for r in document["results"]], ["ring", "halving-doubling", "memcpy"]
        )
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
            done = run(
                "--local",
                ranks,
                "-b",
                "60",
                "-n",
                "1",
                "--collective",
                "all",
                "--root",
                root,
                "--segments",
                "3",
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_show_draws(self) -> None:
        done = run("--show", "halving-doubling", "--ranks", "8")
        self.assertEqual(done.returncode, 0)
        self.assertIn("all-reduce, halving-doubling, 8 ranks, 8 blocks", done.stdout)
        self.assertIn(">4 [4-7]  <4 +[0-3]", done.stdout)
        self.assertEqual(
            run("--show", "ring", "--ranks", "3").stdout.count("3 ranks, 3 blocks"),
            3,
            "one drawing for each collective",
        )

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
                self.assert_refused(
                    run(*(() if "--local" in options else ("--local", "2")), *options), *texts
                )

    def test_every_scheme_in_every_code_is_right(self) -> None:
        document = json.loads(
            run(
                "--local",
                "3",
                *QUICK,
                "--json",
                "--scheme",
                SCHEMES,
                "--density",
                "10%,1%",
                "--values",
                "f32,f16,int8,int4",
                "--indices",
                "rice,raw32",
            ).stdout
        )
        rows = [r for r in document["results"] if r["scheme"]]
        self.assertEqual(
            len(rows),
            4 * 2 * 4 * 2 + 5,
            "four sparse schemes; dense in each code, and ours to compare with",
        )
        for row in rows:
            self.assertEqual(row["wrong"], 0, row["plan"])

    def test_exchange_table(self) -> None:
        done = run("--local", "3", *QUICK, "--scheme", SCHEMES, "--link", "1gbit,1ms")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("# pliant-bench: exchanges of 3 ranks on threads"))
        self.assertIn("# every value is right", done.stdout)
        lines = [line for line in done.stdout.splitlines() if line and not line.startswith("#")]
        self.assertEqual(len(lines), 5 + 1 + 1, "five schemes, our dense all-reduce, a copy")
        titles = (
            next(line for line in done.stdout.splitlines() if "effbw" in line).lstrip("#").split()
        )
        self.assertEqual(titles, ["count", "density", "time", "wire", "effbw", "select", "encode", "wire", "decode", "#wrong",
                                  "time/dense", "time/memcpy", "price", "plan"])  # fmt: skip
        for line, scheme in zip(
            lines, ("union", "shared/star", "shared/var", "srs", "dense", "dense"), strict=False
        ):
            self.assertIn(f"gradients {scheme} ", line)
            self.assertEqual(line.split()[9], "0", line)

    def test_exchange_json(self) -> None:
        plans = ("gradients union density=1%", "gradients,srs,density=2%,values=int8")
        done = run(
            "--local",
            "2",
            "-n",
            "2",
            "--params",
            "2K,5000",
            "--json",
            "--link",
            "100mbit,1ms",
            "--plan",
            plans[0],
            "--plan",
            plans[1],
        )
        document = json.loads(done.stdout)
        self.assertEqual(
            (document["schema"], document["hollow"], document["reference"]), (1, False, "memcpy")
        )
        results = document["results"]
        self.assertEqual([r["count"] for r in results], [2000] * 4 + [5000] * 4)
        self.assertEqual([r["scheme"] for r in results[:4]], ["union", "srs", "dense", None])
        for result in results:
            self.assertEqual(set(result), EXCHANGE_KEYS)
        union = results[0]
        self.assertEqual(
            (union["plan"], union["kept"], union["messages"]),
            ("gradients union density=1% values=f32 indices=rice fuse=bucket", 20, 1),
        )
        self.assertAlmostEqual(
            union["price_seconds"], 1e-3 + union["wire_bytes"] * 8e-8, delta=2e-6
        )

    def test_plans_that_cannot_be_and_options_that_do_not_fit(self) -> None:
        for options, texts in [
            (("--scheme", "unions"), ("--scheme", "did you mean 'union'?")),
            (("--scheme", "shared/moon"), ("--scheme", "'shared/moon'")),
            (("--scheme", "union", "--density", "0.01"), ("--density", "'0.01'", "%")),
            (("--scheme", "union", "--density", "1%,200%"), ("--density", "200%")),
            (("--scheme", "union", "--values", "f8"), ("--values", "'f8'")),
            (("--scheme", "union", "--indices", "rise"), ("--indices", "did you mean 'rice'?")),
            (("--density", "1%"), ("--density", "--scheme")),
            (("--params", "1M"), ("--params", "--scheme")),
            (("--scheme", "union", "--params", "1MB"), ("--params", "'1MB'")),
            (("--scheme", "union", "--params", "0"), ("--params", "between")),
            (("--scheme", "union", "--collective", "all"), ("--collective", "--plan")),
            (("--scheme", "union", "--schedule", "ring"), ("--schedule", "--plan")),
            (("--scheme", "union", "--segments", "4"), ("--segments", "--plan")),
            (("--plan", "gradients union"), ("--plan", "density")),
            (
                ("--plan", "gradients dense reduce=rings"),
                ("--plan: reduce= does not know 'rings'", "did you mean 'ring'?", "^~~~"),
            ),
            (("--plan", "gradients union density=1% every=4"), ("every= is for updates",)),
            (
                ("--plan", "updates every=4 late=2 union density=3%"),
                ("--plan", "gradients are exchanged here"),
            ),
        ]:
            with self.subTest(options=options):
                self.assert_refused(run("--local", "2", *options), *texts)


class Mpi(Case):
    def test_every_scheme_beside_mpi_itself(self) -> None:
        done = run(
            *QUICK, "--json", "--scheme", SCHEMES, "--density", "5%", "--values", "int8", ranks=4
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual((document["ranks"], document["reference"]), (4, "MPI"))
        self.assertEqual(
            [r["scheme"] for r in document["results"]],
            ["union", "shared", "shared", "srs", "dense", "dense", None],
        )
        for result in document["results"]:
            self.assertEqual(result["wrong"], 0, result["plan"])
            self.assertGreater(result["reference_seconds"], 0)
            self.assertGreater(result["dense_seconds"], 0)

    def test_a_bad_plan_is_told_once(self) -> None:
        self.assert_refused(
            run("--plan", "gradients union density=1", ranks=3), "--plan", "density="
        )

    def test_table_with_mpi_itself_beside_ours(self) -> None:
        done = run(*QUICK, "--collective", "all", ranks=4)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            done.stdout.count("# pliant-bench: 4 ranks on Open MPI"), 1, "one rank prints"
        )
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
