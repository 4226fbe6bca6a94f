# SPDX-License-Identifier: MIT
"""Kind updates, on the training thread's side: after every completed step the engine lands and
sends; here is what surrounds it.

    base        the parameters on which all ranks agree, bit for bit
    progress    what this rank's optimizers have done since its last exchange

Parameters are read and written afresh at every call, by the engine alone. docs/updates.md says what
it means for a training loop."""

from __future__ import annotations

import logging
import weakref
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from pliant import _native, alike, checkpoint, joining, model as models
from pliant.buffers import Buffers
from pliant.desk import Desk
from pliant.errors import ContractError, DisagreementError
from pliant.optimizers import Optimizers
from pliant.own import Own
from pliant.quiet import Quiet
from pliant.steps import Steps
from pliant.watch import out_of_graphs

log = logging.getLogger("pliant")

_MOMENTUM = ("momentum_buffer",)
_MOMENTUM_OF_ADAM = ("momentum_buffer", "exp_avg")


class Updates:
    """Of one averager whose optimizers are known. While the plan is of kind gradients it only
    waits."""

    def __init__(
        self,
        ddp: DistributedDataParallel,
        model: models.Model,
        optimizers: Optimizers,
        buffers: Buffers,
        clear_momentum: bool | None,
        scaler: Any,
    ) -> None:
        self.model = model
        self.buffers = buffers
        self.optimizers = optimizers
        self.joining = joining.Joining(self, ddp)
        self._ddp = ddp
        self._scaler = scaler
        self._momentum = {None: _MOMENTUM, True: _MOMENTUM_OF_ADAM, False: ()}[clear_momentum]
        self._clear_all = clear_momentum is True
        self._quiet = Quiet(ddp)
        self._engine: _native.Engine | None = None
        self._desk: Desk | None = None
        self._alone = False
        self._based = False
        self._strides: list[tuple[int, ...]] = []  # when the base was taken
        self._kept: list[torch.Tensor] | None = (
            None  # this rank's own, while the base is in its place
        )
        self._failure: Exception | None = None
        self._own = Own(model, buffers, optimizers)
        self._scale_from_now_on: dict[str, Any] | None = None
        self._steps: Steps | None = None
        self._handles: list[RemovableHandle] = []
        self._said: set[str] = set()

    def start(self, engine: _native.Engine, desk: Desk, *, alone: bool) -> None:
        """Collective."""
        self._engine, self._desk, self._alone = engine, desk, alone
        me = weakref.WeakMethod(self.completed_step)
        self._steps = Steps(
            self.optimizers.each,
            lambda: _call(me),
            lambda: engine.is_updates,
            lambda: engine.lengthening,
        )
        before = weakref.WeakMethod(self.before_forward)
        self._handles.append(
            self._ddp.register_forward_pre_hook(out_of_graphs(lambda module, inputs: _call(before)))
        )
        self._handles += self._own.watch(self._ddp.module)
        if self.in_force:
            self._take_base("attaching")

    def stop(self) -> None:
        if self._steps is not None:
            self._steps.stop()
        for handle in self._handles:
            handle.remove()
        self._quiet.leave()
        self._engine = None

    # --- what is asked ---

    @property
    def in_force(self) -> bool:
        return self._engine is not None and self._engine.is_updates

    @property
    def training_alone(self) -> bool:
        """No gradient is averaged."""
        return self.in_force and not self._alone

    @property
    def failed(self) -> bool:
        return self._failure is not None

    def base(self) -> list[torch.Tensor]:
        """In the shapes of the parameters, copies."""
        if not self._based or self._alone:
            return [parameter.detach().clone() for parameter in self.model.parameters]
        return [
            self.model.unflatten(position, flat)
            for position, flat in enumerate(self._running().base())
        ]

    def check_not_swapped(self, what: str) -> None:
        if self._kept is not None:
            raise ContractError(
                f"{what} inside on_base() or settled(): the base is in the parameters' place there, leave it first"
            )

    def check_as_trained(self) -> None:
        """Before the parameters are used outside a step: they are what training left there."""
        if self.training_alone and self._based and self._kept is None:
            self._own.put_back_if_overwritten()
            self._check_not_replaced()

    # --- the training loop ---

    def before_forward(self) -> None:
        if self._engine is None or self._alone:
            return
        if self._scale_from_now_on is not None:
            self._scaler.load_state_dict(self._scale_from_now_on)
            self._scale_from_now_on = None
        if not self.in_force:
            return
        self._own.put_back_if_overwritten()
        if torch.is_grad_enabled() and not self._based:
            self._take_base("changing to updates")
        self.joining.before_forward()
        self._quiet.enter()

    def saw_bucket(self) -> None:
        self._quiet.saw_a_backward()

    def completed_step(self) -> None:
        self._check_nothing_failed()
        if not self.training_alone:
            self._own.let_go()
            return
        self.check_not_swapped("an optimizer's step")
        if not self._based:
            self._take_base("changing to updates")
            return
        self._own.let_go()
        self._check_not_replaced()
        engine = self._running()
        engine.note_rates(self.optimizers.rates())
        with self._failing():
            stepped = engine.step(self.model.parameters, self.buffers.tensors())
        if not stepped.finite:
            dropped = self.optimizers.drop_what_is_not_finite()
            log.warning(
                "the progress of this rank was not finite: its parameters went back, and %d entries of its optimizers' state were set to 0",
                dropped,
            )
        if stepped.sent or stepped.landed:
            self.optimizers.forget_positions()
        if stepped.landed:
            self._clear_momentum()
        if not self.in_force:
            with self._failing():
                self._become_alike()
        self.joining.completed_step()

    # --- for people ---

    @contextmanager
    def on_base(self) -> Iterator[None]:
        if not self.training_alone or not self._based or self._kept is not None:
            yield
            return
        self.check_as_trained()
        engine = self._running()
        tensors = [*self.model.parameters, *self.buffers.tensors()]
        self._kept = [tensor.detach().clone() for tensor in tensors]
        agreed = self.base() + [
            _as(tensor, flat)
            for tensor, flat in zip(self.buffers.tensors(), engine.agreed_buffers(), strict=True)
        ]
        _write(tensors, agreed)
        try:
            yield
        finally:
            kept, self._kept = self._kept, None
            _write([*self.model.parameters, *self.buffers.tensors()], kept)

    @contextmanager
    def settled(self) -> Iterator[None]:
        self._check_nothing_failed()
        if self.training_alone and self._based:
            self.check_not_swapped("settled()")
            self.check_as_trained()
            with self._failing():
                self._running().meet(self.model.parameters, self.buffers.tensors())
                self._after_settling()
        with self.on_base():
            yield

    def settle(self) -> None:
        """Collective: everything lands, what this rank has not sent yet included or kept in the
        residual; parameters = base."""
        if self.training_alone and self._based:
            self.check_not_swapped("settling")
            self.check_as_trained()
            self.settle_on(self.model.parameters, self.buffers.tensors())

    def settle_on(
        self, parameters: Sequence[torch.Tensor], buffers: Sequence[torch.Tensor]
    ) -> None:
        with self._failing():
            self._running().settle(parameters, buffers)
            self._after_settling()

    def rebase(self) -> None:
        """Collective: rank 0's parameters are the base from now on."""
        self.check_not_swapped("rebase()")
        if self.training_alone:
            self._compare_layouts()
        self._own.forget()
        if self._alone:
            return
        if self.in_force and self._based:
            # Ranks may be an exchange apart. They meet on copies of the base: what is in the
            # parameters is no progress.
            scratch = self.base()
            with self._failing():
                self._running().settle(
                    scratch, [buffer.detach().clone() for buffer in self.buffers.tensors()]
                )
                if not self.in_force:
                    self._become_alike()
        self._based = False
        self.optimizers.forget_positions()
        if self.in_force:
            self._take_base("rebasing")
        else:
            self._meet().agree([*self.model.parameters, *self.buffers.tensors()], "rebasing")

    # --- state ---

    def own_state(self, *, parameters: bool, optimizers: bool) -> dict[str, Any]:
        self.check_as_trained()
        if self._kept is None:
            return self._own.state_dict(parameters=parameters, optimizers=optimizers)
        tensors = [*self.model.parameters, *self.buffers.tensors()]
        agreed = [tensor.detach().clone() for tensor in tensors]
        _write(tensors, self._kept)
        try:
            return self._own.state_dict(parameters=parameters, optimizers=optimizers)
        finally:
            _write(tensors, agreed)

    def was_restored(self, saved: Mapping[str, Any]) -> None:
        """The engine has been; now what is this rank's own."""
        self._based = self.in_force and checkpoint.is_updates(saved)
        self._note_layout()
        self._own.load_state_dict(saved)
        if not self.in_force:
            self._quiet.leave()

    def before_state(self) -> None:
        if self._alone and self.in_force:
            self._running().rebase(self.model.parameters, self.buffers.tensors())

    def compare_restored(self, saved: Mapping[str, Any]) -> None:
        """Collective: states that were saved on different sides of an exchange cannot go on
        together."""
        if self._alone:
            return
        said = self._meet().gather(
            [saved.get("kind"), saved.get("step")], "load_state_dict: comparing the states"
        )
        for rank, other in enumerate(said):
            if other != said[0]:
                raise DisagreementError(
                    f"load_state_dict: rank 0 has {_state_of(*said[0])} and rank {rank} {_state_of(*other)}. "
                    "Where a rank may have skipped a step, save inside averager.settled()."
                )

    # --- inside ---

    def _check_not_replaced(self) -> None:
        if self._own.loaded:
            raise ContractError(
                "the model's parameters were loaded (load_state_dict) after pliant.attach(): to an exchange that would look like progress. "
                "Call averager.rebase() on every rank after loading, or averager.load_state_dict() with what averager.state_dict() gave."
            )
        if self._strides != self._strides_now():
            raise ContractError(
                "the model's memory format was changed (channels_last?) after pliant.attach(): entries are not where the base has them. "
                "Call averager.rebase() on every rank after changing it."
            )

    def _strides_now(self) -> list[tuple[int, ...]]:
        return [tensor.stride() for tensor in (*self.model.parameters, *self.buffers.tensors())]

    def _compare_layouts(self) -> None:
        said = self._meet().gather(
            zlib.crc32(repr(self._strides_now()).encode()), "rebase(): comparing memory formats"
        )
        for rank, other in enumerate(said):
            if other != said[0]:
                raise DisagreementError(
                    f"rebase(): rank {rank} has another memory format (channels_last?) than rank 0; change it on every rank"
                )

    def _note_layout(self) -> None:
        self._strides = self._strides_now()

    def _after_settling(self) -> None:
        """Collective: counters are the largest. Or that was the end of updates."""
        self.optimizers.forget_positions()
        if self.in_force:
            self._count_alike()
        else:
            self._become_alike()

    def _running(self) -> _native.Engine:
        if self._engine is None:
            raise ContractError("this averager is closed")
        return self._engine

    def _meet(self) -> Desk:
        assert self._desk is not None
        return self._desk

    def _check_nothing_failed(self) -> None:
        """What went wrong once is raised again: ranks that have lost each other must not train on
        as if nothing had happened."""
        if self._failure is not None:
            raise self._failure

    @contextmanager
    def _failing(self) -> Iterator[None]:
        self._check_nothing_failed()
        try:
            yield
        except Exception as error:
            self._failure = error
            raise

    def _take_base(self, when: str) -> None:
        tensors = [*self.model.parameters, *self.buffers.tensors(), *self.buffers.counts()]
        if not self._alone and not self._meet().agree(tensors, f"{when}: agreeing on the base"):
            log.info("%s: ranks had different parameters or buffers; rank 0's are the base", when)
        self._running().rebase(self.model.parameters, self.buffers.tensors())
        self._note_layout()
        self._based = True
        self._own.loaded = False
        self._say_once_what_does_not_travel()
        if not self._alone:
            self._quiet.enter()

    def _clear_momentum(self) -> None:
        engine = self._running()
        for key in self._momentum:
            held = [
                self.optimizers.momenta(parameter, key, of_all=self._clear_all)
                for parameter in self.model.parameters
            ]
            if not any(held):
                continue
            laid_out = [
                _as_laid_out(parameter, momenta[0]) if momenta else torch.zeros_like(parameter)
                for parameter, momenta in zip(self.model.parameters, held, strict=True)
            ]
            engine.clear_at_sent(laid_out)
            for momenta, cleared in zip(held, laid_out, strict=True):
                if momenta and momenta[0] is not cleared:
                    momenta[0].copy_(cleared)

    def _count_alike(self) -> None:
        if counts := self.buffers.counts():
            self._meet().reduce(counts, "maximum", "settling: the model's counters")

    def _become_alike(self) -> None:
        """The engine has left updates: parameters are alike; so become buffers, optimizers and the
        loss scale."""
        desk = self._meet()
        self._based = False
        desk.agree(self.buffers.tensors(), "changing to gradients: the model's buffers")
        self._count_alike()
        alike.make_alike(self.optimizers, self.model, desk)
        scale = self._scaler.state_dict() if self._scaler is not None else {}
        if scale:
            least = torch.tensor(
                [scale["scale"], float(scale["_growth_tracker"])], dtype=torch.float64
            )
            desk.reduce([least], "minimum", "changing to gradients: the loss scale")
            # Set at the next forward: until then this step's own update() of the scaler is still to
            # come.
            self._scale_from_now_on = {
                **scale,
                "scale": float(least[0]),
                "_growth_tracker": int(least[1]),
            }
        self._quiet.leave()

    def _say_once_what_does_not_travel(self) -> None:
        if self.buffers.left and "left" not in self._said:
            self._said.add("left")
            log.warning(
                "buffers that are not dense float32 tensors stay as they are on each rank: %s",
                ", ".join(self.buffers.left),
            )
        if "sync" not in self._said and any(
            isinstance(part, nn.SyncBatchNorm) for part in self._ddp.module.modules()
        ):
            self._said.add("sync")
            log.warning(
                "SyncBatchNorm is a collective of its own in every forward: it works, but late= cannot hide it"
            )


def _call(method: weakref.WeakMethod[Any]) -> None:
    if (alive := method()) is not None:
        alive()


def _state_of(kind: str | None, step: int | None) -> str:
    return "none" if step is None else f"one of kind {kind}, exchange {step}"


def _as(like: torch.Tensor, flat: torch.Tensor) -> torch.Tensor:
    return flat.as_strided(like.shape, _native.layout(like))


def _as_laid_out(parameter: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy with the parameter's strides."""
    if tensor.dtype == torch.float32 and tensor.stride() == parameter.stride():
        return tensor
    return torch.empty_like(parameter).copy_(tensor)


def _write(tensors: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    with torch.no_grad():
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)
