# SPDX-License-Identifier: MIT
"""`pliant report` in this process: its exit code, or its figures."""

from __future__ import annotations

import json

import pytest
from pliant.report import cli


def report(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def figures(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    assert report(*arguments, "--json") == 0
    out: dict[str, object] = json.loads(capsys.readouterr().out)
    return out
