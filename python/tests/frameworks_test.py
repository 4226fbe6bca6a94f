# SPDX-License-Identifier: MIT
"""Lightning and Accelerate, for real and unpatched: pliant must have exchanged."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from support import models, world


PLANS = [
    pytest.param("gradients union density=10%", marks=pytest.mark.slow),
    "updates every=2 late=1 union density=10%",
]


def data() -> DataLoader[Any]:
    batches = [models.batch(0, number) for number in range(8)]
    return DataLoader(
        TensorDataset(
            torch.cat([inputs for inputs, _ in batches]),
            torch.cat([targets for _, targets in batches]),
        ),
        batch_size=4,
    )


def lightning(rank: int, size: int, folder: str, plan: str) -> None:
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.plugins.environments import TorchElasticEnvironment

    import os

    from pliant.lightning import Averaging

    class Fit(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = models.mlp()

        def training_step(self, batch: Any, number: int) -> torch.Tensor:
            inputs, targets = batch
            return nn.functional.mse_loss(self.model(inputs), targets)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return models.sgd(self)

    os.environ.update(GROUP_RANK="0", LOCAL_WORLD_SIZE=str(size), TORCHELASTIC_RUN_ID="test")
    averaging = Averaging(plan)
    module = Fit()
    trainer = Trainer(
        accelerator="cpu", devices=size, strategy="ddp", max_epochs=2, callbacks=[averaging], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder, plugins=[TorchElasticEnvironment()],
    )  # fmt: skip
    trainer.fit(module, data())
    assert averaging.last is not None
    assert averaging.last.steps > 0 and averaging.last.bytes_sent > 0
    assert averaging.last.plan.startswith(plan)
    assert models.alike_on_all_ranks(models.flat(module))


def accelerate(rank: int, size: int, plan: str) -> None:
    from accelerate import Accelerator

    import pliant

    accelerator = Accelerator(cpu=True)
    model = models.mlp()
    model, optimizer, loader = accelerator.prepare(model, models.sgd(model), data())
    averager = pliant.attach(model, optimizer, plan)
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            accelerator.backward(nn.functional.mse_loss(model(inputs), targets))
            optimizer.step()
            optimizer.zero_grad()
    assert averager.summary().steps > 0 and averager.summary().bytes_sent > 0
    averager.close()
    assert models.alike_on_all_ranks(models.flat(model))


@pytest.mark.parametrize("plan", PLANS)
def test_lightning(tmp_path: Any, plan: str) -> None:
    pytest.importorskip("lightning")
    world.run(lightning, str(tmp_path), plan, ranks=2, group=False)


@pytest.mark.parametrize("plan", PLANS)
def test_accelerate(plan: str) -> None:
    pytest.importorskip("accelerate")
    world.run(accelerate, plan, ranks=2)
