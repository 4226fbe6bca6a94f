# SPDX-License-Identifier: MIT
"""Jobs that are trained: a CNN and a small ResNet on Fashion-MNIST with SGD, a small transformer on
text with AdamW.

A job is deterministic given its seed, its rank and the step: batches are drawn by a generator of
their own. Learning rates are tuned for plain DDP (`tune.py`), so that no method wins by acting as a
better learning rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import LRScheduler

from pliant.demo import data

TEXTS = Path("/usr/share/games/fortunes")  # Debian's package fortunes
CONTEXT = 64


@dataclass(frozen=True)
class Job:
    name: str
    make_model: Callable[[], nn.Module]
    load: Callable[[str], tuple[torch.Tensor, torch.Tensor]]  # split -> inputs, answers
    batch: int  # of each rank
    optimizer: str  # "sgd" or "adamw"
    rate: float
    steps: int
    tested: int  # samples of the test set that are evaluated
    clip: float = 0.0  # of the gradient's norm; 0: none
    # The model of the published system whose load on the network this one stands for: bandwidth is
    # scaled by the sizes' ratio.
    stands_for: int = 11_690_000  # parameters of its ResNet18

    def model(self, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return self.make_model()

    def optimize(
        self, parameters: Iterator[nn.Parameter], rate: float | None = None
    ) -> torch.optim.Optimizer:
        rate = self.rate if rate is None else rate
        if self.optimizer == "sgd":
            return torch.optim.SGD(parameters, lr=rate, momentum=0.9, weight_decay=5e-4)
        return torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)

    def schedule(self, optimizer: torch.optim.Optimizer, steps: int) -> LRScheduler | None:
        """None: the rate stays."""
        return None

    @staticmethod
    def loss(outputs: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs.flatten(0, -2), answers.flatten())

    @staticmethod
    def right(outputs: torch.Tensor, answers: torch.Tensor) -> int:
        """How many of the answers are found."""
        return int((outputs.argmax(-1).flatten() == answers.flatten()).sum())


class Batches:
    """The batch of a step is drawn from the whole training set; ranks and seeds draw differently,
    methods alike."""

    def __init__(self, job: Job, seed: int, rank: int) -> None:
        self._inputs, self._answers = job.load("train")
        self._size = job.batch
        self._dice = torch.Generator().manual_seed(1_000_003 * seed + rank)

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = torch.randint(len(self._inputs), (self._size,), generator=self._dice)
        return self._inputs[chosen], self._answers[chosen]


@torch.no_grad()
def evaluate(job: Job, model: nn.Module) -> tuple[float, float]:
    """Mean loss and accuracy on a fixed part of the test set."""
    inputs, answers = job.load("test")
    inputs, answers = inputs[: job.tested], answers[: job.tested]
    model.eval()
    losses, right, total = 0.0, 0, 0
    for begin in range(0, len(inputs), 250):
        outputs, wanted = model(inputs[begin : begin + 250]), answers[begin : begin + 250]
        losses += float(job.loss(outputs, wanted)) * wanted.numel()
        right += job.right(outputs, wanted)
        total += wanted.numel()
    model.train()
    return losses / total, right / total


# --- pictures ---


def _fashion(split: str) -> tuple[torch.Tensor, torch.Tensor]:
    found = data.load()
    if not found.real:
        raise FileNotFoundError(
            f"Fashion-MNIST comes from Debian's package {data.PACKAGE} (apt-get install "
            f"{data.PACKAGE})"
        )
    return (found.train if split == "train" else found.test).at(slice(None))


class ToSequence(nn.Module):
    """Logits of one answer per sample, as a sequence of length one: the loss is the same for all
    jobs."""

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return logits.unsqueeze(1)


def _cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 12, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(24 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10), ToSequence(),
    )  # fmt: skip


class Block(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(),
            nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside),
        )  # fmt: skip
        self.past = (
            nn.Identity()
            if stride == 1
            else nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.way(x) + self.past(x))


def _resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), Block(8, 8, 1), Block(8, 16, 2), Block(16, 32, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10), ToSequence(),
    )  # fmt: skip


# --- text ---


def _text(split: str) -> tuple[torch.Tensor, torch.Tensor]:
    if not TEXTS.is_dir():
        raise FileNotFoundError(
            f"{TEXTS}: the text comes from Debian's package fortunes (apt-get install fortunes)"
        )
    files = sorted(path for path in TEXTS.iterdir() if path.suffix == "" and path.is_file())
    text = "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)
    codes = torch.tensor([min(max(ord(letter) - 31, 0), 96) for letter in text])
    edge = len(codes) * 9 // 10
    part = codes[:edge] if split == "train" else codes[edge:]
    stride = 7 if split == "train" else CONTEXT
    windows = part.unfold(0, CONTEXT + 1, stride)
    return windows[:, :-1], windows[:, 1:]


class Transformer(nn.Module):
    def __init__(self, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.letters = nn.Embedding(97, width)
        self.places = nn.Parameter(torch.randn(CONTEXT, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 97)
        self.register_buffer(
            "mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False
        )

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.out(
            self.norm(
                self.layers(self.letters(codes) + self.places, mask=self.mask, is_causal=True)
            )
        )


_cache: dict[tuple[str, str], tuple[torch.Tensor, torch.Tensor]] = {}


def once(
    name: str, load: Callable[[str], tuple[torch.Tensor, torch.Tensor]]
) -> Callable[[str], tuple[torch.Tensor, torch.Tensor]]:
    def cached(split: str) -> tuple[torch.Tensor, torch.Tensor]:
        if (name, split) not in _cache:
            _cache[name, split] = load(split)
        return _cache[name, split]

    return cached


JOBS = {
    job.name: job
    for job in (
        Job("cnn", _cnn, once("fashion", _fashion), 16, "sgd", 0.05, 640, 4000),
        Job("resnet", _resnet, once("fashion", _fashion), 16, "sgd", 0.1, 640, 4000),
        Job("transformer", Transformer, once("text", _text), 8, "adamw", 6e-3, 640, 500),
    )
}
