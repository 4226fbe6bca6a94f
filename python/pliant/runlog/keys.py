# SPDX-License-Identifier: MIT
"""Typed access to the keys of one JSON line: a wrong type is a RunLogError that names the key."""

from __future__ import annotations

import json
import math
from typing import Any, TypeVar

from pliant.runlog.lines import RunLogError

T = TypeVar("T")


class Keys:
    """The keys of a line, by type. A key that may be null may be absent."""

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
            raise self.fail(f"'{key}' is {short(json.dumps(value))}, not a number")
        return as_float(value) if math.isfinite(as_float(value)) else None

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
            raise self.fail(f"'{key}' is {short(json.dumps(value))}, not a text")
        return value

    def text(self, key: str) -> str:
        return self._present(key, self.maybe_text(key))

    def flag(self, key: str) -> bool:
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.fail(f"'{key}' is {short(json.dumps(value))}, not true or false")
        return bool(value)

    def object(self, key: str) -> dict[str, Any] | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.fail(f"'{key}' is not an object")
        return value

    def keys(self, key: str) -> Keys | None:
        value = self.object(key)
        return None if value is None else Keys(value, f"{self.where}: in '{key}'")

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

    def objects(self, key: str) -> list[Keys]:
        values = self.array(key)
        if not all(isinstance(value, dict) for value in values):
            raise self.fail(f"'{key}' is not a list of objects")
        return [Keys(value, f"{self.where}: in '{key}'") for value in values]


def encodable(value: Any) -> Any:
    """JSON can write halves of surrogate pairs, which no file or terminal takes: question marks
    instead."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [encodable(each) for each in value]
    if isinstance(value, dict):
        return {encodable(key): encodable(each) for key, each in value.items()}
    return value


def as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
