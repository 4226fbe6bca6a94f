# SPDX-License-Identifier: MIT
"""Equalizer of state that differs between ranks under updates: counters and frozen parameters when
ranks settle, and buffers, optimizers and the loss scale when training returns to gradients."""

from __future__ import annotations

from typing import Any

import torch

from pliant.side_channel import SideChannel
from pliant.updates import merge_optimizers
from pliant.updates.model_tensors import ModelTensors
from pliant.updates.optimizers import Optimizers


class Equalizer:
    """scaler: the user's GradScaler, or None. Its methods are collective but for the last."""

    def __init__(self, tensors: ModelTensors, optimizers: Optimizers, scaler: Any) -> None:
        self._tensors = tensors
        self._optimizers = optimizers
        self._scale = _CommonScale(scaler)

    def settled(self, side_channel: SideChannel) -> None:
        """Counters of the model that differ take the largest value of all ranks, frozen parameters
        the mean."""
        what = "settling: the model's counters"
        if (counts := self._tensors.buffers.counts()) and (
            different := side_channel.differing(counts, what)
        ):
            side_channel.reduce(different, "maximum", what)
        self._tensors.frozen.average(side_channel)

    def everything(self, side_channel: SideChannel) -> None:
        """After the engine has left updates: the parameters are equal already."""
        buffers = self._tensors.buffers.tensors()
        side_channel.agree(buffers, "changing to gradients: the model's buffers")
        self.settled(side_channel)
        merge_optimizers.merge(self._optimizers, self._tensors.parameters, side_channel)
        self._scale.agree(side_channel)

    def before_forward(self) -> None:
        self._scale.before_forward()


class _CommonScale:
    """The loss scale on which all ranks agree."""

    def __init__(self, scaler: Any) -> None:
        self._scaler = scaler
        self._agreed: dict[str, Any] | None = None

    def agree(self, side_channel: SideChannel) -> None:
        """Collective: the smallest scale of all ranks is used from the next forward on. Not
        earlier, because this step's own update() of the scaler is still to come."""
        state = self._scaler.state_dict() if self._scaler is not None else {}
        if not state:
            return
        least = torch.tensor(
            [state["scale"], float(state["_growth_tracker"])], dtype=torch.float64, device="cpu"
        )
        side_channel.reduce([least], "minimum", "changing to gradients: the loss scale")
        scale, growth = float(least[0]), int(least[1])
        self._agreed = {**state, "scale": scale, "_growth_tracker": growth}

    def before_forward(self) -> None:
        if self._agreed is not None:
            self._scaler.load_state_dict(self._agreed)
            self._agreed = None
