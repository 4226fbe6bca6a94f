# SPDX-License-Identifier: MIT
"""Tests that scripts/check_hacking finds what it looks for, and passes what is right."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
WALK = "".join(f"`pliant/a/x.cc:f{i}` " for i in range(10))


def run(script: str, *arguments: object) -> tuple[int, str]:
    command = [sys.executable, SCRIPTS / script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout


class CheckHacking(unittest.TestCase):
    def tree(self, hacking: str) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "pliant/a").mkdir(parents=True)
            (root / "python/pliant").mkdir(parents=True)
            code = "".join(f"void f{i}(int x) {{\n  called(x);\n}}\n" for i in range(10))
            (root / "pliant/a/x.cc").write_text(code)
            (root / "README.md").write_text("")
            (root / "HACKING.md").write_text(hacking)
            return run("check_hacking", root)

    def test_passes_what_is_right(self) -> None:
        self.assertEqual(self.tree(f"`pliant/a/` {WALK}")[0], 0)

    def test_names_what_does_not_exist(self) -> None:
        for wrong in ("`pliant/b/y.cc`", "`pliant/a/x.cc:gone`", "`pliant/a/x.cc:called`"):
            code, said = self.tree(f"`pliant/a/` {WALK} {wrong}")
            self.assertEqual(code, 1, wrong)
            self.assertIn(wrong.strip("`"), said)

    def test_names_a_folder_that_is_left_out(self) -> None:
        self.assertEqual(self.tree(WALK), (1, "HACKING.md leaves out pliant/a/\n"))


if __name__ == "__main__":
    unittest.main()
