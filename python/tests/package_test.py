# SPDX-License-Identifier: MIT
"""The package itself: types, the command, what it says where torch is missing or another."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=600,
        check=False,
    )


@pytest.mark.slow
def test_types_are_complete(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(
        "import pliant\nfrom torch import nn\n\n\ndef train(model: nn.Module) -> int:\n    return "
        "pliant.attach(model, plan='dense').summary().steps\n"
    )
    config = str(ROOT / "pyproject.toml")
    done = run(
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        config,
        "--strict",
        str(ROOT / "python/pliant"),
        str(tmp_path / "user.py"),
        MYPYPATH=str(ROOT / "python"),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def pliant(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "pliant", *words, **environment)


def moved_package(folder: Path) -> Path:
    """The package without its binding and far from any build tree."""
    here = Path(__import__("pliant").__file__).parent
    shutil.copytree(
        here, folder / "away" / "pliant", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    return folder / "away"


def test_the_command(tmp_path: Path) -> None:
    assert pliant("--version").stdout.startswith("pliant 0.")
    away = str(moved_package(tmp_path))
    missing = pliant("bench", PATH=str(tmp_path), PYTHONPATH=away)
    assert missing.returncode == 6, missing
    assert "pliant-bench is not here" in missing.stderr
    tool = tmp_path / "pliant-bench"
    tool.write_text('#!/bin/sh\necho "$@"\nexit 3\n')
    tool.chmod(0o755)
    there = pliant("bench", "--ranks", "4", PATH=f"{tmp_path}:/usr/bin:/bin", PYTHONPATH=away)
    assert (there.returncode, there.stdout) == (3, "--ranks 4\n")
    assert (
        pliant("help", "bench", PATH=f"{tmp_path}:/usr/bin:/bin", PYTHONPATH=away).stdout
        == "--help\n"
    )
    assert pliant().returncode == 2
    assert "lab" in pliant("--help").stdout


def test_one_version_everywhere() -> None:
    tomllib = pytest.importorskip("tomllib")
    import pliant as package

    declared = (ROOT / "CMakeLists.txt").read_text()
    found = re.search(r"^project\(pliant VERSION ([0-9.]+) ", declared, re.M)
    assert found is not None
    version = found[1]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["project"]["dynamic"] == ["version"]
    source = settings["tool"]["scikit-build"]["metadata"]["version"]
    assert source["input"] == "CMakeLists.txt"
    packaged = re.search(source["regex"], declared)
    assert packaged is not None and packaged["value"] == version
    assert package.__version__ == package._native.version == version
    assert pliant("--version").stdout.startswith(f"pliant {version} ")
    released = re.findall(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert released[:2] == ["Unreleased", version], released


def test_the_page_on_versions_has_the_numbers_of_all_formats() -> None:
    from pliant import checkpoint, runlog
    from pliant.report import truth

    def constant(file: str, name: str) -> int:
        return int(re.search(rf"{name} = (\d+);", (ROOT / file).read_text())[1])  # type: ignore[index]

    page = (ROOT / "docs/versions.md").read_text()
    numbers = dict(re.findall(r"^\| ([^|]+) \| (\d+) \| ", page, re.M))
    assert {name: int(number) for name, number in numbers.items()} == {
        "payload": constant("pliant/compress/payload.h", "kPayloadVersion"),
        "control record": constant("pliant/agree/record.h", "kRecordVersion"),
        "run log": runlog.VERSION,
        "saved state: `averager.state_dict()`": checkpoint.FORMAT,
        "truth log of the lab": truth.VERSION,
    }
    assert runlog.VERSION == constant("pliant/runlog/run_log.cc", "kVersion")


def test_pages_that_messages_name_are_in_the_package() -> None:
    """Messages say docs/errors.md and the like; the wheel has these pages, the build tree a
    link."""
    package = Path(__import__("pliant").__file__).parent
    binding = next(package.glob("_native*.so"))
    named = {
        page.decode()
        for file in [*package.rglob("*.py"), binding]
        for page in re.findall(rb"docs/[a-z_/-]+\.md", file.read_bytes())
    }
    assert {"docs/errors.md", "docs/plans.md"} <= named
    missing = {page for page in named if not (package / page).is_file()}
    assert not missing
    assert pliant("--help").stdout.splitlines()[-1] == f"Documentation: {package / 'docs'}"


def test_the_command_needs_no_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise RuntimeError('torch was imported')\n")
    for words in (["--help"], ["--version"], ["doctor", "--help"]):
        done = pliant(*words, PYTHONPATH=f"{tmp_path}:{os.environ['PYTHONPATH']}")
        assert (done.returncode, done.stderr) == (0, ""), done


def test_names_and_modules_do_not_meet() -> None:
    import pkgutil

    import pliant as package

    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert not modules & set(package.__all__), "importing the module would hide the name"
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="nonsense"):
        package.nonsense


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
    assert "built for torch 1.2.3, but torch 2" in done.stderr and "pip install" in done.stderr, (
        done.stderr
    )
    (there / "_built.py").unlink()
    done = run(sys.executable, "-c", "import pliant", PYTHONPATH=str(tmp_path))
    assert "has not been built" in done.stderr, done.stderr
    done = run(sys.executable, "-S", "-c", "import pliant", PYTHONPATH=str(tmp_path))
    assert "needs PyTorch" in done.stderr, done.stderr
