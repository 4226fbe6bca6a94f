# SPDX-License-Identifier: MIT
"""Reads the run log (docs/formats/run-log.md): a whole file at once, or as it grows.

A line is checked key by key, so that what comes out has the types it says. Keys and types that are
not known are passed over, an incomplete last line is ignored, and everything else that is wrong is
a RunLogError that names the file and the line."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

FORMAT, VERSION = "pliant-run-log", 1

T = TypeVar("T")


class RunLogError(ValueError):
    """A file that is no run log, or not one of this version. The text names the file, and the line
    if there is one."""


@dataclass(frozen=True)
class Header:
    name: str
    started: float
    mono: float
    versions: dict[str, str]
    command: list[str]
    rank: int
    world: int
    lanes: int
    parameters: int
    layout: str
    options: dict[str, str]
    optimizer: str | None
    buckets: list[int]


@dataclass(frozen=True)
class Link:
    latency: float
    latency_sd: float | None
    rate: float
    rate_sd: float | None


@dataclass(frozen=True)
class Exchange:
    group: int
    lane: int
    begin: float
    enter: float
    leave: float
    end: float
    bytes: int
    entries: int


@dataclass(frozen=True)
class Step:
    t: float
    step: int
    plan: str
    epoch: int
    round: int | None
    whole: float | None
    compute: float | None
    exposed: float | None
    coding: float | None
    predicted: float | None
    seen: float | None
    bytes: int
    control_bytes: int
    link: Link | None
    dense_step: float | None
    updated: float | None
    gain: float | None
    residual_ratio: float | None
    void: bool
    exchanges: list[Exchange]


@dataclass(frozen=True)
class Candidate:
    """A plan with what the model said of it."""

    plan: str
    step: float | None
    exchange: float | None
    exposed: float | None
    efficiency: float | None
    updated: float | None
    gain: float | None
    bytes: float | None


@dataclass(frozen=True)
class Decision:
    t: float
    step: int
    epoch: int
    plan: str
    before: str | None
    changed: bool
    trial: bool
    reason: str
    inputs: str | None
    candidates: int | None
    front: list[Candidate]
    chosen: Candidate | None


@dataclass(frozen=True)
class Note:
    t: float
    step: int
    values: dict[str, float]  # not a number where the job said so: a loss that has diverged


@dataclass(frozen=True)
class Phase:
    t: float
    step: int
    name: str


@dataclass(frozen=True)
class Message:
    t: float
    level: str
    text: str


@dataclass(frozen=True)
class End:
    t: float
    step: int
    status: str
    error: str | None
    summary: dict[str, Any]


Line = Step | Decision | Note | Phase | Message | End


@dataclass
class RunLog:
    path: Path
    header: Header
    steps: list[Step] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    end: End | None = None

    def add(self, line: Line) -> None:
        match line:
            case Step():
                self.steps.append(line)
            case Decision():
                self.decisions.append(line)
            case Note():
                self.notes.append(line)
            case Phase():
                self.phases.append(line)
            case Message():
                self.messages.append(line)
            case End():
                self.end = line

    def moves(self) -> list[str]:
        """What each decision did: "first", "trial" (for one exchange), "changed", or "kept", also
        where a trial gives way to the plan before it."""
        out, settled = [], None
        for decision in self.decisions:
            if decision.trial:
                out.append("trial")
                continue
            out.append(
                "first" if settled is None else "changed" if decision.plan != settled else "kept"
            )
            settled = decision.plan
        return out

    @property
    def seconds(self) -> float:
        """How far the log reaches."""
        ends = [self.end.t] if self.end else []
        return max(
            [
                0.0,
                *ends,
                *(
                    lines[-1].t
                    for lines in (
                        self.steps,
                        self.decisions,
                        self.notes,
                        self.phases,
                        self.messages,
                    )
                    if lines
                ),
            ]
        )


def read(path: Path | str) -> RunLog:
    """The whole of a log, finished or not."""
    follower = Follower(Path(path))
    try:
        with follower:
            log = follower.log
            for line in follower.lines():
                log.add(line)
    except OSError as error:
        raise RunLogError(f"{path}: {error.strerror or error}") from None
    return log


class Follower:
    """A log that may still be growing: `lines()` gives what has been completed since the last call.

    Opening reads the header, and fails where there is none. What stands after the last end of a
    line is left for the next call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._number = 0

    def __enter__(self) -> Follower:
        if self.path.is_dir():
            raise RunLogError(f"{self.path}: a folder, not a run log")
        self._file: BinaryIO = self.path.open("rb")
        try:
            first = self._complete_line()
            if first is None:
                raise RunLogError(self._headless())
            self.log = RunLog(self.path, _header(_Keys(self._object(first), self._where())))
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def lines(self) -> Iterator[Line]:
        while (text := self._complete_line()) is not None:
            keys = _Keys(self._object(text), self._where())
            if (line := _line(keys)) is not None:
                yield line

    def _complete_line(self) -> bytes | None:
        begin = self._file.tell()
        text = self._file.readline()
        if not text.endswith(b"\n"):
            self._file.seek(begin)
            if os.fstat(self._file.fileno()).st_size < begin:
                raise RunLogError(f"{self.path}: has become shorter: another run writes into it")
            return None
        self._number += 1
        return text

    def _headless(self) -> str:
        if not self._file.read(1):
            return f"{self.path}: the file is empty; a run log begins with a header"
        return f"{self.path}: line 1: not a run log, or cut off within its header: the first line is not complete"

    def _where(self) -> str:
        return f"{self.path}: line {self._number}"

    def _object(self, text: bytes) -> dict[str, Any]:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RunLogError(f"{self._where()}: not JSON ({_short(str(error))})") from None
        if not isinstance(value, dict):
            raise RunLogError(f"{self._where()}: not a JSON object")
        return _encodable(value) if b"\\u" in text else value


class _Keys:
    """The keys of a line, by type. What may be null may be absent."""

    def __init__(self, values: dict[str, Any], where: str) -> None:
        self.values = values
        self.where = where

    def fail(self, what: str) -> RunLogError:
        return RunLogError(f"{self.where}: {what}")

    def _present(self, key: str, value: T | None) -> T:
        if value is None:
            raise self.fail(f"the key '{key}' is missing")
        return value

    def maybe_number(self, key: str) -> float | None:
        """None for what is not finite, too: nothing here can be drawn at infinity."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fail(f"'{key}' is {_short(json.dumps(value))}, not a number")
        return _float(value) if math.isfinite(_float(value)) else None

    def number(self, key: str) -> float:
        return self._present(key, self.maybe_number(key))

    def maybe_count(self, key: str) -> int | None:
        value = self.maybe_number(key)
        if value is None:
            return None
        if value < 0 or value != math.floor(value):
            raise self.fail(f"'{key}' is {value:g}, not a count")
        return int(value)

    def count(self, key: str) -> int:
        return self._present(key, self.maybe_count(key))

    def maybe_text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.fail(f"'{key}' is {_short(json.dumps(value))}, not a text")
        return value

    def text(self, key: str) -> str:
        return self._present(key, self.maybe_text(key))

    def flag(self, key: str) -> bool:
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.fail(f"'{key}' is {_short(json.dumps(value))}, not true or false")
        return bool(value)

    def object(self, key: str) -> dict[str, Any] | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.fail(f"'{key}' is not an object")
        return value

    def keys(self, key: str) -> _Keys | None:
        value = self.object(key)
        return None if value is None else _Keys(value, f"{self.where}: in '{key}'")

    def texts(self, key: str) -> dict[str, str]:
        return {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in (self.object(key) or {}).items()
        }

    def array(self, key: str) -> list[Any]:
        value = self.values.get(key)
        if value is not None and not isinstance(value, list):
            raise self.fail(f"'{key}' is not a list")
        return value or []

    def objects(self, key: str) -> list[_Keys]:
        values = self.array(key)
        if not all(isinstance(value, dict) for value in values):
            raise self.fail(f"'{key}' is not a list of objects")
        return [_Keys(value, f"{self.where}: in '{key}'") for value in values]


def _encodable(value: Any) -> Any:
    """JSON can write halves of surrogate pairs, which no file or terminal takes: question marks
    instead."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_encodable(each) for each in value]
    if isinstance(value, dict):
        return {_encodable(key): _encodable(each) for key, each in value.items()}
    return value


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _header(keys: _Keys) -> Header:
    found = keys.values.get("format")
    if keys.values.get("type") != "header" or found != FORMAT:
        what = (
            f"its format is {_short(json.dumps(found))}"
            if found is not None
            else "its first line is no header"
        )
        raise keys.fail(f'not a run log: {what}, not "{FORMAT}"')
    version = keys.values.get("version")
    if version != VERSION or isinstance(version, bool):
        raise keys.fail(
            f"the log's version is {_short(json.dumps(version))}; this pliant reads version {VERSION}"
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


def _line(keys: _Keys) -> Line | None:
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


def _step(keys: _Keys, t: float) -> Step:
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


def _link(keys: _Keys | None) -> Link | None:
    if keys is None:
        return None
    latency, rate = keys.maybe_number("latency"), keys.maybe_number("rate")
    if latency is None or rate is None:
        return None
    return Link(latency, keys.maybe_number("latency_sd"), rate, keys.maybe_number("rate_sd"))


def _exchange(keys: _Keys) -> Exchange:
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


def _decision(keys: _Keys, t: float) -> Decision:
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


def _candidate(keys: _Keys) -> Candidate:
    return Candidate(
        keys.text("plan"),
        *(
            keys.maybe_number(key)
            for key in ("step", "exchange", "exposed", "efficiency", "updated", "gain", "bytes")
        ),
    )


def _noted(keys: _Keys) -> dict[str, float]:
    values = keys.object("values") or {}
    for name, value in values.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise keys.fail(
                f"'{_short(name)}' in 'values' is {_short(json.dumps(value))}, not a number"
            )
    return {name: math.nan if value is None else _float(value) for name, value in values.items()}
