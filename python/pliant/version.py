# SPDX-License-Identifier: MIT
"""Check that the binding was built for the torch that is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_NO_TORCH = "pliant needs PyTorch, and there is none here. Install torch first, then pliant: its binding is built for one torch."


def is_the_command() -> bool:
    """Whether this process is `pliant ...` or `python -m pliant ...`."""
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    return program == "-m" or Path(program).name == "pliant"


def of_build() -> ModuleType:
    """The module pliant/_built.py, which the build writes: versions and compiler."""
    try:
        from pliant import _built
    except ImportError:
        raise ImportError(
            "pliant's binding has not been built. In a checkout: pip install --no-build-isolation "
            ". (or make build, and PYTHONPATH=build/dev/python)"
        ) from None
    return _built


def installed_torch() -> str:
    """The version of torch, which is loaded: the binding needs its libraries in the process."""
    try:
        import torch
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise ImportError(_NO_TORCH) from None
    return str(torch.__version__)


def check_build(built_for: str, installed: str) -> None:
    """A binding speaks the ABI of one torch. With another one it would crash rather than
    complain."""
    if built_for != installed:
        raise ImportError(
            f"pliant was built for torch {built_for}, but torch {installed} is installed. Build it "
            "again for this one: "
            "pip install --no-build-isolation --force-reinstall --no-deps . (in a checkout of "
            "pliant)"
        )


def check_here() -> None:
    """Before the binding is loaded. ImportError says what is missing."""
    torch = installed_torch()
    check_build(of_build().torch_version, torch)


def check_found() -> None:
    """The same without loading torch, which takes seconds: by what is installed."""
    if importlib.util.find_spec("torch") is None:
        raise ImportError(_NO_TORCH)
    built_for = of_build().torch_version
    try:
        installed = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return  # a torch that pip does not know: check_here() will ask it
    if installed.partition("+")[0] != built_for.partition("+")[0]:
        check_build(built_for, installed)
