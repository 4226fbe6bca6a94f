# SPDX-License-Identifier: MIT
"""The command `pliant`: `pliant NAME ...` runs the tool pliant-NAME."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

# The exit codes of every tool.
FINE, BAD_INPUT, SOMETHING_MISSING = 0, 2, 6

TOOLS = {
    "lab": "a network of N hosts on one machine: real packets, links that change over time",
    "bench": "times our collectives and exchanges beside the engine's own",
    "plan": "what-if: predicted step times for a model and a network",
}

MODULES = {"report": ("a run's log as one page of charts, as a table, a trace", "pliant.report.cli"), "watch": ("a run's log, live in the terminal", "pliant.report.watch")}


def usage() -> str:
    lines = ["usage: pliant [--version] [--help] COMMAND ...", ""]
    commands = TOOLS | {name: what for name, (what, _) in MODULES.items()}
    return "\n".join(lines + [f"  {name:8} {what}" for name, what in commands.items()])


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("--help", "-h", "help"):
        print(usage())
        return FINE if words else BAD_INPUT
    if words[0] == "--version":
        import pliant
        import torch

        print(f"pliant {pliant.__version__} (torch {torch.__version__})")
        return FINE
    if words[0] in MODULES:
        return int(importlib.import_module(MODULES[words[0]][1]).main(words[1:]))
    if words[0] not in TOOLS:
        print(f"pliant: unknown command '{words[0]}'; there are: {', '.join([*TOOLS, *MODULES])}", file=sys.stderr)
        return BAD_INPUT
    return _run(words[0], words[1:])


def find(tool: str) -> str | None:
    """Beside the interpreter, where `pliant` itself is; then on the PATH."""
    beside = Path(sys.executable).parent / tool
    return str(beside) if os.access(beside, os.X_OK) else shutil.which(tool)


def _run(name: str, arguments: list[str]) -> int | NoReturn:
    tool = f"pliant-{name}"
    path = find(tool)
    if path is None:
        print(
            f"pliant: {tool} is not on this machine. It is one of the C++ tools: build them with cmake, and `cmake --install`, "
            "or put the folder it is in on PATH.",
            file=sys.stderr,
        )
        return SOMETHING_MISSING
    os.execv(path, [tool, *arguments])
