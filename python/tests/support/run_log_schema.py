# SPDX-License-Identifier: MIT
"""Check of a run log against docs/formats/run-log.md, key by key.

python python/tests/support/run_log_schema.py run.jsonl ...
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Line = dict[str, Any]

_NUMBER = (int, float)
_MAYBE = (int, float, type(None))
_LINK = {"latency": _NUMBER, "latency_sd": _NUMBER, "rate": _MAYBE, "rate_sd": _MAYBE}
_EXCHANGE = {
    "group": int,
    "lane": int,
    "begin": _NUMBER,
    "enter": _NUMBER,
    "leave": _NUMBER,
    "end": _NUMBER,
    "bytes": int,
    "entries": int,
}
_PREDICTION = {
    "plan": str,
    "step": _NUMBER,
    "exchange": _NUMBER,
    "exposed": _NUMBER,
    "efficiency": _NUMBER,
    "updated": _NUMBER,
    "gain": _NUMBER,
    "bytes": _NUMBER,
}
_SUMMARY = {
    "plan": str,
    "steps": int,
    "exchanges": int,
    "bytes": int,
    "control_bytes": int,
    "voids": int,
}

KEYS: dict[str, dict[str, Any]] = {
    "header": {
        "format": str, "version": int, "name": str, "started": _NUMBER, "mono": _NUMBER, "versions": dict, "command": list, "rank": int, "world": int, "lanes": int,
        "parameters": int, "layout": str, "options": dict, "optimizer": (str, type(None)), "costs": str, "buckets": list,
    },
    "step": {
        "step": int, "plan": str, "epoch": int, "round": (int, type(None)), "whole": _MAYBE, "compute": _MAYBE, "exposed": _NUMBER, "coding": _NUMBER,
        "predicted": _MAYBE, "seen": _MAYBE, "bytes": int, "control_bytes": int, "link": (dict, type(None)), "dense_step": _MAYBE, "worth": _NUMBER, "updated": _MAYBE, "gain": _MAYBE,
        "residual_ratio": _MAYBE, "void": bool, "exchanges": list,
    },
    "decision": {
        "step": int, "round": int, "epoch": int, "plan": str, "from": (str, type(None)), "changed": bool, "trial": bool, "short": str, "reason": str, "inputs": str, "candidates": int,
        "front": list, "chosen": (dict, type(None)),
    },
    "note": {"step": int, "values": dict},
    "phase": {"step": int, "name": str},
    "message": {"level": str, "text": str},
    "end": {"step": int, "status": str, "error": (str, type(None)), "summary": dict},
}  # fmt: skip


def read(path: str | Path) -> list[Line]:
    """All complete lines."""
    whole = Path(path).read_bytes().split(b"\n")
    return [json.loads(line) for line in whole[:-1]]


def of_type(lines: Iterable[Line], kind: str) -> list[Line]:
    return [line for line in lines if line["type"] == kind]


def check(lines: list[Line], *, ended: bool = True) -> None:
    """AssertionError names the line. `ended`: the run came to its end."""
    assert lines, "an empty log"
    last = -1.0
    announced: set[str] = set()
    for number, line in enumerate(lines, 1):
        where = f"line {number}: {line}"
        kind = line.get("type")
        assert kind in KEYS, where
        assert (kind == "header") == (number == 1), where
        assert line["t"] >= last, f"time went back, {where}"
        last = line["t"]
        _keys(line, {"type": str, "t": _NUMBER, **KEYS[kind]}, where)
        if kind == "header":
            assert (line["format"], line["version"]) == ("pliant-run-log", 1), where
            assert re.fullmatch("[0-9a-f]{16}", line["layout"]), where
            assert "pliant" in line["versions"], where
            assert sum(line["buckets"]) == line["parameters"], where
            assert "costs" in json.loads(line["costs"]), where
        elif kind == "step":
            _step(line, where)
            assert line["plan"] in announced, f"no decision before it, {where}"
        elif kind == "decision":
            announced.add(line["plan"])
            _decision(line, where)
        elif kind == "note":
            assert all(isinstance(value, _MAYBE) for value in line["values"].values()), where
        elif kind == "message":
            assert line["level"] in ("info", "warning"), where
        elif kind == "end":
            assert number == len(lines), f"something after the end, {where}"
            assert (line["status"] == "failed") == (line["error"] is not None), where
            _keys(line["summary"], _SUMMARY, where)
    steps = [line["step"] for line in of_type(lines, "step")]
    assert steps == list(range(len(steps))), steps
    if ended:
        assert lines[-1]["type"] == "end", "no end"
        assert lines[-1]["step"] == len(steps), "the end knows of other steps"


def _keys(line: Line, expected: dict[str, Any], where: str) -> None:
    assert set(line) == set(expected), f"keys {sorted(set(line) ^ set(expected))}, {where}"
    for key, kind in expected.items():
        assert isinstance(line[key], kind), f"{key}, {where}"


def _step(line: Line, where: str) -> None:
    if line["link"] is not None:
        _keys(line["link"], _LINK, where)
    for exchange in line["exchanges"]:
        _keys(exchange, _EXCHANGE, where)
        assert (
            exchange["begin"] <= exchange["enter"] + 1e-6
            and exchange["enter"] <= exchange["leave"] <= exchange["end"] + 1e-6
        ), where
    assert sum(exchange["bytes"] for exchange in line["exchanges"]) <= line["bytes"], where
    for key in ("whole", "compute", "exposed", "coding", "predicted", "seen"):
        assert line[key] is None or line[key] >= 0, where
    for key in ("updated", "gain"):
        assert line[key] is None or 0 <= line[key] <= 1, where
    if line["whole"] is not None:
        assert line["compute"] <= line["whole"] + 1e-9, where
    if line["round"] is None:
        assert not line["exchanges"] and line["seen"] is None, where
        assert line["predicted"] is None, where


def _decision(line: Line, where: str) -> None:
    assert line["changed"] == (line["from"] != line["plan"]), where
    assert line["reason"] and line["short"] and len(line["short"]) < 160, where
    for prediction in [*line["front"], *([line["chosen"]] if line["chosen"] else [])]:
        _keys(prediction, _PREDICTION, where)
    times = [prediction["step"] for prediction in line["front"]]
    assert times == sorted(times), where


if __name__ == "__main__":
    for path in sys.argv[1:]:
        found = read(path)
        check(found, ended=found[-1]["type"] == "end")
        print(f"{path}: {len(found)} lines, {len(of_type(found, 'step'))} steps: as documented")
