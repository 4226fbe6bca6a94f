# SPDX-License-Identifier: MIT
"""Lightning and Accelerate, for real and unpatched: pliant must have exchanged."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from support import models, world
from support.messages import Messages

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


def trainer_of(size: int, folder: str, *callbacks: Any, **options: Any) -> Any:
    from lightning.pytorch import Trainer
    from lightning.pytorch.plugins.environments import TorchElasticEnvironment

    os.environ.update(GROUP_RANK="0", LOCAL_WORLD_SIZE=str(size), TORCHELASTIC_RUN_ID="test")
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return Trainer(
        accelerator="cpu",
        devices=size,
        strategy="ddp" if size > 1 else "auto",
        callbacks=list(callbacks),
        default_root_dir=folder,
        plugins=[TorchElasticEnvironment()] if size > 1 else [],
        enable_checkpointing=any("Checkpoint" in type(one).__name__ for one in callbacks),
        **quiet,  # type: ignore[arg-type]
        **options,
    )


def module_to_fit() -> Any:
    from lightning.pytorch import LightningModule

    class Fit(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = models.mlp()

        def training_step(self, batch: Any, number: int) -> torch.Tensor:
            inputs, targets = batch
            return nn.functional.mse_loss(self.model(inputs), targets)

        def on_train_batch_end(self, *_: Any) -> None:
            if self.trainer.world_size > 1:  # what a checkpoint would hold
                saved = self.trainer.strategy.lightning_module_state_dict()
                assert models.alike_on_all_ranks(torch.cat([v.flatten() for v in saved.values()]))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return models.sgd(self)

    return Fit()


def lightning(rank: int, size: int, folder: str, plan: str) -> None:
    from pliant.lightning import Averaging

    averaging, module = Averaging(plan), module_to_fit()
    trainer_of(size, folder, averaging, max_epochs=2).fit(module, data())
    assert averaging.averager is not None
    summary = averaging.averager.summary()
    assert summary.steps > 0 and summary.bytes_sent > 0
    assert summary.plan.startswith(plan)
    assert models.alike_on_all_ranks(models.flat(module))


def lightning_resumed(rank: int, size: int, folder: str, plan: str) -> None:
    """Stopped in the middle and resumed from a checkpoint, it ends with the same bits."""
    from lightning.pytorch.callbacks import ModelCheckpoint

    from pliant.lightning import Averaging

    ends = []
    for way in ("at once", "stopped and resumed"):
        module = module_to_fit()
        if way == "stopped and resumed":
            saving = ModelCheckpoint(
                f"{folder}/kept", every_n_epochs=1, save_top_k=1, monitor="step", mode="max"
            )
            first = trainer_of(size, folder, Averaging(plan), saving, max_epochs=2)
            first.fit(module, data())
            torch.distributed.barrier()
            states = [f"{saving.best_model_path}.pliant-rank{each}" for each in range(size)]
            kept = [f"{folder}/kept/{name}" for name in os.listdir(f"{folder}/kept")]
            assert sorted(kept) == sorted([saving.best_model_path, *states]), kept
            module = module_to_fit()
            last = trainer_of(size, folder, Averaging(plan), max_epochs=4)
            with Messages() as messages:
                last.fit(module, data(), ckpt_path=saving.best_model_path)
            assert not messages.count("lost"), messages.texts
        else:
            trainer_of(size, folder, Averaging(plan), max_epochs=4).fit(module, data())
        ends.append(models.flat(module))
    assert torch.equal(*ends)


def lightning_with(rank: int, size: int, folder: str, plan: str, epochs: int) -> None:
    """Goes on from the checkpoint of the epoch before, which other ranks may have written."""
    from lightning.pytorch.callbacks import ModelCheckpoint

    from pliant.lightning import Averaging

    module = module_to_fit()
    saving = ModelCheckpoint(folder, filename="{epoch}")
    trainer = trainer_of(size, folder, Averaging(plan), saving, max_epochs=epochs)
    with Messages() as messages:
        trainer.fit(
            module, data(), ckpt_path=f"{folder}/epoch={epochs - 2}.ckpt" if epochs > 1 else None
        )
    assert not messages.count("lost"), messages.texts
    assert models.alike_on_all_ranks(models.flat(module))


def lightning_alone(rank: int, size: int, folder: str) -> None:
    from pliant.lightning import Averaging

    averaging, module = Averaging(), module_to_fit()
    trainer_of(1, folder, averaging, max_epochs=1).fit(module, data())
    assert averaging.averager is not None
    print(averaging.averager.summary())


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
        saved = accelerator.get_state_dict(model)
        assert models.alike_on_all_ranks(torch.cat([value.flatten() for value in saved.values()]))
    assert averager.summary().steps > 0 and averager.summary().bytes_sent > 0
    averager.close()
    assert models.alike_on_all_ranks(models.flat(model))


def accelerate_alone(rank: int, size: int) -> None:
    from accelerate import Accelerator

    import pliant

    with Messages() as messages:
        ends = []
        for plan in ("auto", "updates every=4 late=1 union density=1%", None):
            accelerator = Accelerator(cpu=True)
            model = models.mlp()
            model, optimizer, loader = accelerator.prepare(model, models.sgd(model), data())
            averager = None if plan is None else pliant.attach(model, optimizer, plan)
            for inputs, targets in loader:
                accelerator.backward(nn.functional.mse_loss(model(inputs), targets))
                optimizer.step()
                optimizer.zero_grad()
            if averager is not None:
                averager.note(loss=0.5)
                averager.tell_network("100mbit,10ms")
                averager.set_plan("gradients dense")
                averager.rebase()
                with averager.on_base(), averager.settled():
                    assert len(averager.base()) == 6
                averager.load_state_dict(averager.state_dict())
                print(averager.summary(), averager.plan)
                averager.close()
            ends.append(models.flat(model))
    assert torch.equal(ends[0], ends[2]) and torch.equal(ends[1], ends[2])
    assert messages.count("nothing to average") == 2, messages.texts


@pytest.mark.parametrize("plan", PLANS)
def test_lightning(tmp_path: Any, plan: str) -> None:
    pytest.importorskip("lightning")
    world.run(lightning, str(tmp_path), plan, ranks=2, group=False)


@pytest.mark.parametrize("plan", PLANS)
def test_accelerate(plan: str) -> None:
    pytest.importorskip("accelerate")
    world.run(accelerate, plan, ranks=2)


@pytest.mark.parametrize("plan", PLANS)
def test_lightning_resumes_from_its_checkpoints(tmp_path: Any, plan: str) -> None:
    pytest.importorskip("lightning")
    world.run(lightning_resumed, str(tmp_path), plan, ranks=2, group=False)


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
def test_lightning_resumes_with_another_number_of_ranks(tmp_path: Any, plan: str) -> None:
    pytest.importorskip("lightning")
    world.run(lightning_with, str(tmp_path), plan, 1, ranks=2, group=False)
    world.run(lightning_with, str(tmp_path), plan, 2, ranks=3, group=False)


@pytest.mark.slow
def test_lightning_with_one_process(tmp_path: Any) -> None:
    pytest.importorskip("lightning")
    world.run(lightning_alone, str(tmp_path), ranks=1, group=False)


def test_accelerate_with_one_process() -> None:
    pytest.importorskip("accelerate")
    world.run(accelerate_alone, ranks=1, group=False)
