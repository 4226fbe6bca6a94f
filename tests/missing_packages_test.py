# SPDX-License-Identifier: MIT
"""Configures the build as if packages were missing: one sentence names all of them, and the command
that installs them."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEBIAN = {
    "fmt": "libfmt-dev",
    "nlohmann_json": "nlohmann-json3-dev",
    "hwy": "libhwy-dev",
    "MPI": "libopenmpi-dev openmpi-bin",
    "CLI11": "libcli11-dev",
    "tomlplusplus": "libtomlplusplus-dev",
    "GTest": "libgtest-dev",
    "rapidcheck": "librapidcheck-dev",
}


def configure(*options: str, **environment: str) -> str:
    """What CMake says of a build that cannot be made, without its line breaks."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", folder, *options],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, **environment},
        )
    assert done.returncode != 0, done.stdout
    return " ".join(done.stderr.split())


class MissingPackages(unittest.TestCase):
    def test_all_are_named_at_once(self) -> None:
        said = configure(
            "-DPLIANT_TORCH=OFF",
            "-DPLIANT_XXHASH_INCLUDE=PLIANT_XXHASH_INCLUDE-NOTFOUND",
            "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF",  # where the compiler finds xxhash.h
            *(f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON" for package in DEBIAN),
        )
        for package, debian in {**DEBIAN, "xxHash": "libxxhash-dev"}.items():
            self.assertIn(package, said)
            self.assertIn(debian, said.split("sudo apt-get install ")[1])

    def test_one_is_named_alone(self) -> None:
        said = configure("-DPLIANT_TORCH=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON")
        self.assertIn("Pliant needs packages that were not found: fmt.", said)
        self.assertIn("sudo apt-get install libfmt-dev Call Stack", said)

    def test_a_compiler(self) -> None:
        said = configure(CXX="/nowhere/c++")
        self.assertIn("Pliant needs a C++ compiler, and none was found.", said)
        self.assertIn("sudo apt-get install g++", said)

    def test_the_headers_of_python_for_a_wheel(self) -> None:
        said = configure("-DSKBUILD=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_Python=ON")
        self.assertIn("the headers of Python", said)
        self.assertIn("python3-dev", said)

    def test_torch_for_a_wheel(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60
            )
            python = f"{folder}/bin/python"
            said = configure("-DSKBUILD=ON", f"-DPython_EXECUTABLE={python}")
        self.assertIn("pip install torch", said)


if __name__ == "__main__":
    if shutil.which("cmake") is None:
        sys.exit("cmake is not in PATH")
    unittest.main()
