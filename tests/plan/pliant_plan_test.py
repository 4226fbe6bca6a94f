# SPDX-License-Identifier: MIT
"""pliant-plan as a user meets it: its verdict, its documents, its refusals.

Usage: pliant_plan_test.py PLIANT_PLAN
"""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = ""
BASE = [
    "--params",
    "25.6M",
    "--compute",
    "120ms",
    "--goal",
    "time",
    "--costs",
]  # and a file, so that no machine's speed decides a test
PER_ELEMENT = (
    "copy",
    "accumulate",
    "progress_accumulate",
    "accumulate_select",
    "progress_select",
    "fill_from_sparse",
    "add",
    "multiply",
)
PER_ENTRY = ("trim", "gather_clear", "scatter_add", "f16_encode", "f16_decode", "int8_encode", "int8_decode", "int4_encode", "int4_decode", "int2_encode", "int2_decode",
             "rice_encode", "rice_decode")  # fmt: skip


def write_costs(path: Path) -> None:
    rows = [{"operation": name, "ns_per_element": 0.5, "ns_per_entry": 0} for name in PER_ELEMENT]
    rows += [{"operation": name, "ns_per_element": 0, "ns_per_entry": 2} for name in PER_ENTRY]
    path.write_text(json.dumps({"pliant_costs": 1, "costs": rows}))


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TOOL, *options], capture_output=True, text=True, timeout=60)


class Answers(unittest.TestCase):
    def test_an_island_is_priced_as_a_rank_with_a_share_of_the_link(self) -> None:
        """2 islands of 4 ranks on 100 Mbit/s: two ranks on 25 Mbit/s with a quarter of the model,
        and what the ranks of an island give each other."""
        plan = ["--plan", "updates every=4 late=0 union density=10% values=int8", "--json"]
        islands = json.loads(
            run(
                *BASE,
                *("--islands", "2x4", "--inside", "10gbit,0ms", "--link", "100mbit,20ms"),
                *plan,
            ).stdout
        )
        alone = islands["islands"]["island_step_seconds"]
        self.assertEqual(islands["islands"]["part_parameters"], 6_400_000)
        self.assertGreater(alone, 0.12)  # DDP's average inside is not quite hidden
        part = ["--params", "6.4M", "--compute", f"{alone * 1e6:.0f}us", *BASE[4:]]
        one = json.loads(run(*part, "--ranks", "2", "--link", "25mbit,20ms", *plan).stdout)
        sharing = 2 * 3 * 4 * 6.4e6 * 8 / 10e9  # two rings of three rounds, once in four steps
        self.assertAlmostEqual(
            islands["best"]["step_seconds"], one["best"]["step_seconds"] + sharing / 4, places=5
        )
        self.assertEqual(islands["best"]["bytes_per_step"], one["best"]["bytes_per_step"])
        flat = json.loads(run(*BASE, "--ranks", "8", "--link", "100mbit,20ms", "--json").stdout)
        self.assertEqual(islands["plain"], flat["plain"])

    def test_verdict_comes_first(self) -> None:
        slow = run(*BASE, "--ranks", "8", "--link", "1gbit,1ms")
        self.assertEqual(slow.returncode, 0, slow.stderr)
        self.assertRegex(
            slow.stdout.splitlines()[0],
            r"^compress: \w+(/\w+)? at [\d.]+%.*, [\d.]+x to [\d.]+x plain DDP \(assumed\)$",
        )
        near = run(*BASE, "--ranks", "8", "--link", "1gbit,10us")
        self.assertRegex(near.stdout.splitlines()[0], "^compress: ")
        self.assertIn("Plain DDP is within 2 % from", near.stdout)
        fast = run(
            "--params",
            "25.6M",
            "--compute",
            "240ms",
            *BASE[4:],
            "--ranks",
            "8",
            "--link",
            "400gbit,5us",
        )
        self.assertEqual(fast.stdout.splitlines()[0], "do not compress: plain DDP is within 2 %")

    def test_one_line_for_each_scheme_and_plain_dense_last(self) -> None:
        document = json.loads(run(*BASE, "--ranks", "8", "--link", "1gbit,1ms", "--json").stdout)
        self.assertEqual(
            {s["scheme"] for s in document["schemes"]}, {"dense", "union", "shared", "srs"}
        )
        speed_ups = [s["speed_up"] for s in document["schemes"]]
        self.assertEqual(speed_ups, sorted(speed_ups, reverse=True))
        self.assertEqual(document["best"]["speed_up"], speed_ups[0])
        self.assertEqual(document["plain"]["speed_up"], 1)
        rows = list(
            csv.DictReader(
                io.StringIO(run(*BASE, "--ranks", "8", "--link", "1gbit,1ms", "--csv").stdout)
            )
        )
        self.assertEqual(
            [r["plan"] for r in rows],
            [s["plan"] for s in document["schemes"]] + [document["plain"]["plan"]],
        )

    def test_break_even_is_where_the_verdict_turns(self) -> None:
        document = json.loads(
            run(*BASE, "--ranks", "8", "--link", "1gbit,50us", "--gradients-only", "--json").stdout
        )
        edge = document["break_even_bits_per_second"]
        for factor, verdict in ((0.9, "compress"), (1.1, "do not compress")):
            link = f"{edge * factor / 1e6:.6f}mbit,50us"
            self.assertTrue(
                run(*BASE, "--ranks", "8", "--link", link, "--gradients-only").stdout.startswith(
                    verdict
                ),
                link,
            )

    def test_speed_ups_are_ranges_of_an_assumed_efficiency(self) -> None:
        asked = [*BASE, "--ranks", "8", "--link", "100mbit,10ms"]
        document = json.loads(run(*asked, "--json").stdout)
        for each in document["schemes"]:
            self.assertLess(each["speed_up_low"], each["speed_up"])
            self.assertLess(each["speed_up"], each["speed_up_high"])
            self.assertLessEqual(each["efficiency_high"], 1)
        plain = document["plain"]
        self.assertEqual((plain["speed_up_low"], plain["speed_up_high"]), (1, 1))
        self.assertIn("It is assumed, not measured", run(*asked).stdout)

    def test_dense_values_in_16_bits_are_called_that(self) -> None:
        verdict = run(
            *BASE, "--ranks", "8", "--link", "1gbit,1ms", "--plan", "dense values=f16"
        ).stdout.splitlines()[0]
        self.assertRegex(verdict, r"^compress: all entries as f16( \(updates .*\))?, ")

    def test_plain_ddp_is_plain_ddp_whatever_is_pinned(self) -> None:
        """A ring over each bucket: 2 (N - 1) messages one after the other, nothing coded."""
        asked = ["--model", "resnet50", "--compute", "120ms", "--ranks", "8"]
        far = ["--link", "100gbit,10ms"]
        plain = json.loads(run(*asked, *far, "--costs", "none", "--json").stdout)["plain"]
        buckets = 1 + 4  # one of 1 MiB, then of 25 MiB
        latencies = buckets * 2 * 7 * 0.010
        self.assertAlmostEqual(plain["exposed_seconds"], latencies, delta=0.1)
        self.assertAlmostEqual(plain["bytes_per_step"], 2 * 7 / 8 * 4 * 25_557_032, delta=1e6)
        self.assertEqual(plain["memory_bytes_per_parameter"], 0)
        for change in (
            ["--plan", "updates every=4 union density=1%"],
            ["--plan", "gradients dense values=f16"],
            ["--costs", BASE[-1]],
            ["--lanes", "0"],
        ):
            options = change if "--costs" in change else ["--costs", "none", *change]
            self.assertEqual(
                json.loads(run(*asked, *far, *options, "--json").stdout)["plain"], plain, change
            )

    def test_goal_steps_keeps_the_worth_of_steps(self) -> None:
        asked = [word for word in BASE if word not in ("--goal", "time")]
        steps = run(*asked, "--ranks", "4", "--link", "100mbit,5ms", "--adam", "--json")
        best = json.loads(steps.stdout)["best"]
        self.assertGreaterEqual(best["efficiency"], 0.97)
        self.assertIn("gradients dense", best["plan"])
        said = run(*BASE, "--ranks", "4", "--link", "100mbit,5ms", "--adam").stdout
        sooner = re.search(r"Train ([\d.]+) to ([\d.]+)x as many steps .* that is ([\d.]+)x", said)
        assert sooner is not None
        self.assertTrue(1 < float(sooner[1]) < float(sooner[2]))
        self.assertGreater(float(sooner[3]), 1)

    def test_memory_grows_with_what_is_kept(self) -> None:
        """Of processes with 10 million parameters on 4 ranks, which grew by so many bytes."""
        grown = {
            "gradients dense reduce=halving-doubling values=f32": 8.1,
            "gradients dense reduce=halving-doubling values=f16": 26.5,
            "gradients union density=10% values=f32": 14.4,
            "gradients union density=50% values=f32": 52.1,
            "gradients srs density=10% values=f32": 19.1,
            "gradients shared/star density=10% values=f32": 14.9,
            "updates every=1 late=0 union density=1%": 8.45,
            "updates every=1 late=0 union density=50% values=f32": 37.4,
            "updates every=1 late=2 union density=50% values=f32": 58.6,
            "updates every=4 late=1 dense reduce=halving-doubling values=f16": 31.8,
            "updates every=1 late=2 dense values=f32": 24.5,
            "updates every=2 late=0 srs density=20% values=f32": 22.3,
        }
        for plan, measured in grown.items():
            asked = ["--params", "10M", "--ranks", "4", "--link", "1gbit,1ms", "--compute", "100ms"]
            document = json.loads(run(*asked, "--costs", "none", "--plan", plan, "--json").stdout)
            said = document["best"]["memory_bytes_per_parameter"]
            self.assertAlmostEqual(said, measured, delta=0.15 * measured, msg=plan)

    def test_models_by_name(self) -> None:
        asked = ["--compute", "120ms", "--costs", BASE[-1], "--ranks", "8", "--link", "1gbit,1ms"]
        named = run(*asked, "--model", "gpt2", "--json").stdout
        typed = run(*asked, "--params", "124.439808M", "--json").stdout
        self.assertEqual(json.loads(named), json.loads(typed))

    def test_pins_hold(self) -> None:
        document = json.loads(
            run(
                *BASE,
                "--ranks",
                "8",
                "--link",
                "1gbit,1ms",
                "--plan",
                "gradients union density=1%",
                "--json",
            ).stdout
        )
        self.assertIn("gradients union", document["best"]["plan"])
        self.assertIn("density=1%", document["best"]["plan"])

    def test_sweep_covers_all_links(self) -> None:
        rows = json.loads(run(*BASE, "--ranks", "4", "--sweep", "--json").stdout)["sweep"]
        self.assertEqual(len({r["link"] for r in rows}), 20)

    def test_unequal_hosts(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "hosts.toml"
            path.write_text(
                '[[host]]\nlink = "1gbit,1ms"\nranks = 7\n[[host]]\nlink = "50mbit,5ms"\n'
            )
            unequal = json.loads(run(*BASE, "--links", str(path), "--json").stdout)
        equal = json.loads(run(*BASE, "--ranks", "8", "--link", "1gbit,1ms", "--json").stdout)
        self.assertGreater(unequal["plain"]["step_seconds"], 5 * equal["plain"]["step_seconds"])

    def test_many_ranks(self) -> None:
        done = run(*BASE, "--ranks", "512", "--link", "10gbit,1ms")
        self.assertEqual(done.returncode, 0, done.stderr)


class FromLog(unittest.TestCase):
    """A run of 20 steps on 4 ranks, 11 of them under union."""

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name) / "run.jsonl"

    def write(self, tail: str = "", **header: object) -> None:
        first = {"type": "header", "t": 0, "format": "pliant-run-log", "version": 1, "world": 4, "lanes": 1, "parameters": 5_000_000, "buckets": [5_000_000],
                 "optimizer": "sgd", "costs": Path(BASE[-1]).read_text(), **header}  # fmt: skip
        lines = [first]
        for step in range(20):
            sparse = step >= 9
            # Computing took 30 ms but for two steps at the beginning.
            lines.append({"type": "step", "t": step, "step": step, "plan": "gradients union density=1% values=f16" if sparse else "gradients dense", "compute": 0.9 if step < 2 else 0.03,
                          "whole": None if step == 19 else 0.05, "gain": 0.25 if sparse else 1, "updated": 0.01 if sparse else 1,
                          "link": {"latency": 0.005, "latency_sd": 1e-4, "rate": 1e8, "rate_sd": 1e6} if step > 5 else None})  # fmt: skip
            lines.append({"type": "something new", "t": step})
        self.path.write_text("".join(json.dumps(line) + "\n" for line in lines) + tail)

    def answer(self, *options: str) -> dict:
        done = run("--log", str(self.path), "--json", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_is_the_same_as_typing_it(self) -> None:
        self.write()
        typed = json.loads(
            run(
                "--params",
                "5M",
                "--ranks",
                "4",
                "--link",
                "100mbit,5ms",
                "--compute",
                "30ms",
                "--costs",
                BASE[-1],
                "--json",
            ).stdout
        )
        logged = self.answer()
        self.assertEqual(logged["plain"], typed["plain"])
        dense = [
            next(s for s in each["schemes"] if s["scheme"] == "dense") for each in (logged, typed)
        ]
        self.assertEqual(*dense)

    def test_what_is_typed_beside_it_wins(self) -> None:
        self.write()
        link = self.answer("--link", "1gbit,1ms")
        self.assertLess(link["plain"]["step_seconds"], self.answer()["plain"]["step_seconds"] / 5)
        self.assertGreater(
            self.answer("--ranks", "16")["plain"]["bytes_per_step"], link["plain"]["bytes_per_step"]
        )
        self.assertGreater(self.answer("--compute", "10s")["plain"]["step_seconds"], 10)
        self.assertNotIn("last_plan", link["log"])

    def test_gain_and_overlap_are_the_run_s(self) -> None:
        self.write()
        document = self.answer("--plan", "union density=1%")
        self.assertEqual(document["log"]["gain"], [{"density": 0.01, "gain": 0.25}])
        self.assertEqual(document["log"]["overlap"], 1)
        self.assertEqual(
            (document["best"]["gain"], document["best"]["updated_fraction"]), (0.25, 0.01)
        )

    def test_it_says_how_well_the_model_explains_the_run(self) -> None:
        self.write()
        log = self.answer()["log"]
        self.assertIn("gradients union density=1%", log["last_plan"])
        self.assertEqual((log["last_step_seconds"], log["steps"]), (0.05, 20))
        self.assertGreater(log["last_step_predicted_seconds"], 0.03)
        self.assertIn("It ended with gradients union", run("--log", str(self.path)).stdout)

    def test_a_run_that_crashed_is_read_up_to_its_last_line(self) -> None:
        self.write(tail='{"type": "step", "plan": "gradi')
        self.assertEqual(self.answer()["log"]["steps"], 20)

    def test_adam_lanes_and_buckets_are_the_run_s(self) -> None:
        self.write()
        often = "updates every=1 late=1 density=10%"
        sgd = self.answer("--plan", often)["best"]["efficiency"]
        self.write(optimizer="adam")
        self.assertLess(self.answer("--plan", often)["best"]["efficiency"], sgd)
        steps = []
        for lanes in (0, 1):
            self.write(lanes=lanes, buckets=[1_000_000] * 5)
            steps.append(
                self.answer(
                    "--plan", "gradients dense reduce=ring fuse=bucket", "--link", "10gbit,1ms"
                )["best"]["step_seconds"]
            )
        self.assertGreater(
            steps[0], 1.15 * steps[1]
        )  # with a lane, all but the last bucket travels during backward


class Refusals(unittest.TestCase):
    def test_each_names_its_culprit(self) -> None:
        good = {
            "--params": "25.6M",
            "--ranks": "8",
            "--link": "1gbit,1ms",
            "--compute": "120ms",
            "--costs": "none",
        }
        cases = [
            ({"--params": "25.6MB"}, "--params: '25.6MB'"),
            ({"--params": "0"}, "--params: '0'"),
            ({"--params": None}, "--params: it is needed"),
            ({"--ranks": "0x"}, "--ranks"),
            ({"--ranks": "-3"}, "--ranks: -3"),
            ({"--ranks": None}, "--ranks: it is needed"),
            ({"--link": "1gbit"}, "--link: '1gbit' is not bandwidth,latency"),
            ({"--link": "1gbps,1ms"}, "--link"),
            ({"--link": None}, "--link: it is needed"),
            (
                {"--compute": None},
                "--compute: it is needed, as in --compute 120ms: what a step takes",
            ),
            ({"--compute": None}, "Time steps of your script with one process"),
            ({"--params": "resnet50"}, "--params: 'resnet50' is a model; say --model resnet50"),
            ({"--params": None, "--model": "resnet5"}, "did you mean 'resnet50'?"),
            ({"--model": "gpt2"}, "--model: it says what --params would"),
            ({"--compute": "120"}, "--compute"),
            ({"--compute": "0ms"}, "--compute: '0ms'"),
            ({"--plan": "gradients unoin"}, "unknown word 'unoin'"),
            ({"--policy": "best"}, "--policy: 'best'"),
            ({"--p": "2"}, "--p: 2"),
            ({"--lanes": "-1"}, "--lanes: -1"),
            ({"--costs": "/nowhere/costs.json"}, "/nowhere/costs.json"),
            ({"--links": "/nowhere.toml"}, "--links"),
            (
                {"--links": "/nowhere.toml", "--link": None, "--ranks": None},
                "cannot read '/nowhere.toml'",
            ),
            ({"--parms": "3"}, "did you mean '--params'?"),
            ({"--log": "run.jsonl"}, "--log"),
        ]
        for change, culprit in cases:
            options = [
                word
                for key, value in (good | change).items()
                if value is not None
                for word in (key, value)
            ]
            with self.subTest(options):
                done = run(*options)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertIn(culprit, done.stderr)
                self.assertTrue(done.stderr.startswith("pliant-plan: "), done.stderr)

    def test_bad_host_files(self) -> None:
        cases = [
            ("", "there is no [[host]]"),
            ("[[host]]\nlnk = 1\n", "did you mean 'link'?"),
            ("[[host]]\nranks = 2\n", "a host has no link"),
            ('[[host]]\nlink = "fast"\n', "'fast' is not bandwidth,latency"),
            ('[[host]]\nlink = "1gbit,1ms"\nranks = 0\n', "0 ranks on a host"),
            ("[[host]\n", "line 1"),
            ("hosts = 3\n", "'hosts' is not known"),
        ]
        for text, culprit in cases:
            with self.subTest(text), tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "hosts.toml"
                path.write_text(text)
                done = run(*BASE, "--links", str(path))
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(culprit, done.stderr)


if __name__ == "__main__":
    TOOL = sys.argv.pop(1)
    with tempfile.TemporaryDirectory() as costs:
        write_costs(Path(costs) / "costs.json")
        BASE.append(str(Path(costs) / "costs.json"))
        unittest.main()
