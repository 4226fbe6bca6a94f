# SPDX-License-Identifier: MIT
"""One rank of the doctor's trial of a device: trains the same steps in host memory and on the
device, with the other rank, and compares the parameters bit by bit.

The gradients are given numbers, and the learning rate is a power of two: so both come to the same
bits, whatever kernels the device has, unless a copy or a wait is wrong.

Imports torch, so trial.py imports this module only once torch has been found."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import pliant
from pliant.doctor.facts import Facts, first_line

PLANS = (
    "gradients dense",
    "gradients dense values=f16",
    "gradients union density=5%",
    "gradients shared/star density=5% values=f16",
    "gradients shared/var density=10% fuse=all",
    "gradients srs density=5% values=int8 indices=rice",
    "updates every=1 late=0 dense",
    "updates every=2 late=1 union density=10% values=int4 indices=rice",
    "updates every=1 late=0 union density=1% values=f32",
    "updates every=2 late=0 shared/star density=10%",
    "updates every=2 late=2 srs density=10% values=int8",
)
_SPARSE_UPDATES = PLANS[7]
_ORDERED = (PLANS[2], _SPARSE_UPDATES)
"""Plans that are tried again with a device that is busy."""

_SHAPES = ((300_000,), (513, 65), (7,), (64, 64))
"""The first one is longer than a chunk of staging; the second one has an odd size."""

_STEPS = 4
_RATE = 0.5
_PATIENCE = datetime.timedelta(seconds=60)
_COPIED = 1 << 24
"""Entries of the copy that is timed: 64 MiB."""


def find_device(name: str, facts: Facts) -> torch.device | None:
    """None if there is none of that name here."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        facts.add(device_unknown=first_line(error))
        return None
    try:
        torch.ones(1, device=device).cpu()
    except Exception as error:  # noqa: BLE001  torch raises what it likes for a missing device
        facts.add(device_missing=first_line(error))
        return None
    return device


def place_of(device: torch.device, rank: int, size: int) -> tuple[torch.device, str]:
    """This rank's device and the backends of the process group: a device for each rank and its own
    backend (NCCL) where there are so many, otherwise one device for all."""
    if device.type == "cpu":
        return device, "gloo"
    own = dist.Backend.default_device_backend_map.get(device.type, "gloo")
    count = torch.get_device_module(device).device_count()
    if device.index is None and count >= size:
        return torch.device(device.type, rank), f"cpu:gloo,{device.type}:{own}"
    # NCCL refuses two ranks on one device; Gloo takes tensors of CUDA.
    shared = "gloo" if device.type == "cuda" else own
    return torch.device(device.type, device.index or 0), f"cpu:gloo,{device.type}:{shared}"


def train(rank: int, device: torch.device, plan: str | None, before: Callable[[], None]) -> Result:
    """before: called before each backward."""
    model = DistributedDataParallel(_Given().to(device), bucket_cap_mb=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=_RATE)
    averager = None if plan is None else pliant.attach(model, optimizer, plan)
    for step in range(_STEPS):
        numbers = _random(1000 * step + rank + 1)
        optimizer.zero_grad()
        loss = model([number.to(device) for number in numbers])
        before()
        loss.backward()
        optimizer.step()
    memory = 0.0
    if averager is not None:
        kept = averager.summary().memory
        memory = kept.residual + kept.base + kept.in_flight + kept.scratch
        averager.close()
    flat = torch.cat([parameter.detach().flatten().cpu() for parameter in model.parameters()])
    return Result(flat, memory)


@dataclass(frozen=True)
class Result:
    parameters: torch.Tensor
    memory: float
    """Bytes of the host for each parameter."""


class _Given(nn.Module):
    """A model whose gradient is what its forward is given."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.ParameterList(_random(0))

    def forward(self, numbers: list[torch.Tensor]) -> torch.Tensor:
        products = [
            (parameter * number).sum() for parameter, number in zip(self.all, numbers, strict=True)
        ]
        return torch.stack(products).sum()


def _random(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator("cpu").manual_seed(seed)
    return [torch.randn(shape, generator=generator, device="cpu") for shape in _SHAPES]


def compare(rank: int, device: torch.device, facts: Facts) -> None:
    """The number of entries that differ, over all ranks, by plan."""
    differing: dict[str, int] = {}
    busy = _Load(device)
    for plan in PLANS:
        expected = train(rank, torch.device("cpu"), plan, lambda: None)
        for before, key in ((None, plan), (busy, f"busy: {plan}")):
            if before is not None and (plan not in _ORDERED or device.type == "cpu"):
                continue
            result = train(rank, device, plan, before or (lambda: None))
            wrong = result.parameters.view(torch.int32) != expected.parameters.view(torch.int32)
            count = wrong.sum().reshape(1)
            dist.all_reduce(count)
            differing[key] = int(count)
        facts.add(differing=differing)
        if plan == _SPARSE_UPDATES:
            facts.add(host_bytes=result.memory, host_plan=plan)


class _Load:
    """Work that keeps the device busy for a while, so that what comes after it is late."""

    def __init__(self, device: torch.device) -> None:
        self._square = torch.eye(768, device=device)

    def __call__(self) -> None:
        for _ in range(12):
            self._square = self._square @ self._square


def look_at_memory(rank: int, device: torch.device, facts: Facts) -> None:
    """The largest use of device memory with plain DDP and with Pliant."""
    if device.type == "cpu":
        return
    module = torch.get_device_module(device)
    peaks = []
    for plan in (None, _SPARSE_UPDATES):
        try:
            module.reset_peak_memory_stats(device)
        except (AttributeError, RuntimeError):
            return
        train(rank, device, plan, lambda: None)
        peaks.append(int(module.max_memory_allocated(device)))
    facts.add(device_bytes=peaks)


def look_at_copies(device: torch.device, facts: Facts) -> None:
    if device.type == "cpu":
        return
    there = torch.ones(_COPIED, dtype=torch.float32, device=device)
    try:
        here = torch.empty(_COPIED, dtype=torch.float32, device="cpu", pin_memory=True)
    except RuntimeError as error:
        facts.add(pinned_error=first_line(error))
        return
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        here.copy_(there, non_blocking=True)
        torch.accelerator.synchronize(device)
        seconds.append(time.perf_counter() - begin)
    facts.add(copy_bytes=4 * _COPIED, copy_seconds=min(seconds))


def try_device(name: str, rank: int, size: int, store: str, facts: Facts) -> None:
    if (device := find_device(name, facts)) is None:
        return
    mine, backend = place_of(device, rank, size)
    if mine.type != "cpu":
        torch.get_device_module(mine).set_device(mine)
    facts.add(**{f"device{rank}": str(mine)}, group=backend, device_name=_name_of(mine))
    dist.init_process_group(
        backend, init_method=f"file://{store}", rank=rank, world_size=size, timeout=_PATIENCE
    )
    look_at_copies(mine, facts)
    compare(rank, mine, facts)
    look_at_memory(rank, mine, facts)
    dist.barrier()
    dist.destroy_process_group()
    facts.add(tried=True)


def _name_of(device: torch.device) -> str:
    if device.type == "cpu":
        return ""
    name_of = getattr(torch.get_device_module(device), "get_device_name", None)
    return "" if name_of is None else str(name_of(device))
