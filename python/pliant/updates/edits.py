# SPDX-License-Identifier: MIT
"""Detection of parameters that user code has put into the model by hand: an average of the weights,
to evaluate or save it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pliant import _native

_MOST_OF_THEM = 0.5
"""Share of entries. Weights that are swapped change nearly all of them, a constraint (clamping) a
few."""


class Edits:
    """Compares a sample of the parameters with what training left. Edits that are still there when
    training goes on are part of it (weights that the loop normalizes after each step)."""

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._parameters = parameters
        self._trained: torch.Tensor | None = None
        self._are_training = False

    @property
    def swapped(self) -> bool:
        """Whether the parameters are other ones than training left."""
        return not self._are_training and self._differ()

    def note_trained(self) -> None:
        self._trained = _native.sample(self._parameters)

    def before_training(self) -> None:
        if not self._are_training and self._differ():
            self._are_training = True

    def _differ(self) -> bool:
        if self._trained is None:
            return False
        now = _native.sample(self._parameters)
        if now.shape != self._trained.shape:
            return False
        changed = now.view(torch.int32) != self._trained.view(torch.int32)
        return changed.float().mean().item() > _MOST_OF_THEM
