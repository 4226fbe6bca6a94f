# SPDX-License-Identifier: MIT
"""Facts that one rank of a trial finds: JSON lines, each written as soon as it is known, so that a
rank that dies leaves what it had found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Facts:
    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, **facts: Any) -> None:
        with self._path.open("a") as out:
            out.write(json.dumps(facts) + "\n")


def text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
