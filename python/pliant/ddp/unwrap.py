# SPDX-License-Identifier: MIT
"""Function that finds the DistributedDataParallel object in what `attach` was given."""

from __future__ import annotations

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pliant.errors import UnsupportedError


def unwrap(model: nn.Module) -> DistributedDataParallel:
    """The DDP object, also from under torch.compile; anything else is refused by name."""
    inner = getattr(model, "_orig_mod", model)
    if isinstance(inner, DistributedDataParallel):
        return inner
    name = type(inner).__name__
    families = [base.__name__ for base in type(inner).__mro__]
    if "FullyShardedDataParallel" in families or "FSDPModule" in families:
        raise UnsupportedError(
            f"pliant.attach() works on DistributedDataParallel, and {name} is FSDP: its ranks hold different parts of the parameters, "
            "so there is no gradient that all of them average. Use DDP, or FSDP without pliant."
        )
    raise UnsupportedError(
        f"pliant.attach() works on torch.nn.parallel.DistributedDataParallel, not on {name}. Wrap the model first: "
        "pliant.attach(DistributedDataParallel(model), optimizer)"
    )
