# SPDX-License-Identifier: MIT
"""What is this rank's own under updates and must be saved by it: parameters, buffers, optimizers.
And has somebody loaded others?"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from pliant.buffers import Buffers
from pliant.model import Model
from pliant.optimizers import Optimizers

log = logging.getLogger("pliant")


class Own:
    def __init__(self, model: Model, buffers: Buffers, optimizers: Optimizers) -> None:
        self._model = model
        self._buffers = buffers
        self._optimizers = optimizers
        self._held: Mapping[str, Any] | None = None  # restored, and no step completed since
        self._loading = False
        self.loaded = False  # by somebody else, and nobody has rebased
        self._overwritten = False

    def watch(self, module: nn.Module) -> list[RemovableHandle]:
        notice = _Notice(self)
        handles: list[RemovableHandle] = [
            part.register_load_state_dict_post_hook(notice) for part in module.modules()
        ]  # type: ignore[no-untyped-call]
        return handles + [
            one.register_load_state_dict_post_hook(self._optimizer_loaded)
            for one in self._optimizers.each
        ]

    def state_dict(self, *, parameters: bool, optimizers: bool) -> dict[str, Any]:
        saved: dict[str, Any] = {}
        if parameters:
            saved["own_parameters"] = {
                name: tensor.detach().clone()
                for name, tensor in zip(self._model.names, self._model.parameters, strict=True)
            }
            saved["own_buffers"] = {
                place.name: place.now().detach().clone() for place in self._places()
            }
        if optimizers:
            saved["own_optimizers"] = self._optimizers.state_dicts()
        return saved

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Wins over what is loaded into the model and its optimizers before or after, until the
        next step."""
        self._held = saved
        self.loaded = False
        self._write()

    def put_back_if_overwritten(self) -> None:
        if self._overwritten and self._held is not None:
            log.info(
                "the model or its optimizers were loaded after the averager: this rank's own state, as the averager has it, is put back"
            )
            self._write()

    def let_go(self) -> None:
        self._held = None

    def forget(self) -> None:
        self._held = None
        self.loaded = self._overwritten = False

    def _write(self) -> None:
        assert self._held is not None
        self._loading = True
        try:
            with torch.no_grad():
                own = self._held.get("own_parameters", {})
                for name, parameter in zip(self._model.names, self._model.parameters, strict=True):
                    if name in own:
                        parameter.copy_(own[name])
                own = self._held.get("own_buffers", {})
                for place in self._places():
                    if place.name in own:
                        place.now().copy_(own[place.name])
            if self._held.get("own_optimizers"):
                self._optimizers.load_state_dicts(self._held["own_optimizers"])
        finally:
            self._loading = False
        self._overwritten = False

    def _places(self) -> list[Any]:
        return [*self._buffers.floats, *self._buffers.counters]

    def module_was_loaded(self) -> None:
        self._overwritten = True
        if self._held is None:
            self.loaded = True

    def _optimizer_loaded(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._loading:
            self._overwritten = True


class _Notice:
    """Hooks are copied and pickled with their module (for an average of the weights, or to save it
    whole): the copy notices nothing."""

    def __init__(self, own: Own | None = None) -> None:
        self._own = None if own is None else weakref.ref(own)

    def __call__(self, module: nn.Module, keys: object) -> None:
        if self._own is not None and (own := self._own()) is not None:
            own.module_was_loaded()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Notice, ()
