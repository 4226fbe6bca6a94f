# SPDX-License-Identifier: MIT
"""Jobs that no constant of the model was fitted to. Their data, models, optimizer settings and
schedules are used nowhere else.

Texts come from the Python that runs them: its manual (`pydoc_data`) and the sources of its standard
library. Pictures and the table are generated here. Rates are usual ones and tuned for no method."""

from __future__ import annotations

import functools
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from pydoc_data import topics
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler, OneCycleLR

from evidence.jobs import JOBS, Job, ToSequence, once

Parameters = Iterator[nn.Parameter]
WINDOW = 48  # bytes of text that a sample has
WIDTH = 96
PRETRAINED_STEPS, PRETRAINED_BATCH = 150, 16


@dataclass(frozen=True)
class ScheduledJob(Job):
    """Job whose learning rate follows a schedule to its end."""

    make_optimizer: Callable[[Parameters, float], torch.optim.Optimizer] | None = None
    make_schedule: Callable[[torch.optim.Optimizer, float, int], LRScheduler] | None = None

    def optimize(self, parameters: Parameters, rate: float | None = None) -> torch.optim.Optimizer:
        assert self.make_optimizer is not None
        trained = (p for p in parameters if p.requires_grad)
        return self.make_optimizer(trained, self.rate if rate is None else rate)

    def schedule(self, optimizer: torch.optim.Optimizer, steps: int) -> LRScheduler:
        assert self.make_schedule is not None
        return self.make_schedule(optimizer, optimizer.param_groups[0]["lr"], steps)


class Denoising(ScheduledJob):
    """The mean squared error; no answer is right or wrong."""

    @staticmethod
    def loss(outputs: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(outputs, answers)

    @staticmethod
    def right(outputs: torch.Tensor, answers: torch.Tensor) -> int:
        return 0


def rise_and_fall(optimizer: torch.optim.Optimizer, _: float, steps: int) -> LRScheduler:
    """Up in a straight line over a twentieth of the steps, then down to zero."""
    rise = max(steps // 20, 1)
    return LambdaLR(optimizer, lambda s: min((s + 1) / rise, (steps - s) / (steps - rise)))


def one_cycle(optimizer: torch.optim.Optimizer, peak: float, steps: int) -> LRScheduler:
    return OneCycleLR(optimizer, peak, total_steps=steps + 1)


# --- texts ---


def _windows(text: bytes, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    codes = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    edge = len(codes) * 9 // 10
    part = codes[:edge] if split == "train" else codes[edge:]
    windows = part.unfold(0, WINDOW + 1, 11 if split == "train" else WINDOW).long()
    return windows[:, :-1], windows[:, 1:]


def _manual(split: str) -> tuple[torch.Tensor, torch.Tensor]:
    return _windows(
        "\n".join(topics.topics[name] for name in sorted(topics.topics)).encode(), split
    )


def _sources(split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Every third module, so that it is read in a moment."""
    modules = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[::3]
    return _windows(b"\n".join(path.read_bytes() for path in modules), split)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(256, WIDTH)
        self.layers = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)
        self.out = nn.Linear(WIDTH, 256)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.layers(self.letters(codes))[0]
        return self.out(hidden)


class Attention(nn.Module):
    """One layer of a transformer: attention to what came before, then two linear maps."""

    HEADS = 6

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix: nn.Module = nn.Linear(WIDTH, 3 * WIDTH)
        self.join: nn.Module = nn.Linear(WIDTH, WIDTH)
        self.widen: nn.Module = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow: nn.Module = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = self.mix(self.before(x)).view(batch, length, 3, self.HEADS, -1).transpose(1, 3)
        query, key, value = heads.unbind(2)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.widen(self.between(x))))


class Bytes(nn.Module):
    """A transformer over bytes whose last layer is its first one, transposed."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.letters = nn.Embedding(256, WIDTH)
        self.places = nn.Embedding(WINDOW, WIDTH)
        nn.init.normal_(self.letters.weight, std=0.05)
        nn.init.normal_(self.places.weight, std=0.05)
        self.layers = nn.Sequential(*(Attention() for _ in range(layers)), nn.LayerNorm(WIDTH))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        hidden = self.layers(self.letters(codes) + self.places.weight)
        return functional.linear(hidden, self.letters.weight)


# --- a low-rank adaptation (LoRA) of a trained transformer ---


class LowRank(nn.Module):
    """A linear map that stays as it is, plus a trained one of low rank."""

    def __init__(self, fixed: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.fixed = fixed
        self.down = nn.Parameter(torch.randn(rank, fixed.in_features) / fixed.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(fixed.out_features, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        change = functional.linear(functional.linear(x, self.down), self.up)
        return self.fixed(x) + 2 * change


@functools.cache
def _pretrained() -> dict[str, torch.Tensor]:
    """The transformer after a short training on sources; the same on every rank and in every run."""
    with torch.random.fork_rng():
        torch.manual_seed(71)
        model = Bytes()
        inputs, answers = _sources("train")
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        schedule = rise_and_fall(optimizer, 0, PRETRAINED_STEPS)
        for _ in range(PRETRAINED_STEPS):
            chosen = torch.randint(len(inputs), (PRETRAINED_BATCH,))
            optimizer.zero_grad()
            Job.loss(model(inputs[chosen]), answers[chosen]).backward()
            optimizer.step()
            schedule.step()
    return model.state_dict()


def _adapted() -> nn.Module:
    model = Bytes()
    model.load_state_dict(_pretrained())
    model.requires_grad_(False)
    for layer in model.layers:
        if isinstance(layer, Attention):
            for name in ("mix", "join", "widen", "narrow"):
                setattr(layer, name, LowRank(getattr(layer, name)))
    return model


# --- pictures with noise, and the pictures ---

SIDE = 16


def _pictures(split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Ellipses and bars of random size, place and brightness; the noise of a picture is its own."""
    count, seed = (4000, 5) if split == "train" else (400, 6)
    dice = torch.Generator().manual_seed(seed)
    rows = torch.linspace(-1, 1, SIDE).view(1, SIDE, 1)
    columns = rows.transpose(1, 2)
    clean = torch.zeros(count, SIDE, SIDE)
    for _ in range(4):
        place, size, turn, light, round_one = (
            torch.rand(count, width, 1, 1, generator=dice) for width in (2, 2, 1, 1, 1)
        )
        across, down = columns - 2 * place[:, 0] + 1, rows - 2 * place[:, 1] + 1
        angle = 3.14159 * turn[:, 0]
        along = (across * angle.cos() + down * angle.sin()) / (0.1 + 0.5 * size[:, 0])
        aside = (down * angle.cos() - across * angle.sin()) / (0.1 + 0.5 * size[:, 1])
        ellipse = along**2 + aside**2 < 1
        bar = (along.abs() < 1) & (aside.abs() < 0.3)
        inside = torch.where(round_one[:, 0] < 0.5, ellipse, bar)
        clean = torch.where(inside, 0.2 + 0.8 * light[:, 0], clean)
    noisy = clean + 0.4 * torch.randn(clean.shape, generator=dice)
    return noisy.unsqueeze(1), clean.unsqueeze(1)


class Convolutions(nn.Sequential):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__(
            nn.Conv2d(inside, outside, 3, padding=1), nn.GroupNorm(4, outside), nn.SiLU(),
            nn.Conv2d(outside, outside, 3, padding=1), nn.SiLU(),
        )  # fmt: skip


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.outer, self.inner, self.deepest = (
            Convolutions(1, 12), Convolutions(12, 24), Convolutions(24, 48),
        )  # fmt: skip
        self.up_inner, self.up_outer = Convolutions(48 + 24, 24), Convolutions(24 + 12, 12)
        self.out = nn.Conv2d(12, 1, 1)

    def forward(self, noisy: torch.Tensor) -> torch.Tensor:
        outer = self.outer(noisy)
        inner = self.inner(functional.avg_pool2d(outer, 2))
        deepest = self.deepest(functional.avg_pool2d(inner, 2))
        inner = self.up_inner(
            torch.cat([functional.interpolate(deepest, scale_factor=2), inner], 1)
        )
        outer = self.up_outer(torch.cat([functional.interpolate(inner, scale_factor=2), outer], 1))
        return self.out(outer)


# --- a table ---

FEATURES, CLASSES, RULES = 20, 6, 24


def _table(split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows whose class depends on random rules over three columns each, and on luck."""
    dice = torch.Generator().manual_seed(31)
    columns = torch.stack([torch.randperm(FEATURES, generator=dice)[:3] for _ in range(RULES)])
    cuts = 0.5 * torch.randn(RULES, 3, generator=dice)
    votes = torch.randn(RULES, CLASSES, generator=dice)
    dice.manual_seed(32 if split == "train" else 33)
    rows = torch.randn(20_000 if split == "train" else 4000, FEATURES, generator=dice)
    held = (rows[:, columns] > cuts).float().sum(-1) - 1.5
    luck = torch.randn(len(rows), CLASSES, generator=dice)
    return rows, (held @ votes + 1.5 * luck).argmax(-1)


def _layers() -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, 192), nn.ReLU(), nn.Linear(192, 192), nn.ReLU(),
        nn.Linear(192, 192), nn.ReLU(), nn.Linear(192, CLASSES), ToSequence(),
    )  # fmt: skip


UNSEEN = {
    job.name: job
    for job in (
        ScheduledJob(
            "bytes", Bytes, once("sources", _sources), 8, "adamw", 3e-3, 240, 400,
            make_optimizer=lambda p, rate: torch.optim.AdamW(p, rate, betas=(0.9, 0.95)),
            make_schedule=one_cycle, clip=1.0,
        ),
        ScheduledJob(
            "lstm", Recurrent, once("manual", _manual), 8, "adamw", 5e-3, 320, 300,
            make_optimizer=lambda p, rate: torch.optim.AdamW(p, rate, weight_decay=0.05),
            make_schedule=lambda o, _, steps: CosineAnnealingLR(o, steps), clip=0.5,
        ),
        ScheduledJob(
            "lora", _adapted, once("manual", _manual), 8, "adamw", 4e-3, 240, 300,
            make_optimizer=lambda p, rate: torch.optim.AdamW(p, rate, weight_decay=0.0),
            make_schedule=rise_and_fall, clip=1.0,
        ),
        Denoising(
            "unet", UNet, once("pictures", _pictures), 8, "adam", 3e-3, 240, 400,
            make_optimizer=lambda p, rate: torch.optim.Adam(p, rate), make_schedule=rise_and_fall,
        ),
        ScheduledJob(
            "table", _layers, once("table", _table), 32, "sgd", 0.1, 320, 4000,
            make_optimizer=lambda p, rate: torch.optim.SGD(
                p, rate, momentum=0.9, nesterov=True, weight_decay=1e-4
            ),
            make_schedule=one_cycle,
        ),
    )
}  # fmt: skip

ALL: dict[str, Job] = {**JOBS, **UNSEEN}
