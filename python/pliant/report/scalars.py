# SPDX-License-Identifier: MIT
"""Writer of TensorBoard event files: a folder for each run, a scalar for each noted value and each
figure of a step."""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pliant.runlog import RunLog, Step, plan_text
from pliant.tools import formatting

STEP_KEYS = (
    "whole",
    "compute",
    "exposed",
    "coding",
    "predicted",
    "seen",
    "bytes",
    "dense_step",
    "updated",
    "gain",
    "residual_ratio",
)


class NoTensorBoard(RuntimeError):
    """The package `tensorboard` is not installed here."""


def folder_names(logs: Sequence[RunLog]) -> list[str]:
    """From the runs' names, with nothing in them that a path or a shell would take amiss; no two
    alike."""
    names: list[str] = []
    for log in logs:
        name = base = re.sub(r"[^A-Za-z0-9._+=-]+", "-", log.header.name).strip(".-")[:80] or "run"
        number = 1
        while name in names:
            number += 1
            name = f"{base}-{number}"
        names.append(name)
    return names


def check(logs: Sequence[RunLog], folder: Path) -> None:
    """Refuses, before anything is written, what cannot be or would be written into somebody's
    earlier runs."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder}: a file, not a folder")
    for name in folder_names(logs):
        if (folder / name).exists():
            raise FileExistsError(
                f"{folder / name} exists already; TensorBoard would show both runs as one"
            )
    _writer()


def _writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise NoTensorBoard(
            "--tensorboard needs the Python package tensorboard, which is not here: pip install "
            "tensorboard"
        ) from None
    return SummaryWriter


def write(logs: Sequence[RunLog], folder: Path) -> None:
    writer_of = _writer()
    folder.mkdir(parents=True, exist_ok=True)
    for log, name in zip(logs, folder_names(logs), strict=True):
        temporary = Path(tempfile.mkdtemp(prefix=".pliant-", dir=folder))
        try:
            with writer_of(log_dir=str(temporary)) as writer:
                for tag, value, step, t in _scalars(log):
                    writer.add_scalar(tag, value, step, walltime=log.header.started + t)
            temporary.chmod(0o755)
            temporary.rename(folder / name)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _scalars(log: RunLog) -> Iterator[tuple[str, float, int, float]]:
    for note in log.notes:
        for name, value in note.values.items():
            yield f"noted/{formatting.plain(name)}", value, note.step, note.t
    for step in log.steps:
        for tag, figure in _of_step(step):
            if figure is not None and math.isfinite(figure):
                yield tag, figure, step.step, step.t


def _of_step(step: Step) -> Iterator[tuple[str, float | None]]:
    for key in STEP_KEYS:
        yield f"step/{key}", getattr(step, key)
    yield "plan/density_percent", plan_text.density(step.plan)
    if step.link:
        yield "link/latency", step.link.latency
        yield "link/rate", step.link.rate
