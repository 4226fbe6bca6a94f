# SPDX-License-Identifier: MIT
"""Loss scale of the user's GradScaler, which residuals and clipping must follow."""

from __future__ import annotations

from typing import Any

from pliant import _native


class LossScale:
    """scaler: None if the loss is not scaled. clip_norm: in units of unscaled gradients, 0 for no
    clipping."""

    def __init__(self, scaler: Any, clip_norm: float) -> None:
        self.value: float | None = None  # in the last step
        self._scaler = scaler
        self._clip_norm = clip_norm

    def follow(self, engine: _native.Engine) -> None:
        """Before a step: rescales what the last step left, if the scale has changed."""
        if self._scaler is None:
            return
        scale = float(self._scaler.get_scale())
        if self.value is not None and scale != self.value:
            engine.rescale(scale / self.value)
        self.value = scale
        if self._clip_norm > 0:
            engine.set_clip_norm(self._clip_norm * scale)

    def explains(self, factor: float) -> bool:
        """Whether multiplying gradients by `factor` is what the scaler does when it unscales."""
        return abs(factor * self.value - 1) < 1e-2 if self.value else False
