# SPDX-License-Identifier: MIT
"""Collector of a model's parameters from the buckets of its first step, for a bare hook that was
made without the model."""

from __future__ import annotations

import torch
from torch._C._distributed_c10d import GradBucket

from pliant.ddp import parameters
from pliant.ddp.parameters import Parameters


class FirstStep:
    def __init__(self) -> None:
        self._seen: list[torch.Tensor] = []

    def take(self, bucket: GradBucket) -> Parameters | None:
        """All parameters after the last bucket, None before. Sparse gradients are not exchanged, so
        their parameters do not count."""
        if not bucket.buffer().is_sparse:
            self._seen.extend(bucket.parameters())
        if not bucket.is_last() or not self._seen:
            return None
        found = parameters.anonymous(list(reversed(self._seen)))
        self._seen.clear()
        return found
