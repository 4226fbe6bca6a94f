# SPDX-License-Identifier: MIT
"""scripts/check_layers accepts what the design allows and fails on what it does not."""

import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "check_layers"


def verdict(source: str, included: str) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as root:
        file = Path(root) / source
        file.parent.mkdir(parents=True)
        file.write_text(f'#include "{included}"\n')
        done = subprocess.run([SCRIPT, root], capture_output=True, text=True, timeout=30)
        return done.returncode, done.stdout


class CheckLayers(unittest.TestCase):
    def test_allowed_edges_pass(self):
        for source, included in [
            ("pliant/compress/x.cc", "pliant/kernels/y.h"),
            ("pliant/kernels/x.cc", "pliant/common/y.h"),
            ("pliant/engine/x.cc", "pliant/control/y.h"),
            ("pliant/comm/mpi/x.cc", "pliant/comm/communicator.h"),
            ("pliant/comm/mpi/x.cc", "mpi.h"),
            ("pliant/exchange/x_test.cc", "pliant/comm/local/group.h"),
            ("tools/t/x.cc", "pliant/comm/mpi/y.h"),
            ("pliant/comm/c10d/x.h", "torch/csrc/distributed/c10d/Backend.hpp"),
            ("tests/conformance/c10d_x.cc", "torch/csrc/distributed/c10d/Backend.hpp"),
        ]:
            with self.subTest(source=source, included=included):
                self.assertEqual(verdict(source, included)[0], 0)

    def test_forbidden_edges_fail_and_are_named(self):
        for source, included in [
            ("pliant/kernels/x.cc", "pliant/comm/y.h"),
            ("pliant/schedule/x.h", "pliant/plan/y.h"),
            ("pliant/exchange/x.cc", "pliant/comm/mpi/y.h"),
            ("pliant/engine/x.cc", "pliant/comm/local/y.h"),
            ("pliant/comm/x.h", "pliant/comm/local/y.h"),
            ("pliant/plan/x.h", "hwy/highway.h"),
            ("tools/t/x.cc", "mpi.h"),
            ("pliant/exchange/x.cc", "ATen/ATen.h"),
            ("tests/conformance/suite.cc", "torch/csrc/distributed/c10d/Backend.hpp"),
            ("pliant/comm/c10d/x.cc", "pybind11/pybind11.h"),
            ("pliant/newmodule/x.h", "pliant/plan/y.h"),
            ("pliant/plan/x.h", "tests/support/y.h"),
        ]:
            with self.subTest(source=source, included=included):
                code, text = verdict(source, included)
                self.assertEqual(code, 1)
                self.assertIn(source, text)


if __name__ == "__main__":
    unittest.main()
