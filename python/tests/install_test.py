# SPDX-License-Identifier: MIT
"""`pip install .` for real, into an environment of its own that has the torch of this one."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    # What was compiled stays in build/pip for the next time.
    environment = {**os.environ, "PYTHONPATH": "", "CMAKE_BUILD_PARALLEL_LEVEL": "2"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=1700, check=False, cwd="/", env=environment
    )


def output(*command: str) -> str:
    done = run(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment_with_torch(folder: Path) -> tuple[str, Path]:
    """An environment in which torch lies as if installed there; what torch imports comes from this
    one."""
    venv.create(folder, with_pip=True, symlinks=True)
    python = str(folder / "bin/python")
    packages = Path(
        output(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    here = Path(sysconfig.get_path("purelib"))
    (packages / "torch").symlink_to(here / "torch")
    (packages / "outer.pth").write_text(f"{here}\n")
    return python, packages


def check(python: str, packages: Path) -> None:
    assert output(str(Path(python).parent / "pliant"), "--version").startswith("pliant 0.")
    words = "import pliant; print(pliant.__file__, pliant.__version__, pliant._native.Pins('density=10% union'), sep='|')"
    where, version, plan = output(python, "-c", words).strip().split("|")
    assert where.startswith(str(packages)), where
    assert plan == "union density=10%"
    assert (packages / "pliant/py.typed").exists() and version
    venv_folder = Path(python).parent.parent
    for tool in ("lab", "bench", "plan"):
        assert (
            output(str(venv_folder / "bin/pliant"), tool, "--version")
            == f"pliant-{tool} {version}\n"
        )
    assert (venv_folder / "share/man/man1/pliant-plan.1").exists()
    assert (venv_folder / "share/bash-completion/completions/pliant").exists()
    assert '"can_attach": true' in output(str(venv_folder / "bin/pliant"), "doctor", "--json")


def test_pip_install(tmp_path: Path) -> None:
    """As people type it: pip builds in an environment of its own, from which torch cannot be
    imported."""
    python, packages = environment_with_torch(tmp_path / "venv")
    done = run(python, "-m", "pip", "install", "--quiet", "--no-deps", str(ROOT))
    if "No matching distribution found for scikit-build-core" in done.stderr:
        pytest.skip("pip reaches no index with scikit-build-core")
    assert done.returncode == 0, done.stdout + done.stderr
    check(python, packages)


def test_a_wheel(tmp_path: Path) -> None:
    python, packages = environment_with_torch(tmp_path / "venv")
    output(
        python,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-build-isolation",
        "--no-deps",
        "--wheel-dir",
        str(tmp_path),
        str(ROOT),
    )
    (wheel,) = tmp_path.glob("pliant-*.whl")
    output(python, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel))
    check(python, packages)
