# SPDX-License-Identifier: MIT
"""Callback for Lightning: `from pliant.lightning import Averaging`, `Trainer(strategy="ddp",
callbacks=[Averaging(plan=...)])`.

Lightning registers communication hooks on GPUs only, and ignores them silently elsewhere. The
callback attaches once the DDP model exists, whatever the device.

Lightning's checkpoints hold rank 0's objects only, and the state of an averager differs between
ranks. So each rank keeps its own beside the checkpoint, in `<checkpoint>.pliant-rank<rank>`: it is
written, removed and loaded with the checkpoint."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from torch.nn.parallel import DistributedDataParallel

from pliant.api import attach
from pliant.averager import Averager
from pliant.checkpoint import reshard
from pliant.errors import UnsupportedError
from pliant.options import Options
from pliant.summary import Summary

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.strategies import Strategy
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        from pytorch_lightning import Callback

log = logging.getLogger("pliant")

_KEY = "pliant"  # in a checkpoint: that, and how many, states are beside it


class Averaging(Callback):
    """Takes the arguments of `pliant.attach` that follow the optimizer."""

    def __init__(self, plan: str = "auto", **options: Any) -> None:
        Options(plan=plan, **options)  # refuses what is wrong now, not when training begins
        self.plan = plan
        self.options = options
        self.averager: Averager | None = None
        """From the begin of fit on. After fit it is closed, and has the summary of the run."""
        self._files: _StateFiles | None = None  # within fit
        self._loaded: dict[str, Any] | None = None  # for the fit that begins

    @property
    def last(self) -> Summary | None:
        """Name of an older version, for one release: the summary, after fit."""
        return None if self.averager is None else self.averager.summary()

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        model = trainer.strategy.model
        if not isinstance(model, DistributedDataParallel) and trainer.world_size > 1:
            raise UnsupportedError(
                f'pliant.lightning.Averaging works with Trainer(strategy="ddp"); the strategy here is {type(trainer.strategy).__name__}, its model {type(model).__name__}'
            )
        assert model is not None
        optimizers = trainer.strategy.optimizers
        self.averager = attach(model, list(optimizers) or None, self.plan, **self.options)
        self._files = _StateFiles(trainer.strategy, trainer.global_rank)
        if self._loaded is not None:
            loaded, self._loaded = self._loaded, None
            self.averager.load_state_dict(loaded)

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """On every rank, before Lightning writes the checkpoint on rank 0."""
        if self.averager is not None and self._files is not None:
            self._files.write_with_the_next_checkpoint(self.averager.state_dict())
            checkpoint[_KEY] = {"ranks": trainer.world_size}

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """On every rank, before fit has made the averager."""
        if trainer.state.fn == "fit" and _KEY in checkpoint and trainer.ckpt_path is not None:
            ranks = int(checkpoint[_KEY]["ranks"])
            self._loaded = _load(trainer, os.fspath(trainer.ckpt_path), ranks)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._close()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._files is not None:
            self._files.stop()
            self._files = None
        if self.averager is not None:
            self.averager.close()


class _StateFiles:
    """Writes this rank's state beside each checkpoint, and removes it with the checkpoint. Only the
    strategy is told where a checkpoint is, on every rank."""

    def __init__(self, strategy: Strategy, rank: int) -> None:
        self._strategy: Any = strategy
        self._rank = rank
        self._state: dict[str, Any] | None = None
        self._save, self._remove = strategy.save_checkpoint, strategy.remove_checkpoint
        self._strategy.save_checkpoint = self._save_too  # type: ignore[method-assign]
        self._strategy.remove_checkpoint = self._remove_too  # type: ignore[method-assign]

    def stop(self) -> None:
        del self._strategy.save_checkpoint, self._strategy.remove_checkpoint

    def write_with_the_next_checkpoint(self, state: dict[str, Any]) -> None:
        self._state = state

    def _save_too(self, checkpoint: dict[str, Any], filepath: Any, *args: Any, **kw: Any) -> None:
        state, self._state = self._state, None
        if state:
            self._strategy.checkpoint_io.save_checkpoint(state, _beside(filepath, self._rank))
        self._save(checkpoint, filepath, *args, **kw)

    def _remove_too(self, filepath: Any) -> None:
        self._remove(filepath)
        self._strategy.checkpoint_io.remove_checkpoint(_beside(filepath, self._rank))


def _beside(checkpoint: Any, rank: int) -> str:
    return f"{os.fspath(checkpoint)}.pliant-rank{rank}"


def _load(trainer: Trainer, checkpoint: str, ranks: int) -> dict[str, Any]:
    """The state of this rank; an empty one if there is none."""
    if os.path.islink(checkpoint):  # ModelCheckpoint(save_last="link")
        checkpoint = os.path.realpath(checkpoint)
    world, rank = trainer.world_size, trainer.global_rank
    wanted = [rank] if ranks == world else range(ranks)
    try:
        states = [
            trainer.strategy.checkpoint_io.load_checkpoint(_beside(checkpoint, each))
            for each in wanted
        ]
    except FileNotFoundError as error:
        log.warning("the state of an averager that belongs to the checkpoint is gone: %s", error)
        return {}
    return states[0] if ranks == world else reshard(states, world)[rank]
