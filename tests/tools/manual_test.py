# SPDX-License-Identifier: MIT
"""Every option that a tool's --help names has its place in the manual, and the manual names no
other; bash completes them.

Usage: manual_test.py PLIANT_LAB PLIANT_BENCH PLIANT_PLAN   (with the package on PYTHONPATH)"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MAN = Path(__file__).resolve().parents[2] / "man"
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
LAB_COMMANDS = [
    "run",
    "mpirun",
    "shell",
    "exec",
    "set",
    "down",
    "up",
    "phase",
    "status",
    "timelines",
]
PACKAGE = [sys.executable, "-m", "pliant"]
PAGES: dict[str, list[list[str]]] = {}  # the commands whose help a page is about


def output(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def helped(command: list[str]) -> set[str]:
    """Options stand at the beginning of a line of the help, perhaps several."""
    found: set[str] = set()
    for line in output([*command, "--help"]).splitlines():
        if match := re.match(r"\s{1,4}(-\S+(?:,? +-\S+| [A-Z][A-Z_,=|\[\]{}]*)*)", line):
            found |= set(OPTION.findall(match[1]))
    return found


def documented(page: Path) -> set[str]:
    lines = page.read_text().replace(r"\-", "-").splitlines()
    tags = [line for before, line in zip(lines, lines[1:]) if before == ".TP"]
    return {
        option
        for tag in tags
        for option in OPTION.findall(re.sub(r'^\.\w+|\\f\w|"', " ", tag))
        if option != "--"
    }


class Manual(unittest.TestCase):
    def test_options_are_those_of_the_help(self) -> None:
        self.assertEqual(set(PAGES) | {"pliant.1"}, {page.name for page in MAN.glob("*.1")})
        for page, commands in PAGES.items():
            with self.subTest(page):
                options = set().union(*(helped(command) for command in commands))
                self.assertIn("--help", options)
                self.assertEqual(documented(MAN / page), options)

    def test_the_command_has_a_page_for_each_of_its_commands(self) -> None:
        names = set(re.findall(r"^  ([a-z]+) {2,}", output([*PACKAGE, "--help"]), re.MULTILINE)) - {
            "pliant"
        }
        self.assertEqual(
            {f"pliant-{name}.1" for name in names} | {"pliant.1"},
            {page.name for page in MAN.glob("*.1")},
        )
        text = (MAN / "pliant.1").read_text()
        for name in names:
            self.assertIn(f"pliant\\-{name} (1)", text)

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_pages_are_good_roff(self) -> None:
        for page in MAN.glob("*.1"):
            done = subprocess.run(
                ["groff", "-man", "-ww", "-z", str(page)],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual((done.returncode, done.stderr), (0, ""), page.name)


class Completion(unittest.TestCase):
    def complete(self, *words: str) -> set[str]:
        script = f'. {MAN / "completion.bash"}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pliant; printf "%s\\n" "${{COMPREPLY[@]}}"'
        with tempfile.TemporaryDirectory() as folder:
            link = Path(folder) / "pliant"
            link.write_text(f'#!/bin/sh\nexec {sys.executable} -m pliant "$@"\n')
            link.chmod(0o755)
            return set(
                output(
                    ["bash", "-c", script, "bash", *words], PATH=f"{folder}:{os.environ['PATH']}"
                ).split()
            )

    def test_words(self) -> None:
        self.assertEqual(self.complete("pliant", "d"), {"demo", "doctor"})
        self.assertEqual(self.complete("pliant", "plan", "--par"), {"--params"})
        self.assertEqual(self.complete("pliant", "doctor", "--j"), {"--json"})
        self.assertEqual(self.complete("pliant-plan", "--lin"), {"--link", "--links"})
        self.assertEqual(self.complete("pliant-bench", "--show"), {"--show"})
        self.assertEqual(self.complete("pliant-lab", "st"), {"status"})
        self.assertEqual(self.complete("pliant", "lab", "ti"), {"timelines"})
        self.assertEqual(self.complete("pliant", "lab", "run", "--scale-t"), {"--scale-time"})
        self.assertEqual(self.complete("pliant-lab", "run", "--", "--sc"), set())
        self.assertTrue(self.complete("pliant-lab", "timelines", ""))


if __name__ == "__main__":
    lab, bench, plan = sys.argv[1:4]
    del sys.argv[1:4]
    os.environ["PATH"] = os.pathsep.join(
        [*(str(Path(tool).parent) for tool in (lab, bench, plan)), os.environ["PATH"]]
    )
    PAGES |= {
        "pliant-plan.1": [[plan]],
        "pliant-bench.1": [[bench]],
        "pliant-lab.1": [[lab], *([lab, command] for command in LAB_COMMANDS)],
    }
    PAGES |= {
        f"pliant-{name}.1": [[*PACKAGE, name]] for name in ("doctor", "report", "watch", "demo")
    }
    unittest.main()
