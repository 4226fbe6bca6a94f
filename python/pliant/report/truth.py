# SPDX-License-Identifier: MIT
"""Reader of the lab's truth log (docs/formats/lab-truth.md): the real state of the network, as the
slowest path between any two hosts."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORMAT, VERSION = "pliant-lab-truth", 1


class TruthError(ValueError):
    """A file that is no truth log. The text names it, and the line if there is one."""


@dataclass(frozen=True)
class State:
    """State of the network from `mono` on. A packet passes the sender's `out` and the receiver's
    `in`: the worse of the two counts."""

    mono: float
    latency: float
    rate: float | None  # None: unlimited
    down: bool


@dataclass
class Truth:
    path: Path
    states: list[State] = field(default_factory=list)
    phases: list[tuple[float, str]] = field(default_factory=list)  # mono, name
    last: float = 0.0  # mono of the last record

    def at(self, mono: float) -> State | None:
        index = bisect_right(self.states, mono, key=lambda state: state.mono)
        return self.states[index - 1] if index else None


def read(path: Path | str) -> Truth:
    path = Path(path)
    if path.is_dir():
        raise TruthError(f"{path}: a folder, not a truth log")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TruthError(f"{path}: {error.strerror or error}") from None
    if not data:
        raise TruthError(f"{path}: the file is empty; a truth log begins with a header")
    lines = data.split(b"\n")
    lines.pop()  # nothing, or a line that was not finished
    truth, links = Truth(path), dict[int, tuple[float, float | None, bool]]()
    for number, text in enumerate(lines, 1):
        where = f"{path}: line {number}"
        try:
            record = json.loads(text)
            if not isinstance(record, dict):
                raise ValueError("not a JSON object")
        except (ValueError, RecursionError) as error:
            raise TruthError(f"{where}: not JSON ({error})") from None
        if number == 1:
            _check_header(record, where)
        _take(record, truth, links, where)
    if not lines:
        raise TruthError(
            f"{path}: line 1: not a truth log, or cut off within its header: the first line is not "
            "complete"
        )
    return truth


def _check_header(record: dict[str, Any], where: str) -> None:
    if record.get("type") != "header" or record.get("format") != FORMAT:
        raise TruthError(
            f'{where}: not a truth log: its format is {json.dumps(record.get("format"))}, not "{FORMAT}"'
        )
    if record.get("version") != VERSION:
        raise TruthError(
            f"{where}: the truth log's version is {json.dumps(record.get('version'))}; this pliant "
            f"reads version {VERSION}"
        )


def _take(
    record: dict[str, Any],
    truth: Truth,
    links: dict[int, tuple[float, float | None, bool]],
    where: str,
) -> None:
    try:
        mono = float(record["mono"])
        truth.last = max(truth.last, mono)
        if record.get("type") == "phase":
            truth.phases.append((mono, str(record.get("phase") or "")))
        elif record.get("type") == "link":
            links[int(record["host"])] = _path_of(record["link"])
            _append(truth, _worst(mono, links))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TruthError(
            f"{where}: a key is missing or of the wrong type ({type(error).__name__}: {error})"
        ) from None


def _path_of(link: dict[str, Any]) -> tuple[float, float | None, bool]:
    ways = [link["out"], link["in"]]
    rates = [
        float(way["rate_bits_per_second"])
        for way in ways
        if way.get("rate_bits_per_second") is not None
    ]
    down = bool(link.get("down")) or any(bool(way.get("blackhole")) for way in ways)
    return max(float(way["delay_s"]) for way in ways), min(rates) if rates else None, down


def _worst(mono: float, links: dict[int, tuple[float, float | None, bool]]) -> State:
    rate = min(
        (rate if rate is not None else math.inf for _, rate, _ in links.values()), default=math.inf
    )
    return State(
        mono,
        max(latency for latency, _, _ in links.values()),
        rate if math.isfinite(rate) else None,
        any(down for _, _, down in links.values()),
    )


def _append(truth: Truth, state: State) -> None:
    """Hosts change one line after the other, at the same moment: one state."""
    if truth.states and truth.states[-1].mono == state.mono:
        truth.states.pop()
    truth.states.append(state)
