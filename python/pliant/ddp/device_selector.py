# SPDX-License-Identifier: MIT
"""Selector for gradients on a device: torch accumulates, selects and scatters them there, and only
the kept entries visit the host.

The engine gets the kept entries as a vector that is zero elsewhere, so schemes, codes and checks
are the same as for gradients in host memory. Entries that the engine does not send, and its
rounding errors, stay in the engine's residual; entries that were not kept stay in the residual
here. Nothing is lost between the two. A follower of `shared` has on the host only what it would
have sent itself, so `check` refuses that scheme."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future

from pliant import _native
from pliant.ddp.parameters import Parameters
from pliant.errors import UnsupportedError

Submit = Callable[
    [torch.Tensor, list[torch.Tensor], torch.Tensor, Callable[[], None]], "Future[torch.Tensor]"
]


def check(plan: str) -> None:
    """Refuses plans for which the host would need more than the kept entries."""
    if _native.Pins(plan).scheme == "shared":
        raise UnsupportedError(
            f"plan '{plan}': under `shared` a rank sends what another one picked, and with "
            "selector='torch' the host has only what it picked itself. "
            "Use union or srs."
        )


class DeviceSelector:
    """Holds the residual of one rank's model where its parameters are."""

    def __init__(self, parameters: Parameters, clip_norm: float) -> None:
        self.clip_norm = clip_norm  # in units of the gradients
        self._names = {id(parameter): name for name, parameter in parameters.named()}
        self._residual = {
            name: torch.zeros(p.numel(), device=p.device) for name, p in parameters.named()
        }
        self.last_norm = 0.0
        self._energy = 0.0

    def submit(
        self, bucket: GradBucket, plan: _native.Plan, submit: Submit
    ) -> Future[torch.Tensor]:
        buffer, parameters = bucket.buffer(), bucket.parameters()
        before = (
            [self._residual[self._names[id(parameter)]].clone() for parameter in parameters]
            if plan.density == 1
            else []
        )
        host = self._take(buffer.to(torch.float32), parameters, plan.density)
        if bucket.is_last():
            if math.isfinite(self._energy):
                self.last_norm = math.sqrt(self._energy)
            self._energy = 0.0

        def land() -> None:
            average = host  # replaced by now
            if before and not bool(
                average.isfinite().all()
            ):  # this step will be skipped: what it took from the residual goes back
                for parameter, kept in zip(parameters, before, strict=True):
                    self._residual[self._names[id(parameter)]].copy_(kept)
            changed = average.nonzero().view(-1)
            buffer.zero_()
            buffer[changed.to(buffer.device)] = average[changed].to(buffer.device, buffer.dtype)

        return submit(host, parameters, buffer, land)

    def rescale(self, factor: float) -> None:
        for residual in self._residual.values():
            residual.mul_(factor)
        self.last_norm *= factor

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {
            name: residual.to("cpu", copy=True)
            for name, residual in self._residual.items()
            if bool(residual.any())
        }

    def load_state_dict(self, state: Mapping[str, torch.Tensor], last_norm: float) -> None:
        self.last_norm = last_norm
        for name, residual in self._residual.items():
            residual.zero_()
            if name in state:
                residual.copy_(state[name])

    @property
    def bytes(self) -> int:
        return sum(
            residual.numel() * residual.element_size() for residual in self._residual.values()
        )

    def _take(
        self, gradient: torch.Tensor, parameters: list[torch.Tensor], density: float
    ) -> torch.Tensor:
        """Accumulates, and takes the largest entries out: a host vector that is zero where nothing
        was kept."""
        gradient = self._clip(gradient)
        host = torch.zeros(gradient.numel())
        if not bool(gradient.isfinite().all()):
            host[0] = math.nan  # voids the exchange on every rank; the residual stays as it was
            return host
        pieces = torch.split(gradient, [parameter.numel() for parameter in parameters])
        # Parameters that backward did not reach keep their residual: if no rank reached one, DDP
        # would drop its average.
        reached = [bool(piece.any()) for piece in pieces]
        residuals = [self._residual[self._names[id(parameter)]] for parameter in parameters]
        accumulated = torch.cat(
            [
                piece + residual if there else piece
                for piece, residual, there in zip(pieces, residuals, reached, strict=True)
            ]
        )
        keep = min(max(math.floor(density * accumulated.numel() + 0.5), 1), accumulated.numel())
        kept = accumulated.abs().topk(keep, sorted=False).indices.sort().values
        host[kept.cpu()] = accumulated[kept].cpu()
        accumulated[kept] = 0
        for rest, residual, there in zip(
            torch.split(accumulated, [p.numel() for p in pieces]), residuals, reached, strict=True
        ):
            if there:
                residual.copy_(rest)
        return host

    def _clip(self, gradient: torch.Tensor) -> torch.Tensor:
        """By the last step's norm: the other buckets of this one are not here yet."""
        if self.clip_norm <= 0:
            return gradient
        self._energy += float(gradient.square().sum())
        return (
            gradient
            if self.last_norm <= self.clip_norm
            else gradient * (self.clip_norm / self.last_norm)
        )
