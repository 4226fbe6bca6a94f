# SPDX-License-Identifier: MIT
"""Averages what one model learns, gradients or updates, over the ranks of one process group."""

from __future__ import annotations

import logging
import platform
import sys
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.join import Joinable, JoinHook
from torch.futures import Future

from pliant import _native, checkpoint, device, groups, hook, joining, model as models
from pliant.desk import Desk
from pliant.errors import ContractError, UnsupportedError
from pliant.summary import Summary
from pliant.telling import Telling
from pliant.updates import Updates

log = logging.getLogger("pliant")

_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING)


@dataclass(frozen=True)
class Options:
    plan: str
    deadline: float | None = None  # seconds; None: the timeout of the user's group
    lanes: int = 2
    clip_norm: float = 0.0
    warm_up: int | None = None
    ramp: bool = False
    check_every: int = 100
    adam: bool = False  # the optimizer divides by a second moment
    clear_momentum: bool | None = None
    policy: str = "auto"
    dials: Mapping[str, float] = field(default_factory=dict)
    selector: str = "native"
    log: str | None = None  # path of the run log
    name: str | None = None  # of the run, in log and metrics
    metrics: str | None = None  # where Prometheus finds it


class Averager(Joinable):
    """Made by `attach` and `comm_hook`. Used by the thread that trains."""

    def __init__(
        self,
        options: Options,
        group: dist.ProcessGroup | None,
        model: models.Model | None,
        scaler: Any = None,
        updates: Updates
        | str = "plans of kind updates need the optimizer: pliant.attach(ddp, optimizer, plan)",
    ) -> None:
        """updates: or why there can be none."""
        super().__init__()
        self._options = options
        self._group = group
        self._model = model
        self._scaler = scaler
        self._updates = updates if isinstance(updates, Updates) else None
        self._no_updates = updates if isinstance(updates, str) else ""
        self._local = False  # the backward under way is this rank's own affair
        self._engine: _native.Engine | None = None
        self._desk: Desk | None = None
        self._untested = True  # nobody has looked whether all ranks start from the same step
        self._pending: Mapping[str, Any] | None = None  # loaded before there was an engine
        self._collected: list[torch.Tensor] = []  # parameters seen in buckets, until all are known
        self._scale: float | None = None
        self._closed: Summary | None = None
        self._on_close: list[Callable[[], None]] = []
        self._alone = False
        self._device: device.OnDevice | None = None
        self._in_step = False  # between a step's first bucket and its last
        self._restored = False
        self._optimizer_restored = False
        self._said: set[str] = set()
        self._telling = Telling(options.log, options.name, options.metrics)
        self._end: weakref.finalize[..., Averager] | None = None

    # --- for people ---

    @property
    def plan(self) -> str:
        """The plan in force, complete, as docs/plans.md writes it."""
        return self._engine.plan if self._engine is not None else self.summary().plan

    def set_plan(self, plan: str) -> None:
        """From the next step on, or the next exchange. Collective: every rank says the same, at the
        same step, which is checked."""
        self._check_kind(plan)
        if self._device is not None:
            device.check(plan)
        if self._engine is not None:
            self._check_alike(_native.read_plan(plan), "set_plan")
            self._engine.set_plan(plan)
        elif self._closed is not None:
            raise ContractError("set_plan: this averager is closed")
        else:
            self._options = Options(**{**vars(self._options), "plan": plan})

    def tell_network(self, link: str | None) -> None:
        """Decisions take the network to be this one ("100mbit,10ms") instead of measuring it; None:
        measure again. Collective: every rank says the same, at the same step, which is checked."""
        if self._engine is None:
            raise ContractError(
                "tell_network: there is no engine "
                + ("any more" if self._closed is not None else "before the first step")
            )
        self._check_alike(link, "tell_network")
        self._engine.tell_network(link)

    def summary(self) -> Summary:
        if self._closed is not None:
            return self._closed
        if self._engine is None:
            return Summary(plan=_native.read_plan(self._options.plan))
        return Summary.of(
            self._engine.summary(),
            self._known_model().entries,
            0 if self._device is None else self._device.bytes,
        )

    def note(self, **values: float) -> None:
        """Numbers for the run log and the metrics, as of the last step: `averager.note(loss=0.31,
        accuracy=0.88)`."""
        self._telling.note(values)

    def phase(self, name: str) -> None:
        """The job enters a named phase of the lab's timeline: rank 0 tells the lab, and the run log
        has it. Outside the lab it is only logged."""
        self._telling.phase(name)

    def base(self) -> dict[str, torch.Tensor]:
        """The parameters on which all ranks agree, by name, as copies. Under gradients these are
        the parameters."""
        model = self._known_model()
        tensors = (
            [parameter.detach().clone() for parameter in model.parameters]
            if self._updates is None
            else self._updates.base()
        )
        return dict(zip(model.names, tensors, strict=True))

    def on_base(self) -> AbstractContextManager[None]:
        """Inside, the model holds the base, on this rank alone and without communication: to
        evaluate or save. Nobody may train there."""
        return nullcontext() if self._updates is None else self._updates.on_base()

    def settled(self) -> AbstractContextManager[None]:
        """Collective. Inside, everything in flight has landed and all ranks hold the base; on
        leaving, each goes on with its progress."""
        return nullcontext() if self._updates is None else self._updates.settled()

    def rebase(self) -> None:
        """Collective, after parameters were loaded or edited: rank 0's are the base from now on;
        what was in flight or unsent is dropped."""
        self._restored = True  # whatever was loaded, this is where training begins
        if self._updates is not None:
            self._updates.rebase()

    def state_dict(self, *, parameters: bool = True, optimizers: bool = True) -> dict[str, Any]:
        """What this rank needs to go on as if it had never stopped: tensors and plain values,
        between steps. One per rank.

        Under updates it has this rank's parameters and optimizers' state too, unless told
        otherwise: they differ between ranks."""
        if self._engine is None:
            if self._pending is not None:
                return dict(self._pending)
            raise ContractError(
                "state_dict: "
                + (
                    "this averager is closed"
                    if self._closed
                    else "there is none before the first step of a bare hook"
                )
            )
        rank, size = self._place()
        own: dict[str, Any] = {}
        if self._updates is not None and self._updates.in_force:
            self._updates.before_state()
            own = self._updates.own_state(parameters=parameters, optimizers=optimizers)
        saved = checkpoint.write(
            self._engine.state(),
            self._known_model(),
            self._buffers(),
            rank=rank,
            world_size=size,
            scale=self._scale,
        )
        if self._device is not None:
            saved |= {
                "device_residual": self._device.state_dict(),
                "device_norm": self._device.last_norm,
            }
        return saved | own

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Of this rank, at the same world size (else `pliant.reshard` first). None or nothing: said
        once, training goes on.

        With optimizers attached it is collective: ranks compare from which exchange their states
        are."""
        if not state:
            self._say_once(
                "no state",
                logging.WARNING,
                "no averager state to load: what was not sent yet is lost, training goes on"
                + self._first_rebase(),
            )
            if self._updates is not None and self._engine is not None:
                self._updates.compare_restored({})
            return
        if self._closed is not None:
            raise ContractError("load_state_dict: this averager is closed")
        self._restored = True
        if self._engine is None:
            self._pending = dict(state)
            return
        rank, size = self._place()
        if checkpoint.is_updates(state) and self._updates is None:
            raise ContractError(f"load_state_dict: a state of kind updates, and {self._no_updates}")
        if self._updates is not None:
            self._updates.check_not_swapped("load_state_dict()")
        read = checkpoint.read(
            state, self._known_model(), self._buffers(), rank=rank, world_size=size
        )
        if self._updates is not None:
            self._updates.compare_restored(state)
        self._engine.restore(read)
        self._untested = True
        self._scale = state.get("scale")
        if self._device is None and state.get("device_residual"):
            raise ContractError(
                "load_state_dict: a state of selector='torch', and this averager selects natively"
            )
        if self._device is not None:
            self._device.load_state_dict(
                state.get("device_residual", {}), state.get("device_norm", 0.0)
            )
        if self._updates is not None:
            self._updates.was_restored(state)

    def close(self) -> None:
        """Waits for what is under way and ends our groups. From then on DDP averages as if pliant
        had never been there.

        Under updates it is collective and settles first, unless an exception is on its way."""
        if self._closed is not None:
            return
        if self._updates is not None and not self._updates.failed and sys.exc_info()[0] is None:
            self._updates.settle()
        engine = self._engine
        if engine is not None:
            engine.close()
        self._closed = self.summary()
        self._engine = self._desk = None
        for action in self._on_close:
            action()
        self._on_close.clear()
        if self._end is not None:
            self._end.detach()
        self._telling.stop(engine)

    # --- for the hooks ---

    def start(self) -> None:
        """Collective: groups of our own, and the check that all ranks mean the same."""
        model, options = self._known_model(), self._options
        rank, size = self._place()
        if size == 1:
            self._alone = True
            log.info("world size 1: nothing to average, everything stays as it is")
        on_device = options.selector == "torch" or any(
            parameter.device.type != "cpu" for parameter in model.parameters
        )
        if on_device:
            device.check(options.plan)
            self._device = device.OnDevice(model, options.clip_norm)
            self._updates, self._no_updates = (
                None,
                "plans of kind updates work on parameters in host memory, with selector='native'",
            )
        group = self._user_group()
        deadline = (
            options.deadline if options.deadline is not None else groups.default_deadline(group)
        )
        self._check_kind(options.plan)
        made = groups.make(group, options.lanes, deadline, updates=self._updates is not None)
        objection = self._telling.prepare(rank)
        self._engine = _native.Engine(
            lanes=made.lanes,
            control=made.control,
            store=made.store,
            names=model.names,
            parameters=model.parameters,
            plan=options.plan,
            deadline=deadline,
            check_every=options.check_every,
            warm_up=options.warm_up,
            ramp=options.ramp,
            clip_norm=0.0 if on_device else options.clip_norm,
            adam=options.adam,
            policy=options.policy,
            dials=dict(options.dials),
            shared=not on_device,
            facts=[
                ("torch", str(torch.__version__)),
                ("Python", platform.python_version()),
                ("scaler", "no" if self._scaler is None else "yes"),
                ("clear_momentum", str(options.clear_momentum)),
                ("selector", "torch" if on_device else "native"),
            ],
            log=_log,
            updates=self._updates is not None,
            buffer_names=[name for name, _ in self._buffers()],
            buffers=[buffer for _, buffer in self._buffers()],
            **self._telling.arguments,
            versions=[("torch", str(torch.__version__)), ("python", platform.python_version())],
            run_options=[
                ("lanes", str(options.lanes)),
                ("selector", "torch" if on_device else "native"),
            ],
            objection=objection,
        )
        self._telling.start(self._engine)
        self._end = weakref.finalize(self, _end, self._engine, self._telling)
        self._desk = Desk(made.desk, made.store, deadline)
        if self._updates is not None:
            self.on_close(self._updates.stop)
            self._updates.start(self._engine, self._desk, alone=self._alone)
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self.load_state_dict(pending)

    def on_bucket(self, bucket: GradBucket) -> Future[torch.Tensor]:
        if self._closed is not None:
            return hook.all_reduce(self._user_group(), bucket)
        if bucket.buffer().is_sparse:
            if self._model is None:
                self._collected_all(bucket)
            self._in_step = self._in_step and not bucket.is_last()
            return hook.all_reduce(self._user_group(), bucket)
        if self._engine is None:
            if self._model is None:
                return self._collect(bucket)
            self.start()
        if self._alone:
            return hook.unchanged(bucket)
        assert self._engine is not None
        begins, self._in_step = not self._in_step, not bucket.is_last()
        if begins:
            self._local = self._updates is not None and self._updates.training_alone
            if not self._local:
                self._begin_step()
        if self._local:
            assert self._updates is not None
            self._updates.saw_bucket()
            return hook.unchanged(bucket)
        if self._device is not None:
            self._engine.begin_step()  # from here on the plan is this step's
            return self._device.submit(bucket, self._engine.plan, self._engine.submit)
        return self._engine.submit(bucket.buffer(), bucket.parameters())

    def begin_backward(self) -> None:
        if self._updates is not None and self._updates.training_alone:
            self._say_if_not_restored()
        if (
            self._engine is not None
            and not self._alone
            and self._device is None
            and not self._engine.is_updates
        ):
            self._engine.begin_backward()

    def look_for_rescaling(self) -> None:
        """Sparse averages are sums of many steps: whoever rescales them by this step's norm does
        not do what they mean to."""
        if (
            self._engine is None
            or self._alone
            or self._device is not None
            or self._engine.is_updates
            or "rescaled" in self._said
            or " dense" in self._engine.plan
        ):
            return
        factor = self._engine.rescaled()
        if factor is None or (self._scale and abs(factor * self._scale - 1) < 1e-2):
            return
        self._say_once(
            "rescaled",
            logging.WARNING,
            f"something multiplied the averaged gradients by {factor:.3g} (clip_grad_norm_?). Under a sparse plan they hold what several steps "
            "have saved up, so their norm is not that of a gradient. Clip before the exchange instead: pliant.attach(..., clip_norm=...); "
            "if it was a GradScaler, pass it: pliant.attach(..., scaler=scaler)",
        )

    def optimizer_was_restored(self) -> None:
        self._optimizer_restored = True

    def on_close(self, action: Callable[[], None]) -> None:
        self._on_close.append(action)

    # --- for Join ---

    def join_hook(self, **kwargs: Any) -> JoinHook:
        return joining.Idle() if self._updates is None else self._updates.joining.begin(self)

    @property
    def join_device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def join_process_group(self) -> dist.ProcessGroup:
        return self._user_group()

    # --- inside ---

    def _check_kind(self, plan: str) -> None:
        if self._updates is None and pins_updates(plan):
            raise UnsupportedError(f"plan '{plan}': {self._no_updates}")

    def _buffers(self) -> list[tuple[str, torch.Tensor]]:
        """Those that travel."""
        if self._updates is None:
            return []
        return list(zip(self._updates.buffers.names, self._updates.buffers.tensors(), strict=True))

    def _check_alike(self, value: object, what: str) -> None:
        assert self._desk is not None
        self._desk.check_alike(value, what)

    def _begin_step(self) -> None:
        assert self._engine is not None
        if self._untested:
            self._untested = False
            summary = self._engine.summary()
            self._check_alike(
                f"step {summary.steps} of plan version {summary.epoch}, {'restored' if self._restored else 'no state loaded'}",
                "where to go on from (load the averager's state on all ranks or on none)",
            )
        self._say_if_not_restored()
        if self._scaler is not None:
            scale = float(self._scaler.get_scale())
            if self._scale is not None and scale != self._scale:
                self._engine.rescale(scale / self._scale)
                if self._device is not None:
                    self._device.rescale(scale / self._scale)
            self._scale = scale
            if self._device is not None:
                self._device.clip_norm = self._options.clip_norm * scale
            elif self._options.clip_norm > 0:
                self._engine.set_clip_norm(self._options.clip_norm * scale)

    def _say_if_not_restored(self) -> None:
        if self._optimizer_restored and not self._restored:
            self._say_once(
                "not restored",
                logging.WARNING,
                "the optimizer was restored and the averager was not: what was not sent yet is lost, training goes on"
                + self._first_rebase(),
            )

    def _first_rebase(self) -> str:
        return (
            ". If parameters were loaded after pliant.attach(), call averager.rebase() first"
            if self._updates is not None and self._updates.training_alone
            else ""
        )

    def _collect(self, bucket: GradBucket) -> Future[torch.Tensor]:
        """A bare hook knows its model only after it has seen every bucket: the first step is a
        plain all-reduce."""
        self._collected.extend(bucket.parameters())
        self._collected_all(bucket)
        return hook.all_reduce(self._user_group(), bucket)

    def _collected_all(self, bucket: GradBucket) -> None:
        if bucket.is_last() and self._collected:
            self._model = models.anonymous(list(reversed(self._collected)))
            self._collected.clear()

    def _user_group(self) -> dist.ProcessGroup:
        group = self._group if self._group is not None else dist.group.WORLD
        if group is None:
            raise ContractError(
                "pliant: there is no process group yet; call torch.distributed.init_process_group() first"
            )
        return group

    def _place(self) -> tuple[int, int]:
        group = self._user_group()
        return dist.get_rank(group), dist.get_world_size(group)

    def _known_model(self) -> models.Model:
        if self._model is None:
            raise ContractError("pliant: a bare hook knows its model after the first step")
        return self._model

    def _say_once(self, what: str, level: int, text: str) -> None:
        if what not in self._said:
            self._said.add(what)
            log.log(level, text)


def pins_updates(plan: str) -> bool:
    words = _native.read_plan(plan).split()
    return bool(words) and (
        words[0] == "updates" or any(word.startswith(("every=", "late=")) for word in words)
    )


def _log(severity: int, text: str) -> None:
    log.log(_LEVELS[severity], text, extra={"from_engine": True})


def _end(engine: _native.Engine, telling: Telling) -> None:
    """Of a script that simply ends."""
    engine.close()
    telling.stop(engine)
