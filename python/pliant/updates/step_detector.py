# SPDX-License-Identifier: MIT
"""Detector of completed training steps: a step is complete when every optimizer has stepped.

It uses the public hooks of optimizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from pliant.ddp.loop_observer import not_compiled
from pliant.errors import UnsupportedError
from pliant.updates.clipping import Clipping
from pliant.updates.frames import frame_of, is_running
from pliant.updates.step_scale import StepScale


class StepDetector:
    """Calls `completed` after the last optimizer of a step. `needs_all_gradients`: whether a step
    inside backward is an error. `begins`: called before an optimizer steps. `scale`: the factor on
    the learning rates of Adam. `clipping`: of the gradients that a step uses."""

    def __init__(
        self,
        optimizers: Sequence[torch.optim.Optimizer],
        completed: Callable[[], object],
        needs_all_gradients: Callable[[], bool],
        begins: Callable[[], object],
        scale: Callable[[], float],
        clipping: Clipping,
    ) -> None:
        self._completed = completed
        self._places = {id(optimizer): place for place, optimizer in enumerate(optimizers)}
        self._steps = 0
        self._counts = [0] * len(optimizers)
        self._handles: list[RemovableHandle] = []
        self._scale = StepScale(optimizers, scale)

        def stepped(place: int) -> Callable[[], None]:
            return lambda: self._one_stepped(place)

        for place, optimizer in enumerate(optimizers):
            nested = NestedStep(optimizer, begins, stepped(place), needs_all_gradients, self._scale)
            self._handles.append(optimizer.register_step_pre_hook(not_compiled(nested.before)))
            self._handles.append(
                optimizer.register_step_pre_hook(not_compiled(clipping.before_step))
            )
            self._handles.append(optimizer.register_step_post_hook(not_compiled(nested.after)))

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._scale.stop()

    def count(self, optimizer: torch.optim.Optimizer) -> int | None:
        """The steps of one optimizer so far; None if it is not one of this averager's."""
        place = self._places.get(id(optimizer))
        return None if place is None else self._counts[place]

    def skipped(self, optimizer: torch.optim.Optimizer) -> None:
        """A step that was due did not take place."""
        self._one_stepped(self._places[id(optimizer)])

    def _one_stepped(self, place: int) -> None:
        self._counts[place] += 1
        if min(self._counts) > self._steps:
            self._steps = min(self._counts)
            self._completed()


class NestedStep:
    """Hooks of one optimizer. They run twice where step() calls its parent's step(); only the
    outermost call counts."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        begins: Callable[[], object],
        stepped: Callable[[], None],
        needs_all_gradients: Callable[[], bool],
        scale: StepScale,
    ) -> None:
        self._name = type(optimizer).__name__
        self._begins = begins
        self._stepped = stepped
        self._needs_all_gradients = needs_all_gradients
        self._scale = scale
        self._depth = 0
        self._outermost: FrameType | None = None

    def before(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if _inside_backward() and self._needs_all_gradients():
            raise UnsupportedError(
                f"{self._name}.step() was called inside backward: under updates a step must see "
                "all gradients. "
                "Call it after backward, or use a plan of kind gradients."
            )
        if self._depth > 0 and not is_running(self._outermost):
            self._depth = 0  # the last step ended by an exception
        if self._depth == 0:
            self._outermost = frame_of("torch/optim/optimizer.py")
            self._begins()
            self._scale.begin(optimizer)
        self._depth += 1

    def after(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth == 0:
            self._outermost = None
            self._scale.end(optimizer)
            self._stepped()


def _inside_backward() -> bool:
    task = getattr(torch._C, "_current_graph_task_id", None)
    return task is not None and task() != -1
