# SPDX-License-Identifier: MIT
"""The late device as torch's device "late": importing this module registers it.

Its memory cannot be touched by the host, its streams are threads that run late on purpose, and
random (support/late/streams.h). A group for it: `init_process_group("cpu:gloo,late:staged")`.

LATE_DEVICE_DROPS=POOL in the environment makes a faulty device of it: streams of the pool do not
wait for events (late_device.Waiter has other names)."""

from __future__ import annotations

import atexit
import contextlib
import datetime
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import late_device
import torch
import torch.distributed as dist

NAME = "late"


def _make_module() -> types.ModuleType:
    module = types.ModuleType(f"torch.{NAME}")
    members: dict[str, Any] = {
        "Stream": torch.Stream,
        "Event": torch.Event,
        "_is_in_bad_fork": lambda: False,
        "current_device": late_device.current_device,
        "current_stream": lambda device=None: torch.accelerator.current_stream(device),
        "device": _device,
        "device_count": lambda: late_device.device_count,
        "get_amp_supported_dtype": lambda: [torch.bfloat16, torch.float16],
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        "set_device": lambda device: late_device.set_device(_index(device)),
        "stream": _stream,
        "synchronize": lambda device=None: late_device.synchronize(_index(device)),
    }
    module.__dict__.update(members)
    return module


def _index(device: Any) -> int:
    if device is None:
        return int(late_device.current_device())
    index = device if isinstance(device, int) else torch.device(device).index
    return int(late_device.current_device()) if index is None else int(index)


@contextlib.contextmanager
def _device(device: Any) -> Iterator[None]:
    before = late_device.current_device()
    late_device.set_device(_index(device))
    try:
        yield
    finally:
        late_device.set_device(before)


@contextlib.contextmanager
def _stream(stream: Any) -> Iterator[None]:
    before = torch.accelerator.current_stream(stream.device)
    torch.accelerator.set_stream(stream)
    try:
        yield
    finally:
        torch.accelerator.set_stream(before)


def _staged(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Any:
    return late_device.staged(dist.ProcessGroupGloo(store, rank, size, timeout))


def _end() -> None:
    """No stream works any more when torch's own objects go."""
    for device in range(late_device.device_count):
        with contextlib.suppress(RuntimeError):
            late_device.synchronize(device)


def register() -> None:
    """For torch, which calls this if an installed package names it as a backend: importing this
    module has done it all."""


if not hasattr(torch, NAME):
    torch.utils.rename_privateuse1_backend(NAME)
    sys.modules[f"torch.{NAME}"] = _make_module()
    torch._register_device_module(NAME, sys.modules[f"torch.{NAME}"])
    torch.utils.generate_methods_for_privateuse1_backend()
    dist.Backend.register_backend("staged", _staged, devices=[NAME])
    atexit.register(_end)
    if dropped := os.environ.get("LATE_DEVICE_DROPS"):
        late_device.drop_waits(getattr(late_device.Waiter, dropped))
        late_device.set_delays(seed=1, least=3000, most=3000, period=2)
