# SPDX-License-Identifier: MIT
"""Collector of what is logged under "pliant"."""

from __future__ import annotations

import logging


class Messages(logging.Handler):
    """Collects what is logged under "pliant"."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.levels: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.levels.append((record.levelno, record.getMessage()))
        self.texts.append(record.getMessage())

    def __enter__(self) -> Messages:
        logging.getLogger("pliant").addHandler(self)
        logging.getLogger("pliant").setLevel(logging.DEBUG)
        return self

    def __exit__(self, *exception: object) -> None:
        logging.getLogger("pliant").removeHandler(self)

    def count(self, words: str) -> int:
        return sum(words in text for text in self.texts)
