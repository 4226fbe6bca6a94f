# SPDX-License-Identifier: MIT
"""Averages what workers learn, over networks that are slow and keep changing.

    ddp = DistributedDataParallel(model)
    averager = pliant.attach(ddp, optimizer)

The rest of the training script stays as it is. docs/pytorch.md says what changes.

Importing the package says so if torch is missing or is not the one that the binding was built for,
and loads neither: the first name that is used does. So the command `pliant` starts at once; and
`pliant doctor` must work where nothing else does, so the command alone looks for itself."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pliant._built import version as __version__
    from pliant.attaching import attach, comm_hook
    from pliant.averager import Averager
    from pliant.checkpoint import reshard
    from pliant.errors import (
        CommError,
        ContractError,
        DisagreementError,
        PayloadError,
        PliantError,
        UnsupportedError,
    )
    from pliant.summary import Memory, Summary
else:
    # No name here may be that of a module as well: whoever imported the module would put it in the
    # name's place.
    _HOMES = {
        "Averager": "averager",
        "CommError": "errors",
        "ContractError": "errors",
        "DisagreementError": "errors",
        "Memory": "summary",
        "PayloadError": "errors",
        "PliantError": "errors",
        "Summary": "summary",
        "UnsupportedError": "errors",
        "attach": "attaching",
        "comm_hook": "attaching",
        "reshard": "checkpoint",
    }

    def __getattr__(name: str) -> object:
        # `from pliant import module` asks here too, before it looks for the module: strangers
        # first, and no such import below.
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
    "Averager",
    "CommError",
    "ContractError",
    "DisagreementError",
    "Memory",
    "PayloadError",
    "PliantError",
    "Summary",
    "UnsupportedError",
    "__version__",
    "attach",
    "comm_hook",
    "reshard",
]

from pliant import version as _version  # noqa: E402

if not _version.is_the_command():
    _version.check_found()
