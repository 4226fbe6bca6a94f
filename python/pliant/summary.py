# SPDX-License-Identifier: MIT
"""Summary of the work of an averager so far, on this rank."""

from __future__ import annotations

from dataclasses import dataclass, field

from pliant import _native


@dataclass(frozen=True)
class Memory:
    """Bytes per entry of the model. A float32 gradient is 4."""

    residual: float = 0.0
    base: float = 0.0
    in_flight: float = 0.0  # own parts and results of exchanges under way, at least one
    scratch: float = 0.0  # payloads and receive room


@dataclass(frozen=True)
class Summary:
    plan: str
    epoch: int = 0
    steps: int = 0  # of training on this rank since attach, of either kind
    rounds: int = 0  # that all ranks count: steps of gradients, exchanges of updates
    exchanges: int = 0
    voids: int = 0  # exchanges that some rank's non-finite gradient made void
    bytes_sent: int = 0  # by this rank, control records included
    control_bytes_sent: int = 0
    control_seconds: float = 0.0  # that gathering control records took, beside everything else
    seconds_on_the_wire: float = 0.0  # of all exchanges
    seconds_coding: float = 0.0  # select, encode, decode
    overlap: float = 0.0  # updates: share of encoding, wire and decoding beside training
    updated_fraction: float = 1.0  # of the last exchange
    gain: float = 1.0
    lengthening: float = 1.0  # factor on the steps of Adam and its relatives under updates
    worth: float = 1.0  # of a step under the plan in force, relative to plain DDP's
    effective_steps: float = 0.0  # the sum of the worth of all steps so far
    memory: Memory = field(default_factory=Memory)
    network: str = ""  # as measured; empty before the first timing
    decisions: tuple[str, ...] = ()  # the last few changes of plan, oldest first, in short
    reasons: tuple[str, ...] = ()  # of the same: whole plans and long reasons

    @property
    def own_steps(self) -> int:
        """Older name of `steps`."""
        return self.steps

    @staticmethod
    def of(native: _native.Summary, entries: int) -> Summary:
        memory = native.memory
        return Summary(
            plan=native.plan,
            epoch=native.epoch,
            steps=native.steps,
            rounds=native.rounds,
            exchanges=native.exchanges,
            voids=native.voids,
            bytes_sent=native.sent,
            control_bytes_sent=native.control_sent,
            control_seconds=native.control_time,
            seconds_on_the_wire=native.on_the_wire,
            seconds_coding=native.coding,
            overlap=native.overlap,
            updated_fraction=native.updated_fraction,
            gain=native.gain,
            lengthening=native.lengthening,
            worth=native.worth,
            effective_steps=native.effective_steps,
            memory=Memory(
                *(
                    size / entries
                    for size in (
                        memory.residual,
                        memory.base,
                        memory.in_flight,
                        memory.scratch,
                    )
                )
            ),
            network=native.network,
            decisions=tuple(native.decisions),
            reasons=tuple(native.reasons),
        )

    def __str__(self) -> str:
        size, duration = _native.size_text, _native.duration_text
        per_step = size(round(self.bytes_sent / self.steps)) if self.steps else "nothing"
        lines = [
            f"plan {self.plan} (plan version {self.epoch})",
            f"steps {self.steps}, worth {self.effective_steps:.4g} of plain DDP's; exchanges "
            f"{self.exchanges}, of which void {self.voids}",
            f"sent {size(self.bytes_sent)}, {per_step} a step; control records "
            f"{size(self.control_bytes_sent)} in {duration(self.control_seconds)}",
            f"on the wire {duration(self.seconds_on_the_wire)}, coding "
            f"{duration(self.seconds_coding)}",
            f"updated fraction {self.updated_fraction:.3g}, gain {self.gain:.3g}"
            + (f", steps lengthened by {self.lengthening:.3g}" if self.lengthening != 1 else ""),
            f"bytes per parameter: residual {self.memory.residual:.3g}, base "
            f"{self.memory.base:.3g}, "
            f"in flight {self.memory.in_flight:.3g}, scratch {self.memory.scratch:.3g}",
            *([f"network, as measured: {self.network}"] if self.network else []),
            *self.decisions,
        ]
        return "\n".join(lines)
