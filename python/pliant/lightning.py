# SPDX-License-Identifier: MIT
"""Callback for Lightning: `from pliant.lightning import Averaging`, `Trainer(strategy="ddp",
callbacks=[Averaging(plan=...)])`.

Lightning registers communication hooks on GPUs only, and ignores them silently elsewhere. The
callback attaches once the DDP model exists, whatever the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.nn.parallel import DistributedDataParallel

from pliant.api import attach
from pliant.averager import Averager
from pliant.errors import UnsupportedError
from pliant.options import Options
from pliant.summary import Summary

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        from pytorch_lightning import Callback


class Averaging(Callback):
    """Takes the arguments of `pliant.attach` that follow the optimizer."""

    def __init__(self, plan: str = "auto", **options: Any) -> None:
        Options(plan=plan, **options)  # refuses what is wrong now, not when training begins
        self.plan = plan
        self.options = options
        self.averager: Averager | None = None
        self.last: Summary | None = None
        """The averager's summary, after fit."""

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        model = trainer.strategy.model
        if not isinstance(model, DistributedDataParallel):
            raise UnsupportedError(
                f'pliant.lightning.Averaging works with Trainer(strategy="ddp"); the strategy here is {type(trainer.strategy).__name__}, its model {type(model).__name__}'
            )
        optimizers = trainer.strategy.optimizers
        self.averager = attach(model, list(optimizers) or None, self.plan, **self.options)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._close()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self.averager is not None:
            self.last = self.averager.summary()
            self.averager.close()
            self.averager = None
