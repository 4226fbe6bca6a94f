# SPDX-License-Identifier: MIT
"""Command-line parser whose errors are one line, with a suggestion for a mistyped option."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import NoReturn


class BadInput(ValueError):
    """Options or values that cannot be used. The text is for the person who typed them."""


class Parser(argparse.ArgumentParser):
    """Raises BadInput instead of leaving the program."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(message)

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        options, rest = self.parse_known_args(list(arguments))
        for word in rest:
            near = difflib.get_close_matches(word.split("=")[0], self._option_string_actions, 1)
            raise BadInput(
                f"unknown option '{word}'"
                + (f"; did you mean {near[0]}?" if near else f"; see {self.prog} --help")
            )
        return options
