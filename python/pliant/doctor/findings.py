# SPDX-License-Identifier: MIT
"""Findings of the doctor's checks, and their display as a table."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class State(Enum):
    OK = "ok"
    NOTE = "note"
    """Good to know."""
    ADVICE = "advice"
    """Works, but could work better."""
    MISSING = "missing"
    """Something that is not needed for training does not work here."""
    BROKEN = "broken"
    """`pliant.attach` will not work."""


_COLOURS = {
    State.OK: "32",
    State.NOTE: "0",
    State.ADVICE: "33",
    State.MISSING: "33",
    State.BROKEN: "31;1",
}


@dataclass(frozen=True)
class Finding:
    area: str
    name: str
    state: State
    found: str
    fix: str = ""
    """Command or advice that mends it; empty if all is well."""

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "state": self.state.value}


def can_attach(findings: Sequence[Finding]) -> bool:
    return all(finding.state is not State.BROKEN for finding in findings)


def verdict(findings: Sequence[Finding]) -> str:
    broken = [finding.name for finding in findings if finding.state is State.BROKEN]
    if broken:
        return f"pliant.attach() will not work here: {', '.join(broken)}"
    count = {state: sum(finding.state is state for finding in findings) for state in State}
    rest = [
        f"{count[state]} {words}"
        for state, words in ((State.MISSING, "missing beside it"), (State.ADVICE, "with advice"))
        if count[state]
    ]
    return "pliant.attach() works here" + (f" ({', '.join(rest)})" if rest else "")


def as_table(findings: Sequence[Finding], *, colour: bool) -> str:
    """The verdict, then one line for each finding; below it what to do."""
    width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 120))
    indent = max(len(finding.name) for finding in findings) + 13
    lines = [verdict(findings)]
    area = ""
    for finding in findings:
        if finding.area != area:
            area = finding.area
            lines += ["", area]
        state = f"{finding.state.value:8}"
        if colour:
            state = f"\033[{_COLOURS[finding.state]}m{state}\033[0m"
        text = textwrap.wrap(
            finding.found, width - indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
        lines.append(f"  {state} {finding.name:{indent - 12}} {text[0]}")
        lines += [" " * indent + line for line in text[1:]]
        # A command stays on one line, however wide the terminal is.
        lines += [" " * indent + "-> " + line for line in finding.fix.splitlines()]
    return "\n".join(lines)
