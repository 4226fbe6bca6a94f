# SPDX-License-Identifier: MIT
"""Decorator that excludes a function from the graphs of torch.compile."""

from __future__ import annotations

from collections.abc import Callable

import torch


def not_compiled(function: Callable[..., None]) -> Callable[..., None]:
    excluded: Callable[..., None] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
    return excluded
