# SPDX-License-Identifier: MIT
"""The backends run in the lab as they are: PyTorch's Gloo, torchrun and Open MPI."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import lab, main

GLOO = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.full((10000,), float(dist.get_rank() + 1))
dist.all_reduce(x)
print(x.sum().item())
dist.destroy_process_group()
"""

MPI = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, sum = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("sum %d\\n", sum);
  MPI_Finalize();
  return argc > 1 && rank == 2 ? 9 : 0;
}
"""


def has_torch() -> bool:
    return (
        subprocess.run(
            [sys.executable, "-c", "import torch"], capture_output=True, timeout=60
        ).returncode
        == 0
    )


class Engines(unittest.TestCase):
    @unittest.skipUnless(has_torch(), "no torch here")
    def test_gloo(self) -> None:
        done = lab(
            "run",
            "--hosts",
            "4",
            "--link",
            "100mbit,1ms",
            "--timeout",
            "55s",
            "--",
            sys.executable,
            "-c",
            GLOO,
        )
        self.assertEqual(
            sorted(done.stdout.splitlines()),
            [f"[host {i}] 100000.0" for i in range(4)],
            done.stderr,
        )
        self.assertEqual(done.returncode, 0)

    @unittest.skipUnless(has_torch(), "no torch here")
    def test_torchrun_with_two_ranks_in_each_host(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "sum.py"
            script.write_text(GLOO)
            done = lab(
                "run",
                "--hosts",
                "2",
                "--ranks-per-host",
                "2",
                "--link",
                "100mbit,1ms",
                "--timeout",
                "55s",
                "--",
                sys.executable,
                "-m",
                "torch.distributed.run",
                str(script),
            )
        self.assertEqual(
            sorted(done.stdout.splitlines()),
            sorted(f"[host {rank // 2}] 100000.0" for rank in range(4)),
            done.stderr,
        )
        self.assertEqual(done.returncode, 0)

    @unittest.skipUnless(shutil.which("mpicc") and shutil.which("mpirun"), "no Open MPI here")
    def test_open_mpi(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder) / "sum.c", Path(folder) / "sum"
            source.write_text(MPI)
            subprocess.run(["mpicc", "-o", program, source], check=True, timeout=60)
            done = lab(
                "mpirun",
                "--hosts",
                "4",
                "--link",
                "100mbit,1ms",
                "--timeout",
                "55s",
                "--",
                str(program),
            )
            self.assertEqual(
                sorted(done.stdout.splitlines()),
                [f"[host {i}] sum 6" for i in range(4)],
                done.stderr,
            )
            self.assertEqual(done.returncode, 0)
            self.assertEqual(
                lab(
                    "mpirun", "--hosts", "4", "--timeout", "55s", "--", str(program), "fail"
                ).returncode,
                9,
            )


if __name__ == "__main__":
    main()
