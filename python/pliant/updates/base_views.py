# SPDX-License-Identifier: MIT
"""Views of the base: for a `with` block, for a forward in evaluation, and in state_dict().

The model's tensors are pointed at a copy of the base and back. Nothing is written, so training goes
on exactly where it was, and a backward that is still to come finds what its forward saw. Only the
shards of an FSDP2 module are written, and written back."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from pliant.ddp.loop_observer import ModuleHook, not_compiled, takes_hooks
from pliant.errors import ContractError
from pliant.islands.shards import as_dtensor
from pliant.updates.frames import frame_of, is_running
from pliant.updates.model_tensors import ModelTensors


class BaseViews:
    """Points the model's tensors at the base. `is_shown`: whether there is a base to show now.
    `base`: makes copies of the base of all tensors, in their shapes."""

    def __init__(
        self,
        tensors: ModelTensors,
        is_shown: Callable[[], bool | None],
        base: Callable[[], Sequence[torch.Tensor] | None],
    ) -> None:
        self._tensors = tensors
        self._shards = tensors.shards
        self._is_shown = is_shown
        self._base = base
        self._copy: dict[int, _Shown] = {}  # by tensor; empty if the base was not asked for
        self._known: set[int] = set()
        self._saved: weakref.WeakValueDictionary[int, torch.Tensor] = weakref.WeakValueDictionary()
        self._saving: tuple[weakref.ref[Any], bool] | None = None  # state_dict() under way
        self._open: list[_Swap | _Writing] | None = None
        self._forward: FrameType | None = None  # the one for which the base is shown
        self._kept: list[_Shown] = []  # those that are not swapped while the base is shown
        # Buffers that evaluation has written, by id.
        self._written: weakref.WeakValueDictionary[int, torch.Tensor] = (
            weakref.WeakValueDictionary()
        )
        self._thread = threading.get_ident()

    @property
    def has_shards(self) -> bool:
        return self._shards is not None

    @property
    def is_open(self) -> bool:
        self.close_if_interrupted()
        return self._open is not None

    def close_if_interrupted(self) -> None:
        """Ctrl-C may have ended the forward for which the base is shown, without calling the hook
        at its end."""
        if self._forward is None or threading.get_ident() != self._thread:
            return
        if not is_running(self._forward):
            self.close()

    def is_shown_for(self, forward: FrameType | None) -> bool:
        return forward is not None and self.is_open and self._forward is forward

    def check_closed(self, what: str) -> None:
        if self.is_open:
            raise ContractError(
                f"{what} inside on_base() or settled(): the base is in the parameters' place "
                "there, leave it first"
            )

    def base_changed(self) -> None:
        """Called by the thread that trains."""
        # Later, torch.func.functional_call may have put other buffers into the model.
        self._known = {id(tensor) for tensor in self._tensors.all()}
        self._copy = {}
        self._saved.clear()
        self._thread = threading.get_ident()

    @contextmanager
    def show(self) -> Iterator[None]:
        """Inside, the model's tensors are the base. Nested, it does nothing."""
        opened = self.open()
        try:
            yield
        finally:
            if opened:
                self.close()

    def open(self, forward: FrameType | None = None) -> bool:
        """Returns whether the base is shown now and was not before. forward: the one for which it
        is shown, if there is one."""
        if threading.get_ident() != self._thread or self.is_open or not self._made():
            return False
        self._open, self._forward = [], forward
        for shown in self._copy.values():
            tensor = shown.tensor
            if id(tensor) in self._written or shown.is_constant():
                self._kept.append(shown)
                continue
            if shown.value.dtype != tensor.dtype:  # as after model.bfloat16()
                shown.value = shown.value.to(tensor.dtype)
            if self._shards is not None and self._shards.is_shard(tensor):
                self._open.append(_Writing(shown))
            else:
                self._open.append(_Swap(shown))
                tensor.data = shown.value
        self._forget_copies()
        return True

    def close(self) -> None:
        assert self._open is not None
        for swap in self._open:
            if swap.end():
                self._written[id(swap.shown.tensor)] = swap.shown.tensor
        self._open = self._forward = None
        for shown in self._kept:
            shown.was_evaluated()
        self._kept = []
        self._forget_copies()

    @contextmanager
    def show_own(self) -> Iterator[None]:
        """Inside, the model holds this rank's own values, also within `show`."""
        if not self.is_open:
            yield
            return
        forward = self._forward
        self.close()
        try:
            yield
        finally:
            self.open(forward)

    def are_saved(self, state: Any) -> bool:
        """Whether the base belongs into this result of state_dict(). Asked for every part of the
        model, and found out once."""
        if self._saving is not None and self._saving[0]() is state:
            return self._saving[1]
        shown = not self.is_open and self._made()
        with contextlib.suppress(TypeError):  # a plain dict has no weak references
            self._saving = (weakref.ref(state), shown)
        return shown

    def value(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """A copy of the base of one tensor, the same one for tied parameters. None if it has
        none."""
        local = tensor if self._shards is None else self._shards.local(tensor)
        shown = self._copy.get(id(local))
        if shown is None or shown.tensor is not local:
            return None
        if (copy := self._saved.get(id(tensor))) is None:
            with torch.inference_mode(False):
                copy = shown.value.to(tensor.dtype, copy=True)
                if self._shards is not None:
                    copy = as_dtensor(tensor, copy)
                self._saved[id(tensor)] = copy
        return copy

    def _forget_copies(self) -> None:
        """Others than this module make copies of parameters and keep them."""
        if torch.is_autocast_cache_enabled():  # in low precision, by their identity
            torch.clear_autocast_cache()
        if self._shards is not None:
            self._shards.reshard()

    def _made(self) -> bool:
        """Whether the copy of the base is there; makes it if there is a base to show."""
        if not self._is_shown():
            return False
        if not self._copy:
            with torch.inference_mode(False), torch.no_grad():
                tensors, base = self._tensors.all(), self._base()
                if base is not None:
                    self._copy = {
                        id(tensor): _Shown(tensor, value)
                        for tensor, value in zip(tensors, base, strict=True)
                        if id(tensor) in self._known
                    }
        return bool(self._copy)


class _Shown:
    """One tensor of the model and the copy of its base."""

    def __init__(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        self.tensor = tensor
        self.value = value
        # The tensor's version, if it is a buffer that training has not changed.
        unchanged = not tensor.requires_grad and torch.equal(tensor, value)
        self._version = tensor._version if unchanged else None

    def is_constant(self) -> bool:
        """Whether only evaluation has changed it since it was the base, as a cache."""
        return self._version is not None and self._version == self.tensor._version

    def was_evaluated(self) -> None:
        if self._version is not None:
            self._version = self.tensor._version


class _Writing:
    """A shard in which the base is written: FSDP2 gathers it from that memory."""

    def __init__(self, shown: _Shown) -> None:
        self.shown = shown
        self._own = shown.tensor.clone()
        with torch.no_grad():
            shown.tensor.copy_(shown.value)

    def end(self) -> bool:
        with torch.no_grad():
            self.shown.tensor.copy_(self._own)
        return False


class _Swap:
    """A tensor that is pointed at its base."""

    def __init__(self, shown: _Shown) -> None:
        self.shown = shown
        tensor = shown.tensor
        self._own = tensor.data
        self._version = tensor._version
        self._before = None if tensor.requires_grad else shown.value.clone()

    def end(self) -> bool:
        """Points the tensor back. Returns whether evaluation has written it: it is a buffer (a
        histogram, a cache) that keeps what was added, and is not swapped again."""
        tensor = self.shown.tensor
        written = tensor._version != self._version
        tensor.data = self._own
        if self._before is None or not written:
            return False
        with torch.no_grad():
            tensor += self.shown.value - self._before
        return True


class BaseHooks:
    """Hooks that show the base to evaluation and to saving, until `stop`: a forward of `modules`
    in eval mode and without gradients runs on the base, and state_dict() of any part has it."""

    def __init__(self, views: BaseViews, modules: Sequence[nn.Module]) -> None:
        self._handles: list[RemovableHandle] = []
        for module in filter(takes_hooks, modules):
            hook = _Evaluation(views, module)
            # FSDP2 gathers the parameters in a hook of its own, which must see the base.
            first = views.has_shards
            self._handles.append(module.register_forward_pre_hook(hook, prepend=first))
            self._handles.append(module.register_forward_hook(_Leaving(hook), always_call=True))
        for part in filter(takes_hooks, modules[0].modules()):
            saving = _Saving(views, part)
            self._handles.append(part.register_state_dict_post_hook(saving))  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


class _Hook(ModuleHook):
    """Hook of one module."""

    def __init__(self, views: BaseViews, module: nn.Module) -> None:
        self._views = weakref.ref(views)
        self._module = weakref.ref(module)

    def views_of(self, module: nn.Module) -> BaseViews | None:
        """None for a shallow copy of the module, or if the views are gone."""
        return self._views() if self._module() is module else None


class _Evaluation(_Hook):
    def __init__(self, views: BaseViews, module: nn.Module) -> None:
        super().__init__(views, module)
        self.forward: FrameType | None = None  # the one for which the base was shown
        self.depth = 0  # that forward, and those of the same module within it

    def __call__(self, module: nn.Module, inputs: object) -> None:
        if not module.training and not torch.is_grad_enabled() and not _is_exporting():
            _open(self, module)


class _Leaving(ModuleHook):
    """Hook at the end of a forward that `evaluation` may have begun."""

    def __init__(self, evaluation: _Evaluation) -> None:
        self._evaluation = evaluation

    def __call__(self, module: nn.Module, inputs: object, output: object) -> None:
        if self._evaluation.forward is not None:
            _close(self._evaluation, module)


def _is_exporting() -> bool:
    tracing: bool = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    return tracing or torch.compiler.is_exporting()


@not_compiled
def _open(hook: _Evaluation, module: nn.Module) -> None:
    if (views := hook.views_of(module)) is None:
        return
    if views.is_shown_for(hook.forward):
        hook.depth += 1
    elif views.open(forward := frame_of("torch/nn/modules/module.py")):
        hook.forward, hook.depth = forward, 1


@not_compiled
def _close(hook: _Evaluation, module: nn.Module) -> None:
    views = hook.views_of(module)
    is_shown = views is not None and views.is_shown_for(hook.forward)
    hook.depth = hook.depth - 1 if is_shown else 0
    if hook.depth == 0:
        hook.forward = None
        if views is not None and is_shown:
            views.close()


class _Saving(_Hook):
    def __call__(
        self, module: nn.Module, state: dict[str, Any], prefix: str, metadata: object
    ) -> None:
        views = self.views_of(module)
        if views is None or not views.are_saved(state):
            return
        for name, tensor in _tensors_of(module):
            saved = state.get(prefix + name)
            # Under keep_vars=True the tensors themselves are asked for.
            if saved is None or saved is tensor:
                continue
            if (value := views.value(tensor)) is not None:
                state[prefix + name] = value


def _tensors_of(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and buffers of one part of the model, and of compiled parts directly below it,
    which have no hooks of their own."""
    for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
        if tensor is not None:
            yield name, tensor
    for prefix, part in module.named_children():
        if not takes_hooks(part):
            for name, tensor in [*part.named_parameters(), *part.named_buffers()]:
                yield f"{prefix}.{name}", tensor
