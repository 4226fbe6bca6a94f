# SPDX-License-Identifier: MIT
"""`pip install .` for real, into an environment of its own that sees the torch of this one."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> str:
    # One compiler at a time: tests share the machine. What was compiled stays in build/pip for the next time.
    environment = {**os.environ, "PYTHONPATH": "", "CMAKE_BUILD_PARALLEL_LEVEL": "2"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=1700, check=False, cwd="/", env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_pip_install(tmp_path: Path) -> None:
    import venv

    venv.create(tmp_path / "venv", with_pip=True, symlinks=True)
    python = str(tmp_path / "venv/bin/python")
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (packages / "outer.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(python, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", str(ROOT))
    assert run(str(tmp_path / "venv/bin/pliant"), "--version").startswith("pliant 0.")
    where, version, plan = run(python, "-c", "import pliant; print(pliant.__file__, pliant.__version__, pliant._native.read_plan('density=10% union'), sep='|')").strip().split("|")
    assert where.startswith(str(packages)), where
    assert plan == "union density=10%"
    assert sorted(path.name for path in (packages / "pliant").iterdir() if path.suffix != ".py" and path.is_file())[0].startswith("_built")
    assert (packages / "pliant/py.typed").exists() and version
    venv_folder = tmp_path / "venv"
    for tool in ("lab", "bench", "plan"):
        assert run(str(venv_folder / "bin/pliant"), tool, "--version") == f"pliant-{tool} {version}\n"
    assert (venv_folder / "share/man/man1/pliant-plan.1").exists()
    assert (venv_folder / "share/bash-completion/completions/pliant").exists()
    assert '"can_attach": true' in run(str(venv_folder / "bin/pliant"), "doctor", "--json")
