# SPDX-License-Identifier: MIT
"""Tests that scripts/coverage counts lines as gcov does, names those that did not run, and fails
below its limit."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "coverage"
CODE = """\
int half(int x) {
  if (x % 2 == 0) return x / 2;
  x += 1;
  x *= 3;
  return x;
}
int main() { return half(0); }
"""


class Coverage(unittest.TestCase):
    def test_counts_and_fails(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "pliant/a").mkdir(parents=True)
            (root / "pliant/a/x.cc").write_text(CODE)
            (root / "pliant/a/x_test.cc").write_text("int unused() { return 1; }\n")
            build = ["g++", "--coverage", "-o", "x", "pliant/a/x.cc", "pliant/a/x_test.cc"]
            subprocess.run(build, cwd=root, check=True)

            def coverage(least: str) -> "subprocess.CompletedProcess[str]":
                command = [sys.executable, str(SCRIPT), folder, least]
                return subprocess.run(command, capture_output=True, text=True)

            self.assertIn("have its tests run?", coverage("10").stderr)
            subprocess.run([root / "x"], cwd=root, check=True)
            done = coverage("10")
            self.assertEqual(done.returncode, 0, done)
            self.assertIn("pliant/a/x.cc: 3-5\n", done.stdout)  # 3 of 6 lines
            self.assertIn(" 50.0 %\n", done.stdout)
            self.assertNotIn("x_test.cc", done.stdout)
            self.assertEqual(coverage("60").returncode, 1)


if __name__ == "__main__":
    unittest.main()
