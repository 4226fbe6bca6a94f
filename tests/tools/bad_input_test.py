# SPDX-License-Identifier: MIT
"""What every tool does with what it cannot use: it names the culprit on stderr, suggests the word
that was meant, says nothing on stdout, leaves nothing behind, and ends with the documented status.

Usage: bad_input_test.py PLIANT_LAB PLIANT_BENCH PLIANT_PLAN   (with the package on PYTHONPATH)"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path

BAD_INPUT, MISSING = 2, 6
TOOLS: dict[str, list[str]] = {}

COSTS = {"pliant_costs": 1, "costs": []}
HEADER = {
    "type": "header", "t": 0, "format": "pliant-run-log", "version": 1, "name": "run", "started": 0, "mono": 0, "versions": {}, "command": [], "rank": 0, "world": 4,
    "lanes": 1, "parameters": 1000, "layout": "0" * 16, "options": {}, "optimizer": "sgd", "costs": json.dumps(COSTS), "buckets": [1000],
}  # fmt: skip
STEP = {
    "type": "step",
    "t": 1,
    "step": 0,
    "plan": "gradients dense",
    "epoch": 0,
    "whole": 0.02,
    "compute": 0.01,
}


def lines(*objects: object) -> str:
    return "".join(json.dumps(each) + "\n" for each in objects)


# What lies in the folder in which every tool is run.
FILES = {
    "empty": "",
    "text": "these are words\n",
    "run.jsonl": lines(HEADER, STEP),
    "headless.jsonl": lines(STEP),
    "future.jsonl": lines(HEADER | {"version": 99}),
    "truncated.jsonl": lines(HEADER)[:100],
    "broken.jsonl": lines(HEADER) + '{"type": "st\n' + lines(STEP),
    "stepless.jsonl": lines(HEADER),
    "worldless.jsonl": lines({key: value for key, value in HEADER.items() if key != "world"}, STEP),
    "textual.jsonl": lines(HEADER, STEP | {"compute": "fast"}),
    "planless.jsonl": lines(HEADER, STEP | {"plan": "gradients unoin density=1%"}),
    "costs.future": json.dumps(COSTS | {"pliant_costs": 2}),
    "costs.truncated": json.dumps(COSTS)[:20],
    "hosts.unknown": '[[host]]\nlnik = "1gbit,1ms"\n',
    "hosts.truncated": "[[host]\n",
    "hosts.mbps": '[[host]]\nlink = "100mbps,1ms"\n',
    "timeline.unknown.toml": '[[phase]]\nname = "a"\nat = "0s"\nlikn = "1mbit,1ms"\n',
    "timeline.truncated.toml": '[[phase]]\nname = "a',
    "timeline.empty.toml": "",
    "timeline.units.toml": '[[phase]]\nname = "a"\nat = "0"\nlink = "1mbit,1ms"\n',
    "timeline.empty.csv": "",
    "timeline.bad.csv": "seconds,colour\n0,red\n",
}


@dataclass(frozen=True)
class Row:
    tool: str
    arguments: str  # as in a shell
    culprits: tuple[str, ...]  # all of them in what it says
    status: int = BAD_INPUT


def row(tool: str, arguments: str, *culprits: str, status: int = BAD_INPUT) -> Row:
    return Row(tool, arguments, culprits, status)


PLAN = "--params 1M --ranks 4 --link 1gbit,1ms --compute 10ms --costs none"
ISLANDS = "--params 1M --compute 10ms --link 1gbit,1ms"

ROWS = [
    # pliant
    row("pliant", "", "usage: pliant COMMAND"),
    row("pliant", "docter", "unknown command 'docter'", "did you mean 'doctor'?"),
    row("pliant", "frobnicate", "unknown command 'frobnicate'", "there are: plan"),
    row("pliant", "--verison", "unknown option '--verison'", "did you mean '--version'?"),
    row("pliant", "plan --parms 3", "unknown option '--parms'", "did you mean '--params'?"),
    # pliant doctor
    row("pliant", "doctor --jsn", "unknown option '--jsn'", "did you mean '--json'?"),
    row("pliant", "doctor here", "'here'"),
    row("pliant", "doctor --link", "--link"),
    row("pliant", "doctor --link 1gbit", "--link: '1gbit' is not bandwidth,latency"),
    row("pliant", "doctor --link 100mbps,1ms", "--link: '100mbps'", "100mbit"),
    row("pliant", "doctor --link 100,1ms", "--link: '100' has no unit"),
    row("pliant", "doctor --link 1gbit,0ms", "--link: '0ms' must be above 0"),
    row("pliant", "doctor --device", "--device"),
    row("pliant", "doctor --device gpu", "--device: 'gpu' is no device of this PyTorch"),
    row("pliant", "doctor --device cuda:99", "cuda:99 is not here", status=MISSING),
    # pliant-plan: what is typed
    row("plan", "", "--ranks: it is needed"),
    row("plan", PLAN + " --params 25.6MB", "--params"),
    row(
        "plan", "--params 1MB --ranks 4 --link 1gbit,1ms --compute 10ms", "--params: '1MB'", "25.6M"
    ),
    row("plan", "--params 0 --ranks 4 --link 1gbit,1ms --compute 10ms", "--params: '0'"),
    row("plan", "--params 1M --ranks 0 --link 1gbit,1ms --compute 10ms", "--ranks: 0"),
    row("plan", "--params 1M --ranks 9999 --link 1gbit,1ms --compute 10ms", "--ranks: 9999"),
    row("plan", "--params 1M --ranks four --link 1gbit,1ms --compute 10ms", "--ranks", "four"),
    row(
        "plan",
        "--params 1M --ranks 4 --link 100mbps,1ms --compute 10ms",
        "--link",
        "'100mbps'",
        "'mbps' and 'MB' mean two things",
    ),
    row("plan", "--params 1M --ranks 4 --link 100MB,1ms --compute 10ms", "--link", "'100MB'"),
    row("plan", "--params 1M --ranks 4 --link 1000,1ms --compute 10ms", "--link", "has no unit"),
    row(
        "plan",
        "--params 1M --ranks 4 --link 1gbit --compute 10ms",
        "--link: '1gbit' is not bandwidth,latency",
    ),
    row(
        "plan", "--params 1M --ranks 4 --link 1gbit,1ms --compute 10", "--compute: '10' has no unit"
    ),
    row("plan", "--params 1M --ranks 4 --link 1gbit,1ms --compute=-1ms", "--compute: '-1ms'"),
    row("plan", PLAN + " --plan 'gradients unoin'", "unknown word 'unoin'", "union"),
    row("plan", PLAN + " --plan 'gradients union density=1'", "density=1"),
    row("plan", PLAN + " --plan 'gradients late=2'", "late"),
    row("plan", PLAN + " --model resnet50", "--model", "leave one out"),
    row("plan", PLAN.replace("--params", "--model"), "--model: ", "is not known"),
    row("plan", "--params 1M --ranks 4 --link 1gbit,1ms", "--compute: it is needed", "one process"),
    row("plan", PLAN + " --goal quality", "--goal: 'quality'"),
    row("plan", PLAN + " --policy best", "--policy: 'best'"),
    row("plan", PLAN + " --p 7", "--p: 7"),
    row("plan", PLAN + " --lanes -1", "--lanes: -1"),
    row("plan", PLAN + " --sweep", "--sweep", "leave --link out"),
    row("plan", PLAN + " --json --csv", "--json", "--csv"),
    row("plan", PLAN + " --gradients-only --plan updates", "--gradients-only"),
    row("plan", PLAN + " extra", "'extra' is not an option"),
    row("plan", PLAN + " --links hosts.unknown", "--links", "leave those out"),
    row("plan", ISLANDS + " --islands 2x", "--islands: '2x' is not islands x ranks", "2x4"),
    row("plan", ISLANDS + " --islands 0x4", "--islands: '0x4'"),
    row("plan", ISLANDS + " --islands 4096x2", "--islands: '4096x2'", "4096 ranks in all"),
    row("plan", ISLANDS + " --islands 2x4", "--inside: it is needed", "25gbit,20us"),
    row("plan", ISLANDS + " --islands 2x4 --inside 5mbps", "--inside: '5mbps'"),
    row("plan", PLAN + " --inside 25gbit,20us", "--inside: it goes with --islands"),
    row("plan", PLAN + " --islands 2x4", "--islands", "leave those out"),
    row("plan", ISLANDS + " --islands 2x4 --sweep", "--sweep", "leave --islands out"),
    row("plan", ISLANDS + " --islands 2x4 --gradients-only", "--gradients-only", "updates"),
    row(
        "plan",
        ISLANDS + " --islands 2x4 --inside 25gbit,20us --plan gradients",
        "--plan: islands exchange updates",
    ),
    # pliant-plan: files
    row("plan", "--params 1M --compute 10ms --links nowhere.toml", "nowhere.toml", "No such file"),
    row("plan", "--params 1M --compute 10ms --links empty", "--links: empty", "no [[host]]"),
    row(
        "plan",
        "--params 1M --compute 10ms --links hosts.unknown",
        "hosts.unknown",
        "'lnik'",
        "did you mean 'link'?",
    ),
    row("plan", "--params 1M --compute 10ms --links hosts.truncated", "hosts.truncated, line 1"),
    row("plan", "--params 1M --compute 10ms --links hosts.mbps", "hosts.mbps", "'100mbps'"),
    row("plan", "--params 1M --compute 10ms --links .", "'.' is a folder"),
    row("plan", PLAN.replace("none", "nowhere.json"), "--costs", "nowhere.json"),
    row("plan", PLAN.replace("none", "empty"), "--costs: 'empty'", "not JSON"),
    row("plan", PLAN.replace("none", "costs.truncated"), "--costs: 'costs.truncated'", "not JSON"),
    row(
        "plan",
        PLAN.replace("none", "costs.future"),
        "--costs: 'costs.future'",
        "version 2, this program reads 1",
    ),
    row("plan", "--log nowhere.jsonl", "--log", "nowhere.jsonl"),
    row("plan", "--log empty", "--log: 'empty' is empty"),
    row("plan", "--log text", "--log: 'text', line 1", "no run log"),
    row("plan", "--log headless.jsonl", "'headless.jsonl', line 1", "no header"),
    row("plan", "--log future.jsonl", "'future.jsonl', line 1", "version 99", "reads 1"),
    row("plan", "--log truncated.jsonl", "'truncated.jsonl', line 1"),
    row("plan", "--log broken.jsonl", "'broken.jsonl', line 2"),
    row("plan", "--log stepless.jsonl", "'stepless.jsonl'", "no step"),
    row("plan", "--log worldless.jsonl", "'worldless.jsonl', line 1", "world"),
    row("plan", "--log textual.jsonl", "'textual.jsonl', line 2"),
    row("plan", "--log planless.jsonl", "'planless.jsonl', line 2", "'unoin'"),
    row("plan", "--log run.jsonl", "'run.jsonl'", "give --link"),
    # pliant-bench
    row("bench", "--local 0", "--local"),
    row("bench", "--local 2 -b 8MB", "-b", "8MB", "'MB' means two things"),
    row("bench", "--local 2 -b 0", "-b", "'0'"),
    row("bench", "--local 2 -b 1M -e 1K", "-e"),
    row("bench", "--local 2 -f 1", "-f"),
    row("bench", "--local 2 -n many", "--iters", "many"),
    row(
        "bench",
        "--local 2 --colective all",
        "unknown option '--colective'",
        "did you mean '--collective'?",
    ),
    row(
        "bench",
        "--local 2 --collective all-redcue",
        "--collective",
        "'all-redcue'",
        "did you mean 'all-reduce'?",
    ),
    row("bench", "--local 2 --schedule rign", "--schedule", "'rign'", "did you mean 'ring'?"),
    row("bench", "--show rign", "--show", "'rign'"),
    row("bench", "--local 2 --scheme unoin", "--scheme", "'unoin'", "did you mean 'union'?"),
    row("bench", "--local 2 --scheme union --density 1", "--density"),
    row("bench", "--local 2 --scheme union --values int7", "--values", "'int7'"),
    row("bench", "--local 2 --density 1%", "--density", "needs --scheme"),
    row("bench", "--local 2 --scheme union --schedule ring", "--schedule"),
    row("bench", "--local 2 --plan 'updates every=2 union density=1%'", "--plan"),
    row("bench", "--local 2 --link 10gbps,1us", "--link", "10gbps"),
    row("bench", "--local 2 --deadline 5", "--deadline", "no unit"),
    row("bench", "--local 2 --root 2 --collective broadcast", "--root", "2"),
    row("bench", "--local 2 --params 1M", "--params", "needs --scheme or --plan"),
    # pliant-lab
    row("lab", "", "pliant-lab"),
    row("lab", "rnu --hosts 2 -- true", "unknown command 'rnu'", "did you mean 'run'?"),
    row("lab", "run --hsots 2 -- true", "unknown option '--hsots'", "did you mean '--hosts'?"),
    row("lab", "run --hosts 0 -- true", "--hosts: 0"),
    row("lab", "run --hosts two -- true", "--hosts", "two"),
    row("lab", "run --ranks-per-host 0 -- true", "--ranks-per-host: 0"),
    row("lab", "run --ranks-per-host few -- true", "--ranks-per-host", "few"),
    row("lab", "mpirun --ranks-per-host 2 -- true", "--ranks-per-host"),
    row("lab", "run --hosts 2", "no command"),
    row("lab", "run --hosts 2 -- no-such-program", "'no-such-program'"),
    row("lab", "run --link 100mbps -- true", "--link", "100mbps"),
    row("lab", "run --link 100 -- true", "--link", "100"),
    row("lab", "run --host 7=1mbit -- true", "--host", "7"),
    row("lab", "run --timeline nowhere.toml -- true", "nowhere.toml"),
    row("lab", "run --timeline wify -- true", "wify", "did you mean 'wifi'?"),
    row(
        "lab",
        "run --timeline timeline.unknown.toml -- true",
        "timeline.unknown.toml",
        "'likn'",
        "did you mean 'link'?",
    ),
    row("lab", "run --timeline timeline.truncated.toml -- true", "timeline.truncated.toml"),
    row("lab", "run --timeline timeline.empty.toml -- true", "timeline.empty.toml"),
    row("lab", "run --timeline timeline.units.toml -- true", "timeline.units.toml", "unit"),
    row("lab", "run --timeline timeline.empty.csv -- true", "timeline.empty.csv"),
    row("lab", "run --timeline timeline.bad.csv -- true", "timeline.bad.csv"),
    row("lab", "run --scale-time 0 -- true", "--scale-time"),
    row("lab", "run --mtu 9 -- true", "--mtu", "9"),
    row("lab", "run --timeout 10 -- true", "--timeout", "no unit"),
    row("lab", "run --timeout 0s -- true", "--timeout"),
    row("lab", "run --truth nowhere/truth.jsonl -- true", "--truth", "nowhere/truth.jsonl"),
    row("lab", "run --truth . -- true", "--truth", "'.'"),
    row("lab", "timelines wify", "'wify'", "did you mean 'wifi'?"),
]

# By the module that each needs.
OF_MODULES = {
    "pliant.report.cli": [
        row("pliant", "report", "run.jsonl"),
        row("pliant", "report nowhere.jsonl -o new.html", "nowhere.jsonl"),
        row("pliant", "report empty -o new.html", "empty"),
        row("pliant", "report text -o new.html", "text"),
        row("pliant", "report headless.jsonl -o new.html", "headless.jsonl"),
        row("pliant", "report future.jsonl -o new.html", "future.jsonl", "99"),
        row("pliant", "report truncated.jsonl -o new.html", "truncated.jsonl"),
        row("pliant", "report run.jsonl -o nowhere/new.html", "nowhere"),
        row("pliant", "report run.jsonl -o .", "."),
        row("pliant", "report run.jsonl --truth nowhere.jsonl -o new.html", "nowhere.jsonl"),
        row("pliant", "report run.jsonl --outptu new.html", "--outptu", "--output"),
        row("pliant", "report run.jsonl run.jsonl -o new.html", "run.jsonl", "twice"),
        row("pliant", "report run.jsonl -o run.jsonl", "run.jsonl"),
        row("pliant", "report run.jsonl --md --json", "--md", "--json"),
    ],
    "pliant.watch.cli": [
        row("pliant", "watch", "run.jsonl"),
        row("pliant", "watch nowhere.jsonl --once", "nowhere.jsonl"),
        row("pliant", "watch empty --once", "empty"),
        row("pliant", "watch future.jsonl --once", "future.jsonl", "99"),
        row("pliant", "watch text --once", "text"),
        row("pliant", "watch . --timeout 1s", "."),
        row("pliant", "watch run.jsonl --steps 0", "--steps", "'0'"),
        row("pliant", "watch run.jsonl --every 0s", "--every"),
        row("pliant", "watch run.jsonl --onec", "--onec", "--once"),
    ],
    "pliant.demo.cli": [
        row("pliant", "demo --stesp 20", "--stesp"),
        row("pliant", "demo here", "here"),
        row("pliant", "demo --hosts 1", "--hosts 1", "from 2"),
        row("pliant", "demo --steps 3", "--steps 3", "from 10"),
        row("pliant", "demo --seconds soon", "--seconds", "soon"),
        row("pliant", "demo --quick --steps 50", "--quick"),
        row("pliant", "demo --out text", "--out text"),
        row("pliant", "demo --hosts four", "--hosts", "four"),
    ],
}


def there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def run(row: Row, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TOOLS[row.tool], *shlex.split(row.arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
        stdin=subprocess.DEVNULL,
    )


class BadInput(unittest.TestCase):
    def check(self, row: Row) -> None:
        with self.subTest(f"{row.tool} {row.arguments}"), tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for path, text in FILES.items():
                (folder / path).write_text(text)
            done = run(row, folder)
            said = done.stdout + done.stderr
            self.assertEqual(done.returncode, row.status, said)
            self.assertEqual(done.stdout, "")
            for culprit in row.culprits:
                self.assertIn(culprit, done.stderr)
            for trace in ("Traceback", "terminate called", "what():", "core dumped"):
                self.assertNotIn(trace, said)
            self.assertLess(len(done.stderr.splitlines()), 25, "that is more than anybody reads")
            self.assertEqual(
                {path.name: path.read_text() for path in folder.iterdir()},
                FILES,
                "something was left behind",
            )

    def test_programs(self) -> None:
        self.assertGreaterEqual(len(ROWS), 60)
        for each in ROWS:
            self.check(each)

    def test_modules(self) -> None:
        for module, rows in OF_MODULES.items():
            if not there(module):
                print(f"skipped: {module} is not here", file=sys.stderr)
                continue
            for each in rows:
                self.check(each)


class FullDisk(unittest.TestCase):
    """What cannot be printed is a failure, not a silence."""

    def test_output_that_is_lost(self) -> None:
        cases = {"plan": PLAN, "bench": "--show ring", "lab": "timelines", "pliant": "--help"}
        for tool, arguments in cases.items():
            with self.subTest(tool), open("/dev/full", "w") as full:
                done = subprocess.run(
                    [*TOOLS[tool], *shlex.split(arguments)],
                    stdout=full,
                    stderr=subprocess.PIPE,
                    text=True,
                    timeout=60,
                )
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("No space left", done.stderr)
                self.assertNotIn("Traceback", done.stderr)


class Alike(unittest.TestCase):
    """--help and --version: on stdout, status 0, the same version everywhere."""

    def test_help_and_version(self) -> None:
        versions = set()
        for tool, command in TOOLS.items():
            for option in ("--help", "--version"):
                done = subprocess.run(
                    [*command, option], capture_output=True, text=True, timeout=60
                )
                self.assertEqual((done.returncode, done.stderr), (0, ""), (tool, option))
                self.assertTrue(done.stdout)
            versions.add(done.stdout.split()[1])
        self.assertEqual(len(versions), 1, versions)

    def test_the_help_of_the_command_fits_on_a_screen(self) -> None:
        text = subprocess.run(
            [*TOOLS["pliant"], "--help"], capture_output=True, text=True, timeout=60
        ).stdout.splitlines()
        self.assertLessEqual(len(text), 24)
        self.assertLessEqual(max(map(len, text)), 80)
        self.assertTrue(all(line.startswith("  pliant ") for line in text[:3]), text[:3])


if __name__ == "__main__":
    lab, bench, plan = sys.argv[1:4]
    del sys.argv[1:4]
    TOOLS |= {
        "lab": [lab],
        "bench": [bench],
        "plan": [plan],
        "pliant": [sys.executable, "-m", "pliant"],
    }
    os.environ["PATH"] = os.pathsep.join(
        [*(str(Path(tool).parent) for tool in (lab, bench, plan)), os.environ["PATH"]]
    )
    unittest.main()
