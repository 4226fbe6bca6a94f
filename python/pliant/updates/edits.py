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

_TENSORS = 256
"""Number of parameters from which on only some of them are sampled: whoever swaps weights swaps all
of them, and this is done in every step."""


class Edits:
    """Compares a sample of the parameters with what training left. Edits that are still there when
    training goes on are part of it (weights that the loop normalizes after each step).

    Samples and their comparisons stay on the parameters' device. Only `swapped` waits for it."""

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._parameters = parameters[:: 1 + len(parameters) // _TENSORS]
        self._trained: torch.Tensor | None = None
        self._are_training: torch.Tensor | None = None  # a boolean; None before the first forward

    @property
    def swapped(self) -> bool:
        """Whether the parameters are other ones than training left."""
        differ = self._differ()
        if differ is None or not differ:
            return False
        return self._are_training is None or not self._are_training

    def note_trained(self) -> None:
        self._trained = _native.sample(self._parameters)

    def before_training(self) -> None:
        if (differ := self._differ()) is not None:
            before = self._are_training
            self._are_training = differ if before is None else before | differ

    def _differ(self) -> torch.Tensor | None:
        """A boolean; None if nothing is known of what training left."""
        if self._trained is None:
            return None
        now = _native.sample(self._parameters)
        if now.shape != self._trained.shape or now.device != self._trained.device:
            return None
        changed = now.view(torch.int32) != self._trained.view(torch.int32)
        return changed.float().mean() > _MOST_OF_THEM
