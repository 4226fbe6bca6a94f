# SPDX-License-Identifier: MIT
"""Averages what workers learn, over networks that are slow and keep changing.

    ddp = DistributedDataParallel(model)
    averager = pliant.attach(ddp, optimizer)

The rest of the training script stays as it is. docs/pytorch.md says what changes.
"""

from pliant import version as _version

_torch = _version.installed_torch()
try:
    from pliant import _built
except ImportError:
    raise ImportError(
        "pliant's binding has not been built. In a checkout: pip install --no-build-isolation . (or make build, and PYTHONPATH=build/dev/python)"
    ) from None
_version.check_build(_built.torch_version, _torch)

from pliant._native import version as __version__  # noqa: E402
from pliant.attach import attach, comm_hook  # noqa: E402
from pliant.averager import Averager  # noqa: E402
from pliant.checkpoint import reshard  # noqa: E402
from pliant.errors import CommError, ContractError, DisagreementError, PayloadError, PliantError, UnsupportedError  # noqa: E402
from pliant.summary import Memory, Summary  # noqa: E402

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
