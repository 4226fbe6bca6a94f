# SPDX-License-Identifier: MIT
"""Clearing of momentum at entries that were sent, for sparse exchanges in every step
(docs/updates.md)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pliant import _native
from pliant.ddp.parameters import FLOATS, local_of
from pliant.updates.optimizers import Optimizers

_OF_SGD = ("momentum_buffer",)
_OF_ALL = ("momentum_buffer", "exp_avg")


class MomentumClearing:
    """clear_momentum: as `pliant.attach` takes it."""

    def __init__(self, optimizers: Optimizers, clear_momentum: bool | None) -> None:
        self._optimizers = optimizers
        self._keys = {None: _OF_SGD, True: _OF_ALL, False: ()}[clear_momentum]
        self._of_all = clear_momentum is True

    def clear(
        self,
        engine: _native.Engine,
        owners: Sequence[torch.Tensor],
        parameters: Sequence[torch.Tensor],
    ) -> None:
        """After an exchange has landed. The engine knows which entries were sent, and whether the
        plan calls for it. owners: the parameters as the optimizers have them."""
        for key in self._keys:
            held = [
                [
                    local_of(momentum)
                    for momentum in self._optimizers.momenta(owner, key, of_all=self._of_all)
                ]
                for owner in owners
            ]
            if not any(held):
                continue
            laid_out = [
                _laid_out(parameter, momenta[0]) if momenta else torch.zeros_like(parameter)
                for parameter, momenta in zip(parameters, held, strict=True)
            ]
            engine.clear_at_sent(laid_out)
            for momenta, cleared in zip(held, laid_out, strict=True):
                if momenta and momenta[0] is not cleared:
                    momenta[0].copy_(cleared)


def _laid_out(parameter: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy with the parameter's strides."""
    if tensor.dtype in FLOATS and tensor.stride() == parameter.stride():
        return tensor
    dtype = tensor.dtype if tensor.dtype in FLOATS else parameter.dtype
    return torch.empty_like(parameter, dtype=dtype).copy_(tensor)
