# SPDX-License-Identifier: MIT
"""`pip install .` for real, into environments of their own that have the torch of this one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Shared libraries that every machine with a torch has.
SYSTEM = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libpthread.so.0"}
TORCH = {"libtorch_python.so", "libtorch_cpu.so", "libc10.so"}


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # What was compiled stays in build/pip for the next time.
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
        cwd="/",
        env={**os.environ, "PYTHONPATH": "", "CMAKE_BUILD_PARALLEL_LEVEL": "2", **environment},
    )


def output(*command: str, **environment: str) -> str:
    done = run(*command, **environment)
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


def check(python: str, packages: Path, **environment: str) -> None:
    command = str(Path(python).parent / "pliant")
    words = "import pliant; print(pliant.__file__, pliant.__version__, pliant._native.Pins('density=10% union'), sep='|')"
    where, version, plan = output(python, "-c", words, **environment).strip().split("|")
    assert where.startswith(str(packages)), where
    assert plan == "union density=10%"
    assert output(command, "--version", **environment).startswith(f"pliant {version} ")
    assert (packages / "pliant/py.typed").exists() and version
    assert list(packages.glob(f"pliant-{version}.dist-info")), "pip knows another version"
    for tool in ("lab", "bench", "plan"):
        assert output(command, tool, "--version", **environment) == f"pliant-{tool} {version}\n"
    share = Path(python).parent.parent / "share"
    assert (share / "man/man1/pliant-plan.1").exists()
    assert (share / "bash-completion/completions/pliant").exists()
    assert '"can_attach": true' in output(command, "doctor", "--json", **environment)


def pip_wheel(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run(
        *(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps"),
        *("--wheel-dir", str(folder), *options, str(ROOT)),
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = pip_wheel(folder, "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Building project with Ninja" in done.stdout + done.stderr
    (made,) = folder.glob("pliant-*.whl")
    return made


def test_pip_install(tmp_path: Path) -> None:
    """As people type it: pip builds in an environment of its own, from which torch cannot be
    imported."""
    python, packages = environment_with_torch(tmp_path / "venv")
    done = run(python, "-m", "pip", "install", "--quiet", "--no-deps", str(ROOT))
    if "No matching distribution found for scikit-build-core" in done.stderr:
        pytest.skip("pip reaches no index with scikit-build-core")
    assert done.returncode == 0, done.stdout + done.stderr
    check(python, packages)


def test_a_wheel_needs_no_compiler_and_no_library(wheel: Path, tmp_path: Path) -> None:
    python, packages = environment_with_torch(tmp_path / "venv")
    path = str(Path(python).parent)  # no compiler, no cmake, nothing else
    output(python, "-m", "pip", "install", "--no-index", "--no-deps", str(wheel), PATH=path)
    check(python, packages, PATH=path)

    binding = next((packages / "pliant").glob("_native*.so"))
    tools = [Path(path) / f"pliant-{tool}" for tool in ("lab", "bench", "plan")]
    for file in (binding, *tools):
        needed = dict(
            re.findall(r"^\s*(\S+) => (.*?)(?: \(0x\w+\))?$", output("ldd", str(file)), re.M)
        )
        carried = {
            name
            for name, where in needed.items()
            if Path(where).parent.resolve() == (packages / "pliant/lib").resolve()
        }
        others = needed.keys() - carried - SYSTEM - (TORCH if file == binding else set())
        assert not others, f"{file.name} needs {others}"
        assert str(ROOT).encode() not in file.read_bytes(), f"{file.name} names {ROOT}"


def test_pages_that_messages_name_are_in_the_wheel(wheel: Path, tmp_path: Path) -> None:
    output(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"),
        *("--target", str(tmp_path), str(wheel)),
    )
    named = {
        page.decode()
        for file in [*(tmp_path / "pliant").rglob("*"), *(tmp_path / "bin").iterdir()]
        if file.is_file() and file.suffix != ".md"
        for page in re.findall(rb"docs/[a-z_/-]+\.md", file.read_bytes())
    }
    assert "docs/errors.md" in named
    missing = {page for page in named if not (tmp_path / "pliant" / page).is_file()}
    assert not missing


def test_a_missing_package_is_named_with_the_command(tmp_path: Path) -> None:
    done = pip_wheel(
        tmp_path,
        *("--config-settings", "cmake.define.CMAKE_DISABLE_FIND_PACKAGE_fmt=ON"),
        *("--config-settings", f"build-dir={tmp_path / 'build'}"),
    )
    said = done.stdout + done.stderr
    assert done.returncode != 0 and "Pliant needs packages that were not found: fmt." in said, said
    assert "sudo apt-get install libfmt-dev\n" in said and "docs/install.md" in said, said
