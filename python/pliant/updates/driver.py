# SPDX-License-Identifier: MIT
"""Driver of kind updates: after every completed step it lets the engine land and send.

    base        the parameters on which all ranks agree, bit for bit
    progress    what this rank's optimizers have done since its last exchange

Only the engine reads and writes the parameters. docs/updates.md describes what a training loop
sees."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pliant import _native
from pliant.ddp.loop_observer import CallHook
from pliant.ddp.parameters import Parameters, unflatten
from pliant.errors import AbsentError, CommError, ContractError
from pliant.islands.shards import as_dtensor
from pliant.log_once import LogOnce
from pliant.options import Options, pins_updates
from pliant.side_channel import SideChannel
from pliant.updates import checkpoint
from pliant.updates.base_views import BaseHooks, BaseViews
from pliant.updates.clipping import Clipping
from pliant.updates.edits import Edits
from pliant.updates.equalizer import Equalizer
from pliant.updates.join import JoinSupport
from pliant.updates.local_state import LocalState
from pliant.updates.model_tensors import ModelTensors, Pair, copies_of
from pliant.updates.momentum import MomentumClearing
from pliant.updates.no_sync import NoSync
from pliant.updates.optimizers import Optimizers
from pliant.updates.skipped_steps import SkippedSteps
from pliant.updates.step_detector import StepDetector

log = logging.getLogger("pliant")

Result = TypeVar("Result")

_AFTER_A_DEADLINE = (
    "Under updates ranks meet by their counts of optimizer steps. If one rank skipped a step and the "
    "loop has collectives of its own, or a second averager, ranks wait for each other. Skipped by a "
    "GradScaler: pass it, pliant.attach(..., scaler=scaler). Skipped by the loop: skip on all ranks. "
    "The same if only some ranks loaded other parameters into the model."
)

_WHILE_SETTLING = (
    "This rank was settling (settled() or close()), which every rank must do: did the others come, or "
    "had their scripts ended? To evaluate or save on one rank use on_base()."
)

_NAMED = 5
"""Most parameters that a warning names."""


class UpdatesDriver:
    """The updates side of one averager. Idle while the plan is of kind gradients.

    owners: the parameters, as the model and its optimizers have them. trains_alone: between
    exchanges each rank trains by itself, and DDP must not average. In an island it does."""

    def __init__(
        self,
        model: nn.Module,
        owners: Parameters,
        tensors: ModelTensors,
        optimizers: Optimizers,
        options: Options,
        *,
        trains_alone: bool,
    ) -> None:
        self.tensors = tensors
        self.optimizers = optimizers
        self.join: JoinSupport | None = None
        self._no_sync: NoSync | None = None
        if trains_alone and isinstance(model, DistributedDataParallel):
            self.join = JoinSupport(self, model)
            self._no_sync = NoSync(model)
        self._owners = owners.tensors
        self._model_reference = weakref.ref(model)  # it keeps the averager alive, not the reverse
        self._local_state = LocalState(tensors, optimizers, weak(self._has_own_parameters))
        self._views = BaseViews(tensors, weak(self._shows_base), weak(self._agreed))
        self._edits = Edits(tensors.parameters.tensors)
        self._momentum = MomentumClearing(optimizers, options.clear_momentum)
        self._equalizer = Equalizer(tensors, optimizers, options.scaler)
        self._connection: _Connection | None = None
        self._base_hooks: BaseHooks | None = None
        self._has_base = False
        self._failure = _Failure()
        self._log_once = LogOnce()
        self._pinned = pins_updates(options.plan)
        self._scaler = options.scaler
        self._clipping = Clipping(owners.tensors, options.clip_norm, weak(self._clips))

    def start(
        self,
        engine: _native.Engine,
        side_channel: SideChannel,
        across: SideChannel,
        *,
        alone: bool,
    ) -> None:
        """Collective. side_channel: of all ranks. across: of those that exchange with each other.
        alone: there are no such ranks, and nothing is exchanged."""
        detector = StepDetector(
            self.optimizers.each,
            weak(self.completed_step),
            lambda: engine.is_updates,
            weak(self.make_loaded_the_base),
            lambda: engine.lengthening,
            self._clipping,
        )
        stops = [detector.stop, SkippedSteps(self._scaler, detector).stop]
        self._connection = _Connection(engine, side_channel, across, alone, stops)
        if self.tensors.shards is None:
            stops.append(self._hook_forward(first=False))
        self._local_state.start(self._model)
        if self.is_active:
            self._take_base("attaching")
        if (
            self.tensors.shards is not None
        ):  # before FSDP2 gathers them, and before the base's hooks
            stops.append(self._hook_forward(first=True))

    def _hook_forward(self, *, first: bool) -> Callable[[], None]:
        before = weak(self.before_forward)
        hook = CallHook(lambda module, inputs: before())
        return self._model.register_forward_pre_hook(hook, prepend=first).remove

    def stop(self) -> None:
        if self._connection is not None:
            self._connection.stop()
        self._local_state.stop()
        self._hide_base()
        self._let_ddp_average()

    @property
    def is_active(self) -> bool:
        """Whether the plan in force is of kind updates."""
        engine = self._connection.engine if self._connection is not None else None
        return engine is not None and engine.is_updates

    @property
    def trains_locally(self) -> bool:
        """Whether this rank uses its own gradients: kind updates, and there are other ranks."""
        return self.is_active and not self._alone

    @property
    def failed(self) -> bool:
        return self._failure.happened

    def base(self) -> list[torch.Tensor]:
        """Copies, in the shapes of the parameters."""
        parameters = self.tensors.parameters
        if not self._has_base or self._alone:
            return copies_of(parameters.tensors)
        if self.tensors.slices is not None:
            return self.tensors.slices.base()
        return [
            parameters.unflatten(position, flat).to(tensor.device, tensor.dtype)
            for position, (tensor, flat) in enumerate(
                zip(parameters.tensors, self._engine.base(), strict=True)
            )
        ]

    def named_base(self) -> dict[str, torch.Tensor]:
        """The same by name, as DTensors where the parameters are."""
        each = zip(self.tensors.parameters.names, self._owners, self.base(), strict=True)
        return {name: as_dtensor(owner, value) for name, owner, value in each}

    def check_as_trained(self) -> None:
        """Before the parameters are used outside a step: raises if anything but training changed
        them."""
        if self._exchanges and not self._views.is_open:
            self._local_state.restore_if_overwritten()
            if self._local_state.was_loaded:
                self._local_state.restored_own(self._agreed())
            self._local_state.check_unchanged()

    # --- the training loop ---

    def before_forward(self) -> None:
        if self._alone:
            return
        self._equalizer.before_forward()
        if not self.is_active:
            return
        if self.tensors.shards is not None:
            self.tensors.shards.check()
        self._local_state.restore_if_overwritten()
        self._views.close_if_interrupted()
        if torch.is_grad_enabled():
            self.make_loaded_the_base()
            self._edits.before_training()
            if not self._has_base:
                self._take_base("changing to updates")
        if self.join is not None:
            self.join.before_forward()
        self._keep_ddp_from_averaging()

    def saw_bucket(self) -> None:
        if self._no_sync is not None:
            self._no_sync.saw_backward()

    def completed_step(self) -> None:
        self._failure.check()
        if not self.trains_locally:
            self._local_state.completed_step()
            return
        self._views.check_closed("an optimizer's step")
        if not self._has_base:
            self._take_base("changing to updates")
            return
        self._local_state.completed_step()
        self._local_state.check_unchanged()
        self.optimizers.check_state()
        engine = self._engine
        self._views.base_changed()
        engine.note_rates(self.optimizers.rates())
        with self._failure.remember():
            stepped = engine.step(*self.tensors.pair())
            is_finite = stepped.finite
            if stepped.sent or stepped.landed:
                is_finite = not self._share(diverged=not stepped.finite)
        if not is_finite:
            log.warning(
                "this rank computed infinity or NaN: its parameters are back where they were, and %d "
                "entries of its optimizers' state were set to 0",
                self.optimizers.zero_non_finite(),
            )
        if stepped.sent or stepped.landed:
            self.optimizers.forget_positions()
        if stepped.landed and self.tensors.slices is None:
            self._momentum.clear(engine, self._owners, self.tensors.parameters.tensors)
        if not self.is_active:
            with self._failure.remember():
                self._return_to_gradients()
        self._edits.note_trained()
        if stepped.landed:
            self._warn_of_frozen()
        if self.join is not None:
            self.join.completed_step()

    # --- what Averager offers ---

    @contextmanager
    def on_base(self) -> Iterator[None]:
        if self._exchanges and not self._views.is_open and not self._local_state.was_loaded:
            self.check_as_trained()
        with self._views.show():
            yield

    @contextmanager
    def settled(self) -> Iterator[None]:
        self._failure.check()
        if self._exchanges:
            self._views.check_closed("settled()")
            self._views.base_changed()
            with self._failure.remember(settling=True):
                try:
                    self._engine.meet(*self._progress())
                    self._share()
                    self._after_settling()
                finally:
                    self._edits.note_trained()
            self._check_all_loaded()
            self.make_loaded_the_base()
        with self.on_base():
            yield

    def settle(self) -> None:
        """Collective: everything in flight lands, this rank's unsent progress is sent or kept in
        the residual, and the parameters are the base. Parameters that user code has loaded stay."""
        if self._exchanges:
            self._views.check_closed("settling")
            self.settle_on(self._progress())

    def settle_on(self, pair: Pair, *, unbounded: bool = False) -> None:
        """unbounded: this rank has no more data and serves the others for as long as they train."""
        self._views.base_changed()
        with self._failure.remember(settling=True):
            try:
                self._engine.settle(*pair, unbounded=unbounded)
                self._share()
                self._after_settling()
            finally:
                self._edits.note_trained()

    def note_trained(self) -> None:
        """The parameters are as training left them: later changes are the user's."""
        self._edits.note_trained()

    def rebase(self) -> None:
        """Collective: rank 0's parameters become the base."""
        self._views.check_closed("rebase()")
        if self.trains_locally:
            self._local_state.compare_layouts(self._across)
        self._local_state.forget()
        if self._alone:
            return
        if self.is_active and self._has_base:
            # Ranks may be one exchange apart. They settle on copies of the base, because the
            # parameters hold no progress.
            with self._failure.remember():
                self._engine.settle(*self._no_progress())
                if not self.is_active:
                    self._return_to_gradients()
        self._has_base = False
        self._views.base_changed()
        self.optimizers.forget_positions()
        if self.is_active:
            self._take_base("rebasing")
        else:
            self._across.agree(self.tensors.all(), "rebasing")

    def make_loaded_the_base(self) -> None:
        """Before a training forward and before a step. Collective if user code has loaded other
        parameters than the base: rank 0's become the base. A rank that has not loaded any does not
        take part."""
        if not self._exchanges or not self._local_state.was_loaded:
            return
        is_base = self._local_state.loaded_the_base(self._agreed())
        if self.tensors.shards is not None:  # another shard may have been loaded with other values
            is_base = all(self._side_channel.gather(is_base, "whether the base was loaded"))
        if is_base:
            self._local_state.put_back_own()
            return
        log.info("parameters were loaded after pliant.attach(): rank 0's are the base from now on")
        self.rebase()

    # --- state ---

    def own_state(self, *, parameters: bool, optimizers: bool) -> dict[str, Any]:
        """This rank's own part of a saved state."""
        if self._alone:
            self._engine.rebase(*self.tensors.pair())
        self.check_as_trained()
        with self._views.show_own():
            return self._local_state.state_dict(parameters=parameters, optimizers=optimizers)

    def check_loadable(self, saved: Mapping[str, Any]) -> None:
        """Collective: states that were saved on different sides of an exchange do not fit
        together."""
        if not self._alone:
            checkpoint.compare(saved, self._side_channel)

    def check_not_on_base(self, what: str) -> None:
        self._views.check_closed(what)

    def was_restored(self, saved: Mapping[str, Any]) -> None:
        """After the engine's state was loaded: loads this rank's own part."""
        self._has_base = self.is_active and checkpoint.is_updates(saved)
        self._views.base_changed()
        self._local_state.note_layout()
        self.tensors.frozen.note()
        self._local_state.load_state_dict(saved)
        if self.tensors.slices is not None and self._has_base:
            self.tensors.slices.note_base()
            self._share()
        self._edits.note_trained()
        if self._exchanges:
            self._show_base()
        if not self.is_active:
            self._hide_base()
            self._let_ddp_average()

    # --- inside ---

    @property
    def _engine(self) -> _native.Engine:
        engine = self._connection.engine if self._connection is not None else None
        if engine is None:
            raise ContractError("this averager is closed")
        return engine

    @property
    def _side_channel(self) -> SideChannel:
        assert self._connection is not None
        return self._connection.side_channel

    @property
    def _across(self) -> SideChannel:
        assert self._connection is not None
        return self._connection.across

    @property
    def _alone(self) -> bool:
        return self._connection is not None and self._connection.alone

    def _clips(self) -> bool:
        """Whether this rank's gradient is clipped by its own step, since no exchange does it."""
        return self.trains_locally or self._alone

    def _has_own_parameters(self) -> bool:
        return self._exchanges

    @property
    def _model(self) -> nn.Module:
        model = self._model_reference()
        assert model is not None, "only the model's own hooks and calls ask"
        return model

    def _keep_ddp_from_averaging(self) -> None:
        if self._no_sync is not None:
            self._no_sync.enter()

    def _let_ddp_average(self) -> None:
        if self._no_sync is not None:
            self._no_sync.leave()

    def _share(self, *, diverged: bool = False) -> bool:
        """Collective over an island under DDP: its ranks give each other their slices. Returns
        whether one of them has diverged; elsewhere the argument."""
        if self.tensors.slices is None:
            return diverged
        return self.tensors.slices.share(self._engine.base(), flag=diverged)

    @property
    def _exchanges(self) -> bool:
        return self.trains_locally and self._has_base

    def _take_base(self, when: str) -> None:
        if not self._alone:
            tensors = [*self.tensors.all(), *self.tensors.buffers.counts()]
            if not self._across.agree(tensors, f"{when}: agreeing on the base"):
                log.info(
                    "%s: ranks had different parameters or buffers; rank 0's are the base", when
                )
        self._engine.rebase(*self.tensors.pair())
        if self.tensors.slices is not None:
            self.tensors.slices.note_base()
        self._local_state.became_base()
        self._has_base = True
        self.tensors.frozen.note()
        self._edits.note_trained()
        self._views.base_changed()
        self._warn_of_what_is_not_exchanged()
        if not self._alone:
            self._warn_that_ranks_differ()
            self._show_base()
            self._keep_ddp_from_averaging()

    def _show_base(self) -> None:
        if self._base_hooks is None:
            model = self._model
            module = model.module if isinstance(model, DistributedDataParallel) else model
            inner = getattr(module, "_orig_mod", None)  # under torch.compile
            modules = [model, module] if inner is None else [model, inner, module]
            self._base_hooks = BaseHooks(self._views, list(dict.fromkeys(modules)))

    def _hide_base(self) -> None:
        if self._base_hooks is not None:
            self._base_hooks.stop()
            self._base_hooks = None

    def _shows_base(self) -> bool:
        """Whether evaluation and saving use the base: not of parameters that user code has put
        into the model."""
        if not self._exchanges or self._local_state.was_loaded or self._edits.swapped:
            return False
        self._local_state.check_unchanged()
        return True

    def _agreed(self) -> list[torch.Tensor]:
        """Copies of what all ranks agree on, in the shapes of all tensors."""
        agreed = zip(self.tensors.buffers.tensors(), self._engine.agreed_buffers(), strict=True)
        return [
            *self.base(),
            *(unflatten(tensor, flat).to(tensor.device) for tensor, flat in agreed),
        ]

    def _check_all_loaded(self) -> None:
        """Collective: raises if some ranks loaded other parameters than the base and some did
        not."""
        loaded = self._side_channel.gather(
            self._local_state.was_loaded, "settled(): whether parameters were loaded"
        )
        if any(loaded) and not all(loaded):
            without = [str(rank) for rank, did in enumerate(loaded) if not did]
            raise ContractError(
                "settled(): the model's parameters were loaded (load_state_dict) on some ranks and "
                f"not on rank {', '.join(without)}. Load them on every rank, or call "
                "averager.rebase() on every rank."
            )

    def _progress(self) -> Pair:
        """The tensors to settle on: the model's, or those of a rank without progress if user code
        has loaded others into the model."""
        if self._local_state.was_loaded:
            if not self._local_state.restored_own(self._agreed()):
                return self._no_progress()
        elif self._edits.swapped:
            return self._no_progress()
        self.check_as_trained()
        return self.tensors.pair()

    def _no_progress(self) -> Pair:
        base, slices = self.base(), self.tensors.slices
        return (
            base if slices is None else slices.of(base),
            copies_of(self.tensors.buffers.tensors()),
        )

    def _after_settling(self) -> None:
        """Collective."""
        self.optimizers.forget_positions()
        if self.is_active:
            self._equalizer.settled(self._across)
        else:
            self._return_to_gradients()

    def _return_to_gradients(self) -> None:
        """Collective: the engine has left updates."""
        self._has_base = False
        self._views.base_changed()
        self._hide_base()
        self._equalizer.everything(self._across)
        self._let_ddp_average()

    def _warn_that_ranks_differ(self) -> None:
        if not self._pinned and self._side_channel.rank == 0:
            self._log_once.warning(
                "updates",
                "pliant: ranks now train on parameters of their own and average their progress "
                "(kind updates). state_dict() and evaluation use the parameters on which all ranks "
                "agree. Call close() before the last checkpoint. plan='gradients' keeps all ranks "
                "identical. docs/updates.md",
            )

    def _warn_of_what_is_not_exchanged(self) -> None:
        if left := self.tensors.buffers.left:
            self._log_once.warning(
                "left",
                "buffers that are not dense float32 tensors stay as they are on each rank: "
                + ", ".join(left),
            )

    def _warn_of_frozen(self) -> None:
        if "frozen" in self._log_once or self._side_channel.rank != 0:
            return
        if changed := self.tensors.frozen.changed():
            more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
            self._log_once.warning(
                "frozen",
                "parameters without gradients change (a momentum encoder?): while ranks train "
                "locally each has its own, and ranks average them when they settle. "
                "plan='gradients' keeps them identical: " + ", ".join(changed[:_NAMED]) + more,
            )


class _Connection:
    """The engine and hooks of a driver that was started. Without an engine once it was stopped."""

    def __init__(
        self,
        engine: _native.Engine,
        side_channel: SideChannel,
        across: SideChannel,
        alone: bool,
        stops: list[Callable[[], None]],
    ) -> None:
        self.engine: _native.Engine | None = engine
        self.side_channel = side_channel
        self.across = across
        self.alone = alone
        self._stops = stops

    def stop(self) -> None:
        for stop in self._stops:
            stop()
        self._stops.clear()
        self.engine = None


class _Failure:
    """Remembers the first failure of an exchange. Every later call raises it again, because ranks
    that have lost each other must not go on training. AbsentError is no such failure."""

    def __init__(self) -> None:
        self._error: Exception | None = None

    @property
    def happened(self) -> bool:
        return self._error is not None

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    @contextmanager
    def remember(self, *, settling: bool = False) -> Iterator[None]:
        self.check()
        try:
            yield
        except AbsentError:
            raise
        except Exception as error:
            if isinstance(error, CommError) and (settling or "deadline" in str(error)):
                error.args = (f"{error}\n  {_WHILE_SETTLING if settling else _AFTER_A_DEADLINE}",)
            self._error = error
            raise


def weak(method: Callable[[], Result]) -> Callable[[], Result | None]:
    """The method, without keeping its object alive. Returns None once that is gone."""
    reference = weakref.WeakMethod(method)
    return lambda: None if (alive := reference()) is None else alive()
