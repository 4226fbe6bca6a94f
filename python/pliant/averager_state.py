# SPDX-License-Identifier: MIT
"""State of one averager: saving it, loading it, and the check that all ranks continue from the same
step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant import _native, checkpoint
from pliant.ddp.gradients_driver import GradientsDriver
from pliant.ddp.parameters import Parameters
from pliant.errors import ContractError
from pliant.log_once import LogOnce
from pliant.side_channel import SideChannel
from pliant.updates.checkpoint import is_updates
from pliant.updates.support import UpdatesSupport


@dataclass(frozen=True)
class Running:
    """Parts of an averager whose engine runs."""

    engine: _native.Engine
    side_channel: SideChannel
    parameters: Parameters
    gradients: GradientsDriver
    support: UpdatesSupport


class AveragerState:
    """Remembers what was loaded, and a state that was loaded before there was an engine."""

    def __init__(self) -> None:
        self._pending: dict[str, Any] | None = None
        self._restored = False
        self._optimizer_restored = False
        self._compared = False  # whether ranks have compared where they continue from
        self._log_once = LogOnce()

    def pending(self) -> dict[str, Any] | None:
        return None if self._pending is None else dict(self._pending)

    def save(self, running: Running, *, parameters: bool, optimizers: bool) -> dict[str, Any]:
        updates = running.support.driver
        own: dict[str, Any] = {}
        if updates is not None and updates.is_active:
            own = updates.own_state(parameters=parameters, optimizers=optimizers)
        saved = checkpoint.write(
            running.engine.state(),
            running.parameters,
            running.support.buffers(),
            rank=running.side_channel.rank,
            world_size=running.side_channel.size,
            scale=running.gradients.scale.value,
        )
        return saved | own

    def load(self, running: Running | None, state: Mapping[str, Any]) -> None:
        """Without an engine the state is kept until load_pending()."""
        self._restored = True
        if running is None:
            self._pending = dict(state)
            return
        updates = running.support.driver
        if is_updates(state) and updates is None:
            raise ContractError(
                f"load_state_dict: a state of kind updates, and {running.support.why_not}"
            )
        if updates is not None:
            updates.check_not_on_base("load_state_dict()")
        if state.get("device_residual"):
            raise ContractError(
                "load_state_dict: a state of version 0.2 with selector='torch', whose residual was "
                "kept on the device; it cannot be loaded any more"
            )
        read = checkpoint.read(
            state,
            running.parameters,
            running.support.buffers(),
            rank=running.side_channel.rank,
            world_size=running.side_channel.size,
        )
        if updates is not None:
            updates.check_loadable(state)
        running.engine.restore(read)
        self._compared = False
        running.gradients.scale.value = state.get("scale")
        if updates is not None:
            updates.was_restored(state)

    def load_nothing(self, running: Running | None, support: UpdatesSupport) -> None:
        """load_state_dict() was given no state."""
        self._log_once.warning(
            "no state", "no averager state to load: the residual is lost, training continues"
        )
        if running is not None and support.driver is not None:
            support.driver.check_loadable({})

    def load_pending(self, running: Running) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self.load(running, pending)

    def was_rebased(self) -> None:
        """Training begins where it is now, whatever was loaded."""
        self._restored = True

    def optimizer_was_restored(self) -> None:
        self._optimizer_restored = True

    def before_step(self, engine: _native.Engine, side_channel: SideChannel) -> None:
        """Collective in the first step, and in the first one after a state was loaded."""
        if not self._compared:
            self._compared = True
            summary = engine.summary()
            side_channel.check_alike(
                f"round {summary.rounds} of plan version {summary.epoch}, "
                f"{engine.effective_steps:.9g} effective steps, "
                f"{'restored' if self._restored else 'no state loaded'}",
                "where to go on from (load the averager's state on all ranks or on none)",
            )
        self.warn_if_not_restored()

    def warn_if_not_restored(self) -> None:
        if self._optimizer_restored and not self._restored:
            self._log_once.warning(
                "not restored",
                "the optimizer was restored and the averager was not: the residual is lost, "
                "training continues",
            )
