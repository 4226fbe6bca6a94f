# SPDX-License-Identifier: MIT
"""Frozen parameters that the training loop changes by itself, as the momentum encoders of MoCo and
BYOL.

No exchange takes them along: most frozen parameters never change, and those of a large model would
cost memory and time. So ranks that train locally have their own, and average them when they
settle."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import nn

from pliant import _native
from pliant.ddp.parameters import FLOATS, Parameters, is_dense, local_of
from pliant.side_channel import SideChannel


class FrozenParameters:
    """Parameters of a model that get no gradients. Compares a sample of each with what it was when
    the base was taken; that waits for their device."""

    def __init__(
        self, module: nn.Module, averaged: Parameters, ignored: Collection[str] = ()
    ) -> None:
        known = {id(parameter) for parameter in averaged.tensors}
        self._named = {
            name.replace("_orig_mod.", ""): local_of(parameter)
            for name, parameter in module.named_parameters()
            if id(parameter) not in known
            and name not in ignored
            and not parameter.requires_grad
            and parameter.dtype in FLOATS
            and is_dense(local_of(parameter))
        }
        self._before: dict[str, torch.Tensor] = {}
        self._all_before = torch.empty(0, device="cpu")
        self._changed: set[str] = set()

    def note(self) -> None:
        """The base is taken now."""
        self._before = {name: _native.sample([tensor]) for name, tensor in self._named.items()}
        self._all_before = _native.sample(list(self._named.values()))
        self._changed = set()

    def changed(self) -> list[str]:
        """Names of those that changed since the base was taken."""
        if self._before and not self._are_as_before():
            for name, before in self._before.items():
                if not _same_bits(_native.sample([self._named[name]]), before):
                    self._changed.add(name)
        return [name for name in self._named if name in self._changed]

    def average(self, side_channel: SideChannel) -> None:
        """Collective: those that differ become their mean over the ranks."""
        what = "settling: frozen parameters that changed"
        if self._named and any(side_channel.gather(bool(self.changed()), what)):
            different = side_channel.differing(list(self._named.values()), what)
            if different:
                side_channel.reduce(different, "mean", what)

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {name: self._named[name].detach().clone() for name in self.changed()}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        for name, tensor in self._named.items():
            if name in saved:
                tensor.copy_(saved[name])
                self._changed.add(name)

    def _are_as_before(self) -> bool:
        return _same_bits(_native.sample(list(self._named.values())), self._all_before)


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.view(torch.int32), b.view(torch.int32))
