# SPDX-License-Identifier: MIT
"""Averager: the object that `pliant.attach` and `pliant.comm_hook` return."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.join import Joinable, JoinHook
from torch.futures import Future

from pliant.argument_checks import check_flag, check_text
from pliant.attachment import Attachment, InertAttachment
from pliant.checkpoint import check_state
from pliant.errors import ContractError, UnsupportedError
from pliant.options import check_plan
from pliant.summary import Summary


class Averager(Joinable):
    """Averages the gradients or updates of one model over the ranks of one process group. Used by
    the thread that trains."""

    def __init__(self, attachment: Attachment) -> None:
        super().__init__()
        self._attachment = attachment

    @property
    def plan(self) -> str:
        """The plan in force, complete, as docs/plans.md writes it."""
        running = self._attachment.running
        return self.summary().plan if running is None else str(running.engine.plan)

    def set_plan(self, plan: str) -> None:
        """Changes the plan from the next step or exchange on. Collective: every rank passes the
        same plan at the same step, which is checked."""
        check_plan(plan)
        self._attachment.set_plan(plan)

    def tell_network(self, link: str | None) -> None:
        """Makes decisions assume this network ("100mbit,10ms") instead of measuring it; None goes
        back to measuring. Collective: every rank passes the same link at the same step, which is
        checked."""
        if link is not None:
            check_text("link", link, "a network such as '100mbit,10ms', as a text, or None")
        self._attachment.tell_network(link)

    def summary(self) -> Summary:
        """Counts, times and bytes of this rank so far; after close(), those of the whole run."""
        return self._attachment.summary()

    @property
    def worth(self) -> float:
        """Worth of a step under the plan in force: its progress relative to a step of plain DDP, at
        most 1. The same on all ranks at the same step (docs/goals.md)."""
        return self._attachment.worth

    @property
    def effective_steps(self) -> float:
        """Sum of the worth of all steps so far. A loop that ends at N effective steps ends about
        where plain DDP ends after N steps."""
        return self._attachment.effective_steps

    def note(self, **values: float) -> None:
        """Writes numbers to the run log and the metrics, as of the last step:
        `averager.note(loss=0.31, accuracy=0.88)`."""
        self._attachment.monitor.note(values)

    def phase(self, name: str) -> None:
        """Enters a named phase of the lab's timeline, on rank 0, and logs it. Outside the lab it is
        only logged."""
        self._attachment.monitor.phase(name)

    def base(self) -> dict[str, torch.Tensor]:
        """The parameters on which all ranks agree, by name, as copies. Under gradients these are
        the parameters."""
        parameters, updates = self._attachment.parameters, self._attachment.support.driver
        if updates is None:
            return {name: tensor.detach().clone() for name, tensor in parameters.named()}
        return updates.named_base()

    def on_base(self) -> AbstractContextManager[None]:
        """Inside, the model holds the base, on this rank alone and without communication: to
        evaluate or save. Nobody may train there."""
        updates = self._attachment.support.driver
        return nullcontext() if updates is None else updates.on_base()

    def settled(self) -> AbstractContextManager[None]:
        """Collective. Inside, everything in flight has landed and all ranks hold the base; on
        leaving, each goes on with its progress."""
        updates = self._attachment.support.driver
        return nullcontext() if updates is None else updates.settled()

    def rebase(self) -> None:
        """Collective, after parameters were loaded or edited: rank 0's parameters become the base.
        Everything in flight and every residual is dropped."""
        self._attachment.state.was_rebased()
        if self._attachment.support.driver is not None:
            self._attachment.support.driver.rebase()

    def state_dict(self, *, parameters: bool = True, optimizers: bool = True) -> dict[str, Any]:
        """The state that this rank needs to continue as if it had never stopped: tensors and plain
        values, taken between steps. One per rank.

        Under updates it includes this rank's parameters and optimizer state, unless the arguments
        exclude them: they differ between ranks."""
        check_flag("parameters", parameters)
        check_flag("optimizers", optimizers)
        attachment = self._attachment
        alone = (
            {}
            if attachment.alone_steps is None
            else {"effective_steps": attachment.effective_steps}
        )
        if attachment.running is not None:
            saved = attachment.state.save(
                attachment.running, parameters=parameters, optimizers=optimizers
            )
            return saved | alone
        if (pending := attachment.state.pending()) is not None:
            return pending | alone
        raise ContractError(
            "state_dict: "
            + (
                "this averager is closed"
                if attachment.is_closed
                else "there is none before the first step of a bare hook"
            )
        )

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Loads the state of this rank, saved at the same world size (else `pliant.reshard` first).
        None or an empty state is logged once, and training goes on.

        With optimizers attached it is collective: ranks compare from which exchange their states
        are."""
        attachment = self._attachment
        if isinstance(attachment, InertAttachment) and isinstance(state, Mapping):
            return attachment.load_alone(state)
        if state is not None:
            check_state("state", state)
        if not state:
            attachment.state.load_nothing(attachment.running, attachment.support)
        elif attachment.is_closed:
            raise ContractError("load_state_dict: this averager is closed")
        else:
            attachment.state.load(attachment.running, state)
            attachment.load_alone(state)

    def close(self) -> None:
        """Waits for exchanges under way and ends the process groups of pliant. From then on DDP
        averages as if pliant had never been there.

        Under updates it is collective and settles first, unless an exception is on its way."""
        self._attachment.close()

    def on_bucket(self, bucket: GradBucket) -> Future[torch.Tensor]:
        """Called by the hook that `comm_hook` returns."""
        return self._attachment.on_bucket(bucket)

    # --- torch.distributed.algorithms.Join ---

    def join_hook(self, **kwargs: Any) -> JoinHook:
        updates = self._attachment.support.driver
        if updates is None:
            return JoinHook()
        if updates.join is None:
            raise UnsupportedError(
                "Join does not work with across=: islands take equally many steps"
            )
        return updates.join.begin(self)

    @property
    def join_device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def join_process_group(self) -> dist.ProcessGroup:
        return self._attachment.group
