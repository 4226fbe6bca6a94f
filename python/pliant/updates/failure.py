# SPDX-License-Identifier: MIT
"""Memory of the first failure of an exchange, which every later call raises again: ranks that have
lost each other must not go on training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Failure:
    def __init__(self) -> None:
        self._error: Exception | None = None

    @property
    def happened(self) -> bool:
        return self._error is not None

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    @contextmanager
    def remember(self) -> Iterator[None]:
        self.check()
        try:
            yield
        except Exception as error:
            self._error = error
            raise
