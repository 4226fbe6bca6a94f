# SPDX-License-Identifier: MIT
"""Reader of run logs (docs/formats/run-log.md): a whole file at once, or a file while it grows.

Every line is checked key by key. An incomplete last line is ignored. Any other defect is a
RunLogError that names the file and the line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pliant.runlog import parse
from pliant.runlog.keys import Keys, encodable, short
from pliant.runlog.lines import Line, RunLog, RunLogError


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
            self.log = RunLog(self.path, parse.header(Keys(self._object(first), self._where())))
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def lines(self) -> Iterator[Line]:
        while (text := self._complete_line()) is not None:
            keys = Keys(self._object(text), self._where())
            if (line := parse.line(keys)) is not None:
                yield line

    def was_replaced(self) -> bool:
        """Whether another run writes to the path now. The log that is read here was renamed."""
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False
        here = os.fstat(self._file.fileno())
        return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)

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
            raise RunLogError(f"{self._where()}: not JSON ({short(str(error))})") from None
        if not isinstance(value, dict):
            raise RunLogError(f"{self._where()}: not a JSON object")
        return encodable(value) if b"\\u" in text else value
