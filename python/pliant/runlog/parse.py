# SPDX-License-Identifier: MIT
"""Parsers that turn the keys of one line into its dataclass. The type of a field says how its key
is read. Unknown keys and types of lines are ignored."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, get_type_hints

from pliant.runlog import lines
from pliant.runlog.keys import Keys, as_float, short
from pliant.runlog.lines import FORMAT, VERSION, Candidate, Header, Line, Link

T = TypeVar("T")

_READERS: dict[Any, Callable[[Keys, str], Any]] = {
    bool: Keys.flag,
    int: Keys.count,
    int | None: Keys.maybe_count,
    float: Keys.number,
    float | None: Keys.maybe_number,
    str: Keys.text,
    str | None: Keys.maybe_text,
    dict[str, str]: Keys.texts,
}


def header(keys: Keys) -> Header:
    found = keys.values.get("format")
    if keys.values.get("type") != "header" or found != FORMAT:
        what = (
            f"its format is {short(json.dumps(found))}"
            if found is not None
            else "its first line is no header"
        )
        raise keys.fail(f'not a run log: {what}, not "{FORMAT}"')
    version = keys.values.get("version")
    if version != VERSION or isinstance(version, bool):
        raise keys.fail(
            f"the log's version is {short(json.dumps(version))}; this pliant reads version "
            f"{VERSION}"
        )
    return _made(
        Header,
        keys,
        command=[str(word) for word in keys.array("command")],
        buckets=[size for size in keys.array("buckets") if isinstance(size, int)],
    )


def line(keys: Keys) -> Line | None:
    match keys.text("type"):
        case "step":
            return _made(
                lines.Step,
                keys,
                bytes=keys.maybe_count("bytes") or 0,
                control_bytes=keys.maybe_count("control_bytes") or 0,
                link=_link(keys.keys("link")),
                exchanges=[_made(lines.Exchange, each) for each in keys.objects("exchanges")],
            )
        case "decision":
            chosen = keys.keys("chosen")
            return _made(
                lines.Decision,
                keys,
                before=keys.maybe_text("from"),
                short=keys.maybe_text("short") or keys.text("reason"),  # older logs have no short
                inputs=_inputs(keys.values.get("inputs")),
                front=[_made(Candidate, each) for each in keys.objects("front")],
                chosen=None if chosen is None else _made(Candidate, chosen),
            )
        case "note":
            return _made(lines.Note, keys, values=_noted(keys))
        case "phase":
            return _made(lines.Phase, keys)
        case "message":
            return _made(lines.Message, keys)
        case "end":
            return _made(lines.End, keys, summary=keys.object("summary") or {})
        case "header":
            raise keys.fail("a second header: a file holds one run")
    keys.number("t")
    return None


def _made(kind: Callable[..., T], keys: Keys, **given: Any) -> T:
    """A dataclass whose other fields than `given` are read by their types, in their order."""
    read = {name: by(keys, name) for name, by in _fields(kind) if name not in given}
    return kind(**read, **given)


@cache
def _fields(kind: Callable[..., Any]) -> list[tuple[str, Callable[[Keys, str], Any]]]:
    hints = get_type_hints(kind)
    return [(name, _READERS[hint]) for name, hint in hints.items() if hint in _READERS]


def _link(keys: Keys | None) -> Link | None:
    if keys is None or keys.maybe_number("latency") is None or keys.maybe_number("rate") is None:
        return None
    return _made(Link, keys)


def _inputs(value: Any) -> str | None:
    """For people: a text as it is, anything else as JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _noted(keys: Keys) -> dict[str, float]:
    values = keys.object("values") or {}
    for name, value in values.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise keys.fail(
                f"'{short(name)}' in 'values' is {short(json.dumps(value))}, not a number"
            )
    return {name: math.nan if value is None else as_float(value) for name, value in values.items()}
