# SPDX-License-Identifier: MIT
"""Logger that writes each of its warnings once."""

from __future__ import annotations

import logging

_logger = logging.getLogger("pliant")


class LogOnce:
    def __init__(self) -> None:
        self._written: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._written

    def warning(self, key: str, text: str) -> None:
        """key: what the warning is about; only the first text of a key is written."""
        if key not in self._written:
            self._written.add(key)
            _logger.warning(text)
