# SPDX-License-Identifier: MIT
"""Faster data-parallel PyTorch training on slow or changing networks.

    ddp = DistributedDataParallel(model)
    averager = pliant.attach(ddp, optimizer)

The rest of the training script stays as it is; docs/pytorch.md describes what changes.

Importing the package loads neither torch nor the binding, but it raises ImportError if torch is
missing or is not the version that the binding was built for. The first use of a name loads both.
Only the command `pliant` skips the check, so that `pliant doctor` works everywhere."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pliant._built import version as __version__
    from pliant.api import attach, comm_hook
    from pliant.averager import Averager
    from pliant.checkpoint import reshard
    from pliant.errors import (
        AbsentError,
        CommError,
        ContractError,
        DisagreementError,
        DivergedError,
        PayloadError,
        PliantError,
        UnsupportedError,
    )
    from pliant.stretching import StretchedSchedule, stretch
    from pliant.summary import Memory, Summary
else:
    # No name here may also be that of a module: importing the module would replace the name.
    _HOMES = {
        "AbsentError": "errors",
        "Averager": "averager",
        "CommError": "errors",
        "ContractError": "errors",
        "DisagreementError": "errors",
        "DivergedError": "errors",
        "Memory": "summary",
        "PayloadError": "errors",
        "PliantError": "errors",
        "StretchedSchedule": "stretching",
        "Summary": "summary",
        "UnsupportedError": "errors",
        "attach": "api",
        "comm_hook": "api",
        "reshard": "checkpoint",
        "stretch": "stretching",
    }

    def __getattr__(name: str) -> object:
        # `from pliant import module` asks here before it looks for the module. So other names come
        # first, and this function must not use that form of import.
        if name not in (*_HOMES, "_native", "__version__"):
            raise AttributeError(f"module 'pliant' has no attribute '{name}'")
        import importlib

        version = importlib.import_module("pliant.version")
        if name == "__version__":
            value = version.of_build().version
        else:
            version.check_here()
            value = (
                importlib.import_module("pliant._native")
                if name == "_native"
                else getattr(importlib.import_module(f"pliant.{_HOMES[name]}"), name)
            )
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "AbsentError",
    "Averager",
    "CommError",
    "ContractError",
    "DisagreementError",
    "DivergedError",
    "Memory",
    "PayloadError",
    "PliantError",
    "StretchedSchedule",
    "Summary",
    "UnsupportedError",
    "__version__",
    "attach",
    "comm_hook",
    "reshard",
    "stretch",
]

from pliant import version as _version  # noqa: E402

if not _version.is_the_command():
    _version.check_found()
