# SPDX-License-Identifier: MIT
"""Command `pliant demo`: reads the options, runs the demonstration and prints the comparison."""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from pliant import version
from pliant.demo import launch, progress
from pliant.demo.launch import Event, JobFailed, Place
from pliant.demo.settings import PHASES, Settings, steps_within
from pliant.tools.arguments import BadInput, Parser
from pliant.tools.exit_codes import BAD_INPUT, FAILED, FINE, SOMETHING_MISSING, ended_by

NAME = "pliant demo"

QUICK_STEPS = 60
MOST_HOSTS = 16  # they share this machine's processors
MOST_STEPS = 100_000


class Ended(KeyboardInterrupt):
    """SIGTERM arrived."""


def parser() -> Parser:
    out = Parser(
        prog=NAME,
        allow_abbrev=False,
        description="Trains a CNN on Fashion-MNIST with 4 hosts in the lab, over a network that changes in mid-run: plain DDP, then Pliant (auto). "
        "Then the comparison, report.html and a chart.",
    )
    length = out.add_mutually_exclusive_group()
    length.add_argument(
        "--steps", type=int, metavar="N", help=f"of each run; {Settings.steps} unless told"
    )
    length.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="choose the number of steps so that plain DDP takes about half of this time",
    )
    length.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_STEPS} steps: to see that it works, not how well",
    )
    out.add_argument(
        "--hosts",
        type=int,
        default=Settings.hosts,
        metavar="N",
        help="ranks, each on a host of its own; %(default)s unless told",
    )
    out.add_argument(
        "--seed",
        type=int,
        default=Settings.seed,
        metavar="N",
        help="of the model, the batches and the lab",
    )
    out.add_argument(
        "--out",
        metavar="DIR",
        help="where logs, report and chart go; a new folder in the temporary one unless told",
    )
    out.add_argument(
        "--no-lab",
        action="store_true",
        help="on loopback: the network is not emulated and does not change",
    )
    return out


def main(arguments: Sequence[str]) -> int:
    try:
        return _demo(
            _settings(parser().parse_args(list(arguments))), no_lab="--no-lab" in arguments
        )
    except BadInput as error:
        return _complain(str(error), BAD_INPUT)
    except ModuleNotFoundError as error:
        return _complain(
            f"the Python package {error.name} is not here: pip install {error.name}",
            SOMETHING_MISSING,
        )
    except ImportError as error:
        return _complain(str(error), SOMETHING_MISSING)
    except JobFailed as error:
        return _complain(str(error), FAILED)
    except Ended:
        return ended_by(signal.SIGTERM)
    except KeyboardInterrupt:
        return ended_by(signal.SIGINT)


def _complain(text: str, code: int) -> int:
    print(f"{NAME}: {text}", file=sys.stderr)
    return code


def _settings(options: argparse.Namespace) -> Settings:
    for name, value, least, most in (
        ("hosts", options.hosts, 2, MOST_HOSTS),
        ("steps", options.steps, 10, MOST_STEPS),
        ("seed", options.seed, 0, 2**31 - 1),
    ):
        if value is not None and not least <= value <= most:
            raise BadInput(f"--{name} {value}: from {least} to {most}")
    settings = Settings(out="", hosts=options.hosts, seed=options.seed)
    if options.seconds is not None:
        if not 10 <= options.seconds <= 86_400:
            raise BadInput(f"--seconds {options.seconds:g}: from 10 to 86400")
        settings = replace(settings, steps=max(10, steps_within(options.seconds, settings)))
    elif options.steps is not None or options.quick:
        settings = replace(settings, steps=QUICK_STEPS if options.quick else options.steps)
    return replace(settings, out=_folder(options.out))


def _folder(name: str | None) -> str:
    """Absolute: ranks may run elsewhere. What an earlier demonstration left there is written
    over."""
    if name is None:
        return tempfile.mkdtemp(prefix="pliant-demo-")
    path = Path(name).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--out {name}: {error.strerror}") from None
    if not os.access(path, os.W_OK):
        raise BadInput(f"--out {name}: may not be written")
    for older in (
        "truth",
        *progress.TITLES,
    ):  # a log that is there would be kept under another name
        (path / f"{older}.jsonl").unlink(missing_ok=True)
    return str(path)


def _demo(settings: Settings, no_lab: bool) -> int:
    version.of_build()
    for package in ("torch", "rich", "plotly"):
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(name=package)
    signal.signal(signal.SIGTERM, _on_signal)
    where = launch.place(no_lab)
    done = _train(settings, where)
    from pliant.demo import comparison, table

    table.show(comparison.outcome(settings, done), in_the_lab=where.lab is not None)
    return FINE


def _on_signal(number: int, frame: FrameType | None) -> NoReturn:
    raise Ended


def _train(settings: Settings, where: Place) -> dict[str, Event]:
    # Twice what both runs should take, and a minute to start: busy machines are slower, and a lab
    # that hangs must end.
    limit = 60 + 4 * settings.expected_seconds() + 0.5 * settings.steps
    done: dict[str, Event] = {}
    with progress.make(settings) as shown:
        for line in _introduction(settings, where):
            shown.say(line)
        job = launch.start(where, settings, limit)
        try:
            for event in job.events(limit + 30):
                if event["event"] == "data":
                    shown.say(f"Data: {event['name']}.")
                elif event["event"] == "step":
                    shown.step(event)
                elif event["event"] == "progress":
                    shown.take(event)
                else:
                    done[event["method"]] = event
        finally:
            job.end()
    return done


def _introduction(settings: Settings, where: Place) -> list[str]:
    what = f"{settings.hosts} hosts, {settings.steps} steps of each method."
    if where.lab is None:
        reason = where.missing.replace("\n", "\n  ")
        return [
            f"{what} Not in the lab ({reason}): on loopback, where the network is fast and does "
            "not change."
        ]
    phases = "; ".join(
        f"from step {settings.first_step(phase)} {phase.name}, {settings.rate_mbit(phase):.0f} "
        f"Mbit/s and {phase.delay_ms:g} ms"
        for phase in PHASES
    )
    return [
        what,
        f"The network: {phases}. Should take about {2 * settings.expected_seconds():.0f} s at "
        "most.",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
