# SPDX-License-Identifier: MIT
"""The package itself: types, the command, what it says where torch is missing or another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=600, check=False)


def test_types_are_complete(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(
        "import pliant\nfrom torch import nn\n\n\ndef train(model: nn.Module) -> int:\n    return pliant.attach(model, plan='dense').summary().steps\n"
    )
    config = str(ROOT / "pyproject.toml")
    done = run(sys.executable, "-m", "mypy", "--config-file", config, "--strict", str(ROOT / "python/pliant"), str(tmp_path / "user.py"), MYPYPATH=str(ROOT / "python"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_command(tmp_path: Path) -> None:
    def pliant(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return run(sys.executable, "-m", "pliant", *words, **environment)

    assert pliant("--version").stdout.startswith("pliant 0.")
    unknown = pliant("labb")
    assert unknown.returncode == 2
    assert "unknown command 'labb'" in unknown.stderr and "lab" in unknown.stderr
    missing = pliant("bench", PATH=str(tmp_path))
    assert missing.returncode == 6, missing
    assert "pliant-bench" in missing.stderr
    tool = tmp_path / "pliant-bench"
    tool.write_text('#!/bin/sh\necho "$@"\nexit 3\n')
    tool.chmod(0o755)
    there = pliant("bench", "--ranks", "4", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert (there.returncode, there.stdout) == (3, "--ranks 4\n")
    assert pliant().returncode == 2
    assert "lab" in pliant("--help").stdout


def test_another_torch_is_named(tmp_path: Path) -> None:
    here = Path(__import__("pliant").__file__).parent
    there = tmp_path / "pliant"
    there.mkdir()
    for file in here.iterdir():
        if file.suffix in (".py", ".so"):
            (there / file.name).symlink_to(file.resolve())
    (there / "_built.py").unlink()
    (there / "_built.py").write_text("torch_version = '1.2.3'\n")
    done = run(sys.executable, "-c", "import pliant", PYTHONPATH=str(tmp_path))
    assert "built for torch 1.2.3, but torch 2" in done.stderr and "pip install" in done.stderr, done.stderr
    (there / "_built.py").unlink()
    done = run(sys.executable, "-c", "import pliant", PYTHONPATH=str(tmp_path))
    assert "has not been built" in done.stderr, done.stderr
    done = run(sys.executable, "-S", "-c", "import pliant", PYTHONPATH=str(tmp_path))
    assert "needs PyTorch" in done.stderr, done.stderr
