# SPDX-License-Identifier: MIT
"""Run log (docs/formats/run-log.md) for plain DDP, which has no averager that would write one: step
times, bytes that the host sent, notes."""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

PLAN = "gradients dense reduce=backend values=f32 fuse=bucket"  # what plain DDP does


class PlainLog:
    def __init__(self, path: Path, *, world: int, parameters: int, learning_rate: float) -> None:
        import torch

        self._file = path.open(
            "w", encoding="utf-8", buffering=1
        )  # by lines: a crash costs the last one at most
        self._begin = time.monotonic()
        self._step = 0  # steps begun
        self._began = self._begin
        self._sent: int | None = None
        self._bytes = 0
        self._write(
            "header",
            format="pliant-run-log",
            version=1,
            name=path.stem,
            started=time.time(),
            mono=self._begin,
            versions={"torch": torch.__version__, "python": platform.python_version()},
            command=sys.argv,
            rank=0,
            world=world,
            lanes=0,
            parameters=parameters,
            layout="0" * 16,
            options={"plan": PLAN, "learning_rate": str(learning_rate)},
            optimizer="sgd",
            costs="",
            buckets=[parameters],
        )

    def begin_step(self, sent: int | None) -> None:
        """The step before has ended: it lasted until now. sent: by the host's network device so
        far, headers of packets included; None where it is not known."""
        self._end_step(time.monotonic(), sent)
        self._step += 1
        self._began = time.monotonic()
        self._sent = sent

    def note(self, **values: float) -> None:
        self._write("note", step=self._last(), values=values)

    def phase(self, name: str) -> None:
        self._write("phase", step=self._step, name=name)

    def close(self, sent: int | None) -> None:
        self._end_step(None, sent)
        summary = {
            "plan": PLAN,
            "steps": self._step,
            "exchanges": self._step,
            "bytes": self._bytes,
            "control_bytes": 0,
            "voids": 0,
        }
        self._write("end", step=self._step, status="closed", error=None, summary=summary)
        self._file.close()

    def _last(self) -> int:
        """The number of the step that was begun last."""
        return max(self._step, 1) - 1

    def _end_step(self, now: float | None, sent: int | None) -> None:
        if self._step == 0:
            return
        moved = None if sent is None or self._sent is None else sent - self._sent
        self._bytes += moved or 0
        unknown: dict[str, Any] = dict.fromkeys(
            (
                "compute",
                "exposed",
                "coding",
                "predicted",
                "seen",
                "link",
                "dense_step",
                "updated",
                "gain",
                "residual_ratio",
            )
        )
        whole = None if now is None else now - self._began
        step = self._step - 1
        self._write(
            "step",
            step=step,
            plan=PLAN,
            epoch=0,
            round=step,
            whole=whole,
            bytes=moved,
            control_bytes=0,
            worth=1.0,
            void=False,
            exchanges=[],
            **unknown,
        )

    def _write(self, type: str, **keys: object) -> None:
        self._file.write(
            json.dumps({"type": type, "t": time.monotonic() - self._begin, **keys}) + "\n"
        )
