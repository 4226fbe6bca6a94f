# SPDX-License-Identifier: MIT
"""State that differs between ranks under updates: parameters, buffers, optimizers.

Saves and restores it, and detects that user code has overwritten it."""

from __future__ import annotations

import logging
import weakref
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from pliant.ddp.loop_observer import ModuleHook, takes_hooks
from pliant.errors import ContractError, DisagreementError
from pliant.log_once import LogOnce
from pliant.side_channel import SideChannel
from pliant.updates.buffers import Place
from pliant.updates.frames import calls_file
from pliant.updates.model_tensors import ModelTensors, copies_of, write
from pliant.updates.optimizers import Optimizers

log = logging.getLogger("pliant")

_WHOLE_NUMBERS = {2: torch.int16, 4: torch.int32}
"""By the bytes of one entry: those of the types that travel."""

_DISTRIBUTED_CHECKPOINT = "torch/distributed/checkpoint/state_dict.py"


class LocalState:
    """has_base: whether this rank trains on parameters of its own, apart from the base."""

    def __init__(
        self, tensors: ModelTensors, optimizers: Optimizers, has_base: Callable[[], bool | None]
    ) -> None:
        self._tensors = tensors
        self._has_base = has_base
        self._optimizers = optimizers
        self._restored: Mapping[str, Any] | None = None  # None once a step has completed
        self._writing = False
        self._own: list[torch.Tensor] | None = None  # before user code loaded other parameters
        self._overwritten = False
        self._strides: list[tuple[int, ...]] = []  # when the base was taken
        self._devices: list[torch.device] = []
        self._handles: list[RemovableHandle] = []
        self._log_once = LogOnce()

    def start(self, module: nn.Module) -> None:
        before, after = _LoadNotice(self.module_will_load), _LoadNotice(self.module_was_loaded)
        for part in filter(takes_hooks, module.modules()):
            self._handles.append(part.register_load_state_dict_pre_hook(before))  # type: ignore[no-untyped-call]
            self._handles.append(part.register_load_state_dict_post_hook(after))  # type: ignore[no-untyped-call]
        for optimizer in self._optimizers.each:
            self._handles.append(
                optimizer.register_load_state_dict_post_hook(self._optimizer_loaded)
            )
            self._handles.append(optimizer.register_state_dict_pre_hook(self._optimizer_is_saved))

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()

    # --- saving and restoring ---

    def state_dict(self, *, parameters: bool, optimizers: bool) -> dict[str, Any]:
        saved: dict[str, Any] = {}
        if parameters:
            saved["own_parameters"] = {
                name: tensor.detach().clone() for name, tensor in self._tensors.parameters.named()
            }
            saved["own_buffers"] = {
                place.name: place.tensor().detach().clone() for place in self._places()
            }
            if own_frozen := self._tensors.frozen.state_dict():
                saved["own_frozen"] = own_frozen
        if optimizers:
            saved["own_optimizers"] = self._optimizers.state_dicts()
        return saved

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Takes precedence over what user code loads into the model and its optimizers, before or
        after, until the next step."""
        self._restored = saved
        self._own = None
        self._write()

    def restore_if_overwritten(self) -> None:
        if self._overwritten and self._restored is not None:
            log.info(
                "the model or its optimizers were loaded after the averager: this rank's own "
                "state, as the averager has it, is put back"
            )
            self._write()

    def completed_step(self) -> None:
        self._restored = None

    # --- detecting changes ---

    def became_base(self) -> None:
        """The parameters are the base now, and so is their memory layout."""
        self._own = None
        self.note_layout()

    def note_layout(self) -> None:
        self._tensors.buffers.note_layout()
        self._strides = self._tensors.strides()
        self._devices = [tensor.device for tensor in self._tensors.parameters.tensors]

    def forget(self) -> None:
        self._restored = self._own = None
        self._overwritten = False

    @property
    def was_loaded(self) -> bool:
        """Whether user code has loaded parameters that are neither this rank's own nor the base
        yet."""
        return self._own is not None

    def restored_own(self, base: Sequence[torch.Tensor]) -> bool:
        """Puts back what this rank had before user code loaded parameters, if what was loaded is
        the base, as after `model.load_state_dict(model.state_dict())`. Returns whether it was."""
        if not self.loaded_the_base(base):
            return False
        self.put_back_own()
        return True

    def loaded_the_base(self, base: Sequence[torch.Tensor]) -> bool:
        assert self._own is not None
        differ, are_base = 0, 0  # tensors of which this rank has another than the base
        for tensor, own, value in zip(self._tensors.all(), self._own, base, strict=True):
            is_base = _same_bits(tensor, value)
            if not is_base and not _same_bits(tensor, own):
                return False
            if not _same_bits(own, value):
                differ += 1
                are_base += is_base
        # What this rank has itself is not the base: others may have loaded it too.
        return differ == 0 or are_base > 0

    def put_back_own(self) -> None:
        assert self._own is not None
        write(self._tensors.all(), self._own)
        self._own = None

    def check_unchanged(self) -> None:
        if self.was_loaded:
            raise ContractError(
                "the model's parameters were loaded (load_state_dict) after pliant.attach(), and "
                "no training forward has followed, which would make them the base. "
                "Call averager.rebase() on every rank first."
            )
        for name, tensor, device in zip(
            self._tensors.parameters.names,
            self._tensors.parameters.tensors,
            self._devices,
            strict=True,
        ):
            if tensor.device != device:
                raise ContractError(
                    f"parameter {name} was on {device} when the base was taken, and is on "
                    f"{tensor.device} now. Move the model back, or close the averager, wrap the "
                    "model in DDP anew and attach again."
                )
        if self._strides != self._tensors.strides():
            raise ContractError(
                "the model's memory format was changed (channels_last?) after pliant.attach(): "
                "entries are not where the base has them. "
                "Call averager.rebase() on every rank after changing it."
            )

    def compare_layouts(self, side_channel: SideChannel) -> None:
        """Collective."""
        layout = zlib.crc32(repr(self._tensors.strides()).encode())
        layouts = side_channel.gather(layout, "rebase(): comparing memory formats")
        for rank, other in enumerate(layouts):
            if other != layouts[0]:
                raise DisagreementError(
                    f"rebase(): rank {rank} has another memory format (channels_last?) than rank "
                    "0; change it on every rank"
                )

    def module_will_load(self) -> None:
        if self._restored is None and self._own is None and self._has_base():
            self._own = copies_of(self._tensors.all())

    def module_was_loaded(self) -> None:
        self._overwritten = True

    def _optimizer_loaded(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._writing:
            self._overwritten = True

    def _optimizer_is_saved(self, optimizer: torch.optim.Optimizer) -> None:
        if self._has_base() and calls_file(_DISTRIBUTED_CHECKPOINT):
            self._log_once.warning(
                "distributed checkpoint",
                "torch.distributed.checkpoint saves each tensor from one rank only, and under "
                "updates the optimizer's state is each rank's own: loading it would mix states "
                "that do not fit together. Save averager.state_dict() of each rank too, and load "
                "it (docs/updates.md).",
            )

    def _write(self) -> None:
        assert self._restored is not None
        self._writing = True
        try:
            with torch.no_grad():
                own = self._restored.get("own_parameters", {})
                for name, parameter in self._tensors.parameters.named():
                    if name in own:
                        parameter.copy_(own[name])
                own = self._restored.get("own_buffers", {})
                for place in self._places():
                    if place.name in own:
                        place.tensor().copy_(own[place.name])
                self._tensors.frozen.load_state_dict(self._restored.get("own_frozen", {}))
            if self._restored.get("own_optimizers"):
                self._optimizers.load_state_dicts(self._restored["own_optimizers"])
        finally:
            self._writing = False
        self._overwritten = False

    def _places(self) -> list[Place]:
        buffers = self._tensors.buffers
        return [*buffers.floats, *buffers.counters, *buffers.masks]


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    as_whole_numbers = _WHOLE_NUMBERS[a.element_size()]
    return torch.equal(
        a.detach().contiguous().view(as_whole_numbers),
        b.detach().contiguous().view(as_whole_numbers),
    )


class _LoadNotice(ModuleHook):
    """Hook around load_state_dict() of a module, which calls a method."""

    def __init__(self, method: Callable[[], None]) -> None:
        self._method = weakref.WeakMethod(method)

    def __call__(self, *arguments: object) -> None:
        if (method := self._method()) is not None:
            method()
