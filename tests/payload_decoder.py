# SPDX-License-Identifier: MIT
"""A second decoder of payloads, written from docs/formats/payload.md alone: slow, plain, and
sharing no code with the library."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

HEADER = struct.Struct("<4sBBBBQQIIIHHIIIIff")
FIELDS = (
    "magic version index_code value_code flags checksum step epoch bucket slice sender voted "
    "length count index_words value_words unsent vote"
).split()
GROUPS = {1: 1024, 2: 1024, 3: 64}  # values that share a scale, by value code


@dataclass(frozen=True)
class Payload:
    header: dict[str, int | float]
    indices: list[int] | None
    values: list[float] | None


class Corrupt(ValueError):
    pass


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Corrupt(what)


def xxh3(data: bytes, seed: int) -> int:
    """XXH3 is not ours to describe: the system's own library computes it."""
    function = ctypes.CDLL("libxxhash.so.0").XXH3_64bits_withSeed
    function.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    function.restype = ctypes.c_uint64
    return function(data, len(data), seed)


def padded(size: int) -> int:
    return -(-size // 8) * 8


class Parts:
    """Takes padded parts off the front of a stream."""

    def __init__(self, stream: bytes) -> None:
        self.rest = stream

    def take(self, size: int) -> bytes:
        check(padded(size) <= len(self.rest), "stream too short")
        part, padding, self.rest = (
            self.rest[:size],
            self.rest[size : padded(size)],
            self.rest[padded(size) :],
        )
        check(not any(padding), "padding")
        return part

    def end(self) -> None:
        check(not self.rest, "stream too long")


def bits_of(part: bytes) -> list[int]:
    return [byte >> i & 1 for byte in part for i in range(8)]


def raw32(stream: bytes, n: int, k: int) -> list[int]:
    parts = Parts(stream)
    indices = list(struct.unpack(f"<{k}I", parts.take(4 * k)))
    parts.end()
    return indices


def block16(stream: bytes, n: int, k: int) -> list[int]:
    parts = Parts(stream)
    blocks = -(-n // 65536)
    counts_and_offsets = parts.take(4 * blocks + 2 * k)
    parts.end()
    counts = struct.unpack(f"<{blocks}I", counts_and_offsets[: 4 * blocks])
    check(sum(counts) == k, "block counts")
    bases = [65536 * block for block, count in enumerate(counts) for _ in range(count)]
    return [
        base + offset
        for base, offset in zip(
            bases, struct.unpack(f"<{k}H", counts_and_offsets[4 * blocks :]), strict=True
        )
    ]


def rice(stream: bytes, n: int, k: int) -> list[int]:
    p = 0
    while 320 * k * 2**p < 77 * (2 * n - k):
        p += 1
    parts = Parts(stream)
    low_bits = bits_of(parts.take(-(-k * p // 64) * 8))
    check(not any(low_bits[k * p :]), "padding")
    low = [sum(bit << i for i, bit in enumerate(low_bits[p * j : p * j + p])) for j in range(k)]
    check(len(parts.rest) % 8 == 0 and any(parts.rest[-8:]), "high plane")
    ones = [place for place, bit in enumerate(bits_of(parts.rest)) if bit]
    check(len(ones) == k, "ones of the high plane")
    return [
        ((z - i) << p) + i + lows
        for i, (z, lows) in enumerate(zip(ones, accumulate(low), strict=True))
    ]


def f32(stream: bytes, k: int) -> list[float]:
    parts = Parts(stream)
    values = list(struct.unpack(f"<{k}f", parts.take(4 * k)))
    parts.end()
    return values


def half_bytes(part: bytes, k: int) -> list[int]:
    halves = [half for byte in part for half in (byte & 15, byte >> 4)]
    check(not any(halves[k:]), "spare half byte")
    return [half - 16 if half > 7 else half for half in halves[:k]]


def scaled(code: int, stream: bytes, k: int) -> list[float]:
    parts = Parts(stream)
    group = GROUPS[code]
    groups = -(-k // group)
    scale_bits = struct.unpack(f"<{groups}H", parts.take(2 * groups))
    scales = [struct.unpack("<f", struct.pack("<I", bits << 16))[0] for bits in scale_bits]
    if code == 1:
        check(
            all(
                bits % 128 == 0 and 2.0**-102 <= scale <= 2.0**113
                for bits, scale in zip(scale_bits, scales, strict=True)
            ),
            "scale",
        )
        coded = list(struct.unpack(f"<{k}e", parts.take(2 * k)))
        check(all(abs(value) < 2**15 for value in coded), "value")
    elif code == 2:
        check(all(bits == 0 or 0x0080 <= bits <= 0x7C01 for bits in scale_bits), "scale")
        coded = list(struct.unpack(f"<{k}b", parts.take(k)))
        check(all(value >= -127 for value in coded), "value")
    else:
        check(all(bits == 0 or 0x0080 <= bits <= 0x7E12 for bits in scale_bits), "scale")
        coded = half_bytes(parts.take(-(-k // 2)), k)
        check(all(value >= -7 for value in coded), "value")
    parts.end()
    return [value * scales[j // group] for j, value in enumerate(coded)]


def int2(stream: bytes, k: int) -> list[float]:
    parts = Parts(stream)
    groups = -(-k // 128)
    levels = struct.unpack(f"<{2 * groups}H", parts.take(4 * groups))
    check(all(bits == 0 or 0x0080 <= bits <= 0x7F7F for bits in levels), "level")
    check(all(low <= high for low, high in zip(levels[::2], levels[1::2], strict=True)), "levels")
    magnitudes = [struct.unpack("<f", struct.pack("<I", bits << 16))[0] for bits in levels]
    coded = bits_of(parts.take(-(-k // 4)))
    parts.end()
    check(not any(coded[2 * k :]), "spare bits")
    values = [magnitudes[j // 128 * 2 + coded[2 * j]] for j in range(k)]
    return [-value if coded[2 * j + 1] else value for j, value in enumerate(values)]


VALUE_STREAMS = [
    f32,
    partial(scaled, 1),
    partial(scaled, 2),
    partial(scaled, 3),
    int2,
]


def decode(message: bytes) -> Payload:
    check(len(message) >= HEADER.size, "size")
    header = dict(zip(FIELDS, HEADER.unpack_from(message), strict=True))
    check(header["magic"] == b"PLPL", "magic")
    check(header["version"] == 3, "version")
    end_of_indices = HEADER.size + 8 * header["index_words"]
    end = end_of_indices + 8 * header["value_words"]
    check(end <= len(message), "lengths")
    check(
        header["checksum"] == xxh3(message[16:end], int.from_bytes(message[:8], "little")),
        "checksum",
    )
    check(header["flags"] < 16 and header["flags"] & 3 != 0, "flags")
    check(0 <= header["unsent"] < float("inf") and 0 <= header["vote"] < float("inf"), "energies")
    n, k = header["length"], header["count"]
    check(k <= n, "count")

    indices = values = None
    if header["flags"] & 1:
        stream = message[HEADER.size : end_of_indices]
        indices = [raw32, block16, rice][header["index_code"]](stream, n, k) if k else []
        check(
            all(a < b for a, b in zip(indices, indices[1:])) and (not indices or indices[-1] < n),
            "order of indices",
        )
    if header["flags"] & 2:
        stream = message[end_of_indices:end]
        code = header["value_code"]
        check(code <= 4, "value_code")
        values = VALUE_STREAMS[code](stream, k) if k else []
    return Payload(header, indices, values)
