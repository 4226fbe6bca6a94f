# SPDX-License-Identifier: MIT
"""Agreement of all ranks on one loss scale, for the change from updates to gradients."""

from __future__ import annotations

from typing import Any

import torch

from pliant.side_channel import SideChannel


class CommonScale:
    """scaler: the user's GradScaler, or None."""

    def __init__(self, scaler: Any) -> None:
        self._scaler = scaler
        self._agreed: dict[str, Any] | None = None

    def agree(self, side_channel: SideChannel) -> None:
        """Collective: the smallest scale of all ranks is used from the next forward on. Not
        earlier, because this step's own update() of the scaler is still to come."""
        state = self._scaler.state_dict() if self._scaler is not None else {}
        if not state:
            return
        least = torch.tensor([state["scale"], float(state["_growth_tracker"])], dtype=torch.float64)
        side_channel.reduce([least], "minimum", "changing to gradients: the loss scale")
        scale, growth = float(least[0]), int(least[1])
        self._agreed = {**state, "scale": scale, "_growth_tracker": growth}

    def before_forward(self) -> None:
        if self._agreed is not None:
            self._scaler.load_state_dict(self._agreed)
            self._agreed = None
