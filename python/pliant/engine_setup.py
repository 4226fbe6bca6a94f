# SPDX-License-Identifier: MIT
"""Construction of the engine: the user's options, facts about this rank, and its process groups."""

from __future__ import annotations

import logging
import platform

import torch

from pliant import _native
from pliant.ddp.parameters import Parameters
from pliant.ddp.process_groups import Groups
from pliant.monitoring.monitor import RunMonitor
from pliant.options import Options
from pliant.updates.support import UpdatesSupport

_logger = logging.getLogger("pliant")

_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING)


def make_engine(
    options: Options,
    groups: Groups,
    parameters: Parameters,
    support: UpdatesSupport,
    monitor: RunMonitor,
    *,
    deadline: float,
) -> _native.Engine:
    """Collective: raises DisagreementError on all ranks unless they agree on everything that must
    be the same. deadline: for each message, in seconds."""
    torch_version, python = str(torch.__version__), platform.python_version()
    devices = ", ".join(sorted({tensor.device.type for tensor in parameters.tensors}))
    native = options.native()
    native.deadline = deadline
    native.updates = support.driver is not None
    native.adam = support.adam
    native.log = _log
    native.facts = [
        ("torch", torch_version),
        ("Python", python),
        ("scaler", "no" if options.scaler is None else "yes"),
        ("clear_momentum", str(options.clear_momentum)),
        ("device", devices),
    ]
    try:
        native.objection = monitor.start_metrics(groups.rank)
        native.run_log = monitor.run_log(
            versions=[("torch", torch_version), ("python", python)],
            options=[("lanes", str(options.lanes)), ("device", devices)],
        )
        return _native.Engine(groups.exchange, parameters.named(), support.buffers(), native)
    except BaseException:
        monitor.stop(None)
        raise


def _log(severity: int, text: str) -> None:
    _logger.log(_LEVELS[severity], text, extra={"from_engine": True})
