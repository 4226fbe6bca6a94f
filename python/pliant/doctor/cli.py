# SPDX-License-Identifier: MIT
"""Command `pliant doctor`: runs all checks of this installation and prints their findings."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn

from pliant.doctor import device, machine, network, training
from pliant.doctor.findings import Finding, as_table, can_attach, verdict
from pliant.tools.exit_codes import BAD_INPUT, FINE, SOMETHING_MISSING, WRONG_RESULT

_FORMAT = 1


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        words = message.split()
        if message.startswith("unrecognized arguments: "):
            near = get_close_matches(words[2].partition("=")[0], self._option_string_actions, n=1)
            message = f"unknown {'option' if words[2].startswith('-') else 'word'} '{words[2]}'" + (
                f", did you mean '{near[0]}'?" if near else ""
            )
        print(f"pliant doctor: {message} (see pliant doctor --help)", file=sys.stderr)
        sys.exit(BAD_INPUT)


def parser() -> argparse.ArgumentParser:
    made = _Parser(
        prog="pliant doctor",
        description="Checks whether Pliant works on this machine and says how to mend what does not. Runs two ranks for a moment; changes nothing.",
        epilog="Exit status: 0 if pliant.attach() works here, 5 if a result on the device is wrong, 6 if it does not work or the device is not here.",
        allow_abbrev=False,
    )
    made.add_argument(
        "--link",
        default="1gbit,50ms",
        metavar="RATE,DELAY",
        help="the link for which TCP's buffers are judged, delay one way [1gbit,50ms]",
    )
    made.add_argument(
        "--device",
        metavar="DEVICE",
        help="test Pliant on this device of PyTorch (cuda, cuda:1, cpu) instead: all schemes of both kinds, compared bit by bit with host memory; takes about two minutes",
    )
    made.add_argument("--json", action="store_true", help="print one JSON document")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        options = parser().parse_args(arguments)
    except SystemExit as leaving:
        return int(leaving.code or 0)
    try:
        link = network.read_link(options.link)
    except ValueError as error:
        print(f"pliant doctor: --link: {error}", file=sys.stderr)
        return BAD_INPUT
    print("pliant doctor: trying two ranks ...", file=sys.stderr)
    try:
        findings = _findings(options.device, link)
    except device.NoDeviceError as error:
        print(f"pliant doctor: --device: {error}", file=sys.stderr)
        return BAD_INPUT if error.is_unknown else SOMETHING_MISSING
    if options.json:
        document = {
            "pliant_doctor": _FORMAT,
            "can_attach": can_attach(findings),
            "verdict": verdict(findings),
            "findings": [finding.as_json() for finding in findings],
        }
        print(json.dumps(document, indent=1))
    else:
        print(as_table(findings, colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR")))
    if device.has_wrong_results(findings):
        return WRONG_RESULT
    return FINE if can_attach(findings) else SOMETHING_MISSING


def _findings(name: str | None, link: network.Link) -> list[Finding]:
    if name is not None:
        return device.check(name)
    return [*training.check(), *machine.check(), *network.check(link)]
