# SPDX-License-Identifier: MIT
"""When has this rank completed a step? When each of its optimizers has, seen through their public
hooks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from pliant.errors import UnsupportedError
from pliant.lengthening import Lengthening
from pliant.watch import out_of_graphs


class Steps:
    """Calls `completed` after the step of the last optimizer of a round. `whole`: a step must see
    all gradients. `factor`: of their steps."""

    def __init__(
        self,
        optimizers: Sequence[torch.optim.Optimizer],
        completed: Callable[[], None],
        whole: Callable[[], bool],
        factor: Callable[[], float],
    ) -> None:
        self._completed = completed
        self._rounds = 0
        self._counts = [0] * len(optimizers)
        self._handles: list[RemovableHandle] = []
        lengthening = Lengthening(optimizers, factor)
        for place, optimizer in enumerate(optimizers):
            watched = _Depth(
                optimizer, lambda place=place: self._one_has_stepped(place), whole, lengthening
            )  # type: ignore[misc]
            self._handles.append(optimizer.register_step_pre_hook(out_of_graphs(watched.before)))
            self._handles.append(optimizer.register_step_post_hook(out_of_graphs(watched.after)))

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _one_has_stepped(self, place: int) -> None:
        self._counts[place] += 1
        if min(self._counts) > self._rounds:
            self._rounds = min(self._counts)
            self._completed()


class _Depth:
    """The hooks of one optimizer fire twice where step() calls its parent's: the outermost
    counts."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        stepped: Callable[[], None],
        whole: Callable[[], bool],
        lengthening: Lengthening,
    ) -> None:
        self._name = type(optimizer).__name__
        self._stepped = stepped
        self._whole = whole
        self._lengthening = lengthening
        self._depth = 0
        self._outermost: FrameType | None = None  # the step that began it all

    def before(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if _inside_backward() and self._whole():
            raise UnsupportedError(
                f"{self._name}.step() was called inside backward: under updates a step must see all gradients. "
                "Call it after backward, or use a plan of kind gradients."
            )
        if self._depth > 0 and not _is_running(
            self._outermost
        ):  # the last one ended by an exception
            self._depth = 0
        if self._depth == 0:
            self._outermost = _frame_of_step()
            self._lengthening.begin(optimizer)
        self._depth += 1

    def after(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth == 0:
            self._outermost = None
            self._lengthening.end(optimizer)
            self._stepped()


def _frame_of_step() -> FrameType | None:
    frame: FrameType | None = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.endswith("torch/optim/optimizer.py"):
        frame = frame.f_back
    return frame


def _is_running(wanted: FrameType | None) -> bool:
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame is not wanted:
        frame = frame.f_back
    return frame is not None


def _inside_backward() -> bool:
    task = getattr(torch._C, "_current_graph_task_id", None)
    return task is not None and task() != -1
