# SPDX-License-Identifier: MIT
"""Equalizer of state that differs between ranks under updates: counters when ranks settle, and
buffers, optimizers and the loss scale when training returns to gradients."""

from __future__ import annotations

from typing import Any

from pliant.side_channel import SideChannel
from pliant.updates import merge_optimizers
from pliant.updates.common_scale import CommonScale
from pliant.updates.model_tensors import ModelTensors
from pliant.updates.optimizers import Optimizers


class Equalizer:
    """scaler: the user's GradScaler, or None. Its methods are collective but for the last."""

    def __init__(self, tensors: ModelTensors, optimizers: Optimizers, scaler: Any) -> None:
        self._tensors = tensors
        self._optimizers = optimizers
        self._scale = CommonScale(scaler)

    def counters(self, side_channel: SideChannel) -> None:
        """Counters of the model take the largest value of all ranks."""
        if counts := self._tensors.buffers.counts():
            side_channel.reduce(counts, "maximum", "settling: the model's counters")

    def everything(self, side_channel: SideChannel) -> None:
        """After the engine has left updates: the parameters are equal already."""
        buffers = self._tensors.buffers.tensors()
        side_channel.agree(buffers, "changing to gradients: the model's buffers")
        self.counters(side_channel)
        merge_optimizers.merge(self._optimizers, self._tensors.parameters, side_channel)
        self._scale.agree(side_channel)

    def before_forward(self) -> None:
        self._scale.before_forward()
