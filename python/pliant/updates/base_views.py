# SPDX-License-Identifier: MIT
"""Exchange of a model's own tensors for the base, for the length of a `with` block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from pliant.errors import ContractError
from pliant.updates.model_tensors import ModelTensors, copies_of, write


class BaseViews:
    """Holds this rank's own values while the base is in the model."""

    def __init__(self, tensors: ModelTensors) -> None:
        self._tensors = tensors
        self._own: list[torch.Tensor] | None = None

    @property
    def is_open(self) -> bool:
        return self._own is not None

    def check_closed(self, what: str) -> None:
        if self.is_open:
            raise ContractError(
                f"{what} inside on_base() or settled(): the base is in the parameters' place "
                "there, leave it first"
            )

    @contextmanager
    def show(self, base: Sequence[torch.Tensor]) -> Iterator[None]:
        """Inside, the model holds `base`; afterwards what it held before."""
        self._own = copies_of(self._tensors.all())
        write(self._tensors.all(), base)
        try:
            yield
        finally:
            own, self._own = self._own, None
            write(self._tensors.all(), own)

    @contextmanager
    def show_own(self) -> Iterator[None]:
        """Inside, the model holds this rank's own values, also within `show`."""
        if self._own is None:
            yield
            return
        tensors = self._tensors.all()
        base = copies_of(tensors)
        write(tensors, self._own)
        try:
            yield
        finally:
            write(tensors, base)
