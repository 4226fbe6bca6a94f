# SPDX-License-Identifier: MIT
"""Command `pliant`: `pliant NAME ...` runs the tool of that name, which is a C++ program or a
module of this package.

This module loads neither torch nor the binding."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

from pliant.tools.exit_codes import BAD_INPUT, FAILED, FINE, SOMETHING_MISSING, ended_by


@dataclass(frozen=True)
class Command:
    what: str
    module: str | None = None
    """With a `main(arguments) -> int`; None: the program pliant-NAME."""


COMMANDS = {
    "plan": Command("would compressing pay, and how much? for a model and a network"),
    "demo": Command(
        "train a CNN on 4 hosts while the network changes, and compare", "pliant.demo.cli"
    ),
    "report": Command(
        "a run's log as one page of charts, as a table, a trace", "pliant.report.cli"
    ),
    "watch": Command("a run's log, live in the terminal", "pliant.watch.cli"),
    "doctor": Command(
        "checks this machine and says how to mend what will not work", "pliant.doctor.cli"
    ),
    "lab": Command("a network of N hosts on this machine, that changes over time"),
    "bench": Command("our collectives and exchanges, timed beside the backend's own"),
}

USAGE = """\
  pliant plan --params 25.6M --ranks 8 --link 1gbit,1ms --compute 120ms
  pliant report run.jsonl -o report.html
  pliant doctor

usage: pliant COMMAND ...

{commands}

  pliant COMMAND --help   the options of one
  pliant --version        of the package, and of the torch that it was built for

Exit status: 0 fine, 1 the run failed, 2 bad input, 3 peers disagree, 4 a peer
is lost, 5 a result was wrong, 6 something is missing here, 124 --timeout,
128+n ended by signal n.
Colours are for terminals only, and NO_COLOR turns them off.
Documentation: {docs}"""


def usage() -> str:
    return USAGE.format(
        commands="\n".join(f"  {name:8} {command.what}" for name, command in COMMANDS.items()),
        docs=Path(__file__).parent / "docs",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        status = _main(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `pliant report --json | head`: the reader has ended
        _drop_output()
        return ended_by(signal.SIGPIPE)
    except OSError as error:
        _drop_output()
        return _complain(str(error), FAILED)


def _drop_output() -> None:
    """Discards output that is still buffered; otherwise the interpreter complains at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _main(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        print(usage(), file=sys.stderr)
        return BAD_INPUT
    name, rest = words[0], words[1:]
    if name in ("--help", "-h", "help"):
        if not rest:
            print(usage())
            return FINE
        name, rest = rest[0], ["--help"]
    if name == "--version":
        return _print_version()
    command = COMMANDS.get(name)
    if command is None:
        return _complain(
            f"unknown {'option' if name.startswith('-') else 'command'} "
            f"'{name}'{_suggestion(name)}",
            BAD_INPUT,
        )
    return _run_module(name, command.module, rest) if command.module else _run_program(name, rest)


def find(tool: str) -> str | None:
    """Beside the interpreter, where `pliant` itself is; on the PATH; in the build tree that this
    package is in; in the checkout's."""
    here = Path(__file__)
    beside = [Path(sys.executable).parent / tool, Path(sys.argv[0]).parent / tool]
    trees = [
        here.parents[2],
        *(here.resolve().parents[2] / "build" / preset for preset in ("release", "dev")),
    ]
    for path in beside:
        if _is_program(path):
            return str(path)
    return shutil.which(tool) or next(
        (str(path) for tree in trees if _is_program(path := tree / "tools" / tool / tool)), None
    )


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _run_program(name: str, arguments: list[str]) -> int | NoReturn:
    tool = f"pliant-{name}"
    path = find(tool)
    if path is None:
        return _complain(
            f"{tool} is not here. It is one of the C++ tools: pip builds it if CLI11 and toml++ "
            "are there (Debian: libcli11-dev, "
            "libtomlplusplus-dev), make build does in a checkout; or put the folder it is in on "
            "PATH.",
            SOMETHING_MISSING,
        )
    sys.stdout.flush()
    os.execv(path, [tool, *arguments])


def _run_module(name: str, module: str, arguments: list[str]) -> int:
    try:
        run = importlib.import_module(module).main
    except ModuleNotFoundError as missing:
        if missing.name is not None and module.startswith(missing.name):
            return _complain(
                f"'{name}' is not part of this installation of pliant", SOMETHING_MISSING
            )
        return _complain(
            f"'{name}' needs the Python package {missing.name}: pip install {missing.name}",
            SOMETHING_MISSING,
        )
    except ImportError as error:
        return _complain(f"'{name}': {error}", SOMETHING_MISSING)
    try:
        return int(run(arguments))
    except KeyboardInterrupt:
        return ended_by(signal.SIGINT)


def _print_version() -> int:
    from pliant import version

    try:
        built = version.of_build()
    except ImportError as error:
        return _complain(str(error), SOMETHING_MISSING)
    print(f"pliant {built.version} (for torch {built.torch_version})")
    return FINE


def _suggestion(typed: str) -> str:
    near = get_close_matches(typed, [*COMMANDS, "--help", "--version"], n=1)
    return f" (did you mean '{near[0]}'?)" if near else f"; there are: {', '.join(COMMANDS)}"


def _complain(text: str, status: int) -> int:
    print(f"pliant: {text}", file=sys.stderr)
    return status
