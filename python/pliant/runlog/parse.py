# SPDX-License-Identifier: MIT
"""Parsers that turn the keys of one line into its dataclass. Unknown keys and types are ignored."""

from __future__ import annotations

import json
import math
from typing import Any

from pliant.runlog.keys import Keys, as_float, short
from pliant.runlog.lines import (
    FORMAT,
    VERSION,
    Candidate,
    Decision,
    End,
    Exchange,
    Header,
    Line,
    Link,
    Message,
    Note,
    Phase,
    Step,
)


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
            f"the log's version is {short(json.dumps(version))}; this pliant reads version {VERSION}"
        )
    return Header(
        name=keys.text("name"),
        started=keys.number("started"),
        mono=keys.number("mono"),
        versions=keys.texts("versions"),
        command=[str(word) for word in keys.array("command")],
        rank=keys.count("rank"),
        world=keys.count("world"),
        lanes=keys.count("lanes"),
        parameters=keys.count("parameters"),
        layout=keys.text("layout"),
        options=keys.texts("options"),
        optimizer=keys.maybe_text("optimizer"),
        buckets=[size for size in keys.array("buckets") if isinstance(size, int)],
    )


def line(keys: Keys) -> Line | None:
    kind, t = keys.text("type"), keys.number("t")
    match kind:
        case "step":
            return _step(keys, t)
        case "decision":
            return _decision(keys, t)
        case "note":
            return Note(t, keys.count("step"), _noted(keys))
        case "phase":
            return Phase(t, keys.count("step"), keys.text("name"))
        case "message":
            return Message(t, keys.text("level"), keys.text("text"))
        case "end":
            return End(
                t,
                keys.count("step"),
                keys.text("status"),
                keys.maybe_text("error"),
                keys.object("summary") or {},
            )
        case "header":
            raise keys.fail("a second header: a file holds one run")
    return None


def _step(keys: Keys, t: float) -> Step:
    return Step(
        t=t,
        step=keys.count("step"),
        plan=keys.text("plan"),
        epoch=keys.count("epoch"),
        round=keys.maybe_count("round"),
        whole=keys.maybe_number("whole"),
        compute=keys.maybe_number("compute"),
        exposed=keys.maybe_number("exposed"),
        coding=keys.maybe_number("coding"),
        predicted=keys.maybe_number("predicted"),
        seen=keys.maybe_number("seen"),
        bytes=keys.maybe_count("bytes") or 0,
        control_bytes=keys.maybe_count("control_bytes") or 0,
        link=_link(keys.keys("link")),
        dense_step=keys.maybe_number("dense_step"),
        updated=keys.maybe_number("updated"),
        gain=keys.maybe_number("gain"),
        residual_ratio=keys.maybe_number("residual_ratio"),
        void=keys.flag("void"),
        exchanges=[_exchange(each) for each in keys.objects("exchanges")],
    )


def _link(keys: Keys | None) -> Link | None:
    if keys is None:
        return None
    latency, rate = keys.maybe_number("latency"), keys.maybe_number("rate")
    if latency is None or rate is None:
        return None
    return Link(latency, keys.maybe_number("latency_sd"), rate, keys.maybe_number("rate_sd"))


def _exchange(keys: Keys) -> Exchange:
    return Exchange(
        group=keys.count("group"),
        lane=keys.count("lane"),
        begin=keys.number("begin"),
        enter=keys.number("enter"),
        leave=keys.number("leave"),
        end=keys.number("end"),
        bytes=keys.count("bytes"),
        entries=keys.count("entries"),
    )


def _decision(keys: Keys, t: float) -> Decision:
    chosen = keys.keys("chosen")
    return Decision(
        t=t,
        step=keys.count("step"),
        epoch=keys.count("epoch"),
        plan=keys.text("plan"),
        before=keys.maybe_text("from"),
        changed=keys.flag("changed"),
        trial=keys.flag("trial"),
        reason=keys.text("reason"),
        inputs=_inputs(keys.values.get("inputs")),
        candidates=keys.maybe_count("candidates"),
        front=[_candidate(each) for each in keys.objects("front")],
        chosen=None if chosen is None else _candidate(chosen),
    )


def _inputs(value: Any) -> str | None:
    """For people: a text as it is, anything else as JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _candidate(keys: Keys) -> Candidate:
    return Candidate(
        keys.text("plan"),
        *(
            keys.maybe_number(key)
            for key in ("step", "exchange", "exposed", "efficiency", "updated", "gain", "bytes")
        ),
    )


def _noted(keys: Keys) -> dict[str, float]:
    values = keys.object("values") or {}
    for name, value in values.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise keys.fail(
                f"'{short(name)}' in 'values' is {short(json.dumps(value))}, not a number"
            )
    return {name: math.nan if value is None else as_float(value) for name, value in values.items()}
