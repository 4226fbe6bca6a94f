# SPDX-License-Identifier: MIT
"""Data of the demonstration: images of ten kinds of clothes, 28 x 28 grey pixels.

They are Fashion-MNIST from Debian's package dataset-fashion-mnist, or generated images of the same
shape where that is absent. `Data.name` says which, and people must be shown it."""

from __future__ import annotations

import gzip
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

CLASSES = 10
SIDE = 28
PACKAGE = "dataset-fashion-mnist"

# Where Debian's package puts its four files. PLIANT_FASHION_MNIST, if set, is looked into instead.
FOLDERS = ("/usr/share/datasets/fashion-mnist",)

# The mean and the standard deviation of Fashion-MNIST's training pixels, in 0..1.
_MEAN, _DEVIATION = 0.286, 0.353

_BYTES = 0x08  # idx files say what their numbers are; these are unsigned bytes

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Images:
    pixels: torch.Tensor  # uint8, (count, 28, 28)
    labels: torch.Tensor  # int64, (count)

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, where: torch.Tensor | slice) -> tuple[torch.Tensor, torch.Tensor]:
        """What a model takes: float32 of mean 0 and deviation 1, (n, 1, 28, 28); and the labels."""
        pixels = self.pixels[where].unsqueeze(1).to(torch.float32)
        return (pixels / 255 - _MEAN) / _DEVIATION, self.labels[where]


@dataclass(frozen=True)
class Data:
    name: str  # for people
    real: bool
    train: Images
    test: Images


def load(folders: Sequence[str] | None = None) -> Data:
    """Fashion-MNIST from the first folder that has it, else generated images. A file that is there
    and broken is a ValueError."""
    told = os.environ.get("PLIANT_FASHION_MNIST")
    for folder in folders if folders is not None else (told,) if told is not None else FOLDERS:
        parts = {part: _paths(Path(folder), part) for part in ("train", "t10k")}
        if all(path.is_file() for paths in parts.values() for path in paths):
            return Data("Fashion-MNIST", True, _images(*parts["train"]), _images(*parts["t10k"]))
    return Data(
        f"generated images (Debian's {PACKAGE} is not installed)",
        False,
        generated(20_000, 1),
        generated(4_000, 2),
    )


def batch(
    images: Images, size: int, *, rank: int, step: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """What this rank trains on in this step: drawn at random, the same for every method, another
    for every rank."""
    generator = torch.Generator().manual_seed((seed * 1_000_003 + step) * 1_009 + rank)
    return images.at(torch.randint(len(images), (size,), generator=generator))


def generated(count: int, seed: int) -> Images:
    """A picture of its class, blurred to be as smooth as clothes are, shifted a little, under
    noise. All classes are drawn once and for all."""
    pictures = _smooth(np.random.default_rng(77).standard_normal((CLASSES, SIDE, SIDE)))
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, count)
    shifts = random.integers(-3, 4, (count, 2))
    rows = (np.arange(SIDE)[None, :] + shifts[:, :1]) % SIDE
    columns = (np.arange(SIDE)[None, :] + shifts[:, 1:]) % SIDE
    clean = pictures[labels[:, None, None], rows[:, :, None], columns[:, None, :]]
    noisy = (
        0.4 + 0.07 * clean + 0.35 * random.standard_normal((count, SIDE, SIDE), dtype=np.float32)
    )
    pixels = (255 * noisy.clip(0, 1)).astype(np.uint8)
    return Images(torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64)))


def _smooth(pictures: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    for _ in range(6):
        for axis in (1, 2):
            pictures = (np.roll(pictures, 1, axis) + 2 * pictures + np.roll(pictures, -1, axis)) / 4
    scaled: npt.NDArray[np.float32] = (pictures / pictures.std(axis=(1, 2), keepdims=True)).astype(
        np.float32
    )
    return scaled


def _paths(folder: Path, part: str) -> tuple[Path, Path]:
    return folder / f"{part}-images-idx3-ubyte.gz", folder / f"{part}-labels-idx1-ubyte.gz"


def _images(pixels: Path, labels: Path) -> Images:
    images = Images(
        torch.from_numpy(read_idx(pixels)), torch.from_numpy(read_idx(labels).astype(np.int64))
    )
    if tuple(images.pixels.shape) != (len(images), SIDE, SIDE):
        raise ValueError(
            f"{pixels}: images of shape {tuple(images.pixels.shape)}, expected ({len(images)}, "
            f"{SIDE}, {SIDE}) as {labels.name} has labels"
        )
    return images


def read_idx(path: Path) -> Bytes:
    """The format idx: two zero bytes, the type, the number of dimensions, their sizes (32 bits,
    big-endian), the numbers."""
    try:
        with gzip.open(path) as file:
            content = file.read()
    except (OSError, EOFError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from None
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _BYTES:
        raise ValueError(f"{path}: not an idx file of unsigned bytes")
    dimensions = content[3]
    begin = 4 + 4 * dimensions
    sizes = struct.unpack(f">{dimensions}I", content[4:begin]) if len(content) >= begin else (0,)
    if len(content) != begin + int(np.prod(sizes)):
        raise ValueError(
            f"{path}: {len(content)} bytes, but its header speaks of {'x'.join(map(str, sizes))} "
            "numbers"
        )
    return np.frombuffer(bytearray(content[begin:]), dtype=np.uint8).reshape(sizes)
