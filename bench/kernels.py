# SPDX-License-Identifier: MIT
"""Benchmark of selection and coding: every figure is a ratio to a reference that takes turns with
it in this process. Times are the processor time of the one thread that works, so that what else the
machine does counts only where it takes memory bandwidth.

Three references. memcpy (8 bytes an entry; a large one may write around the caches). A copy with
ordinary stores, which reads each line that it writes (12 bytes). The floor of a pass: the shortest
loop that moves what the pass must move, residual += gradient (12 bytes) or its sibling for updates
(20 bytes).

Shapes: n = 1 Mi, 25.6 M and 200 M entries, densities 10 %, 1 % and 0.1 %, Gaussian and Laplace
gradients. The named figures are those at n = 25.6 M with Gaussian gradients; the others are in the
JSON under "shapes". Also writes build/bench/costs.json."""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import thread_time

import figures
import numpy as np
import torch

NAMED_ENTRIES = 25_600_000
ENTRIES = {1 << 20: 41, NAMED_ENTRIES: 21, 200_000_000: 15}  # n -> repetitions
DENSITIES = {"10%": 0.1, "1%": 0.01, "0.1%": 0.001}
DISTRIBUTIONS = {"gaussian": 0, "laplace": 1}
KINDS = ("exact", "update")  # of gradients, and of progress
WARM_UP_STEPS = 4
TARGETS = {  # at most, or at least for a speedup
    "select_exact/density=1%": 1.25,
    "select_exact/density=0.1%": 1.25,
    "select_update/density=10%": 1.75,
    "select_update/density=1%": 1.75,
    "select_update/density=0.1%": 1.75,
    "rice_over_bound/density=10%": 1.02,
    "rice_over_bound/density=1%": 1.02,
    "rice_over_bound/density=0.1%": 1.02,
    "rice_encode_ns/density=10%": 3,
    "rice_encode_ns/density=1%": 3,
    "rice_encode_ns/density=0.1%": 3,
    "rice_decode_ns/density=10%": 4,
    "rice_decode_ns/density=1%": 4,
    "rice_decode_ns/density=0.1%": 4,
    "start_up_costs": 50,
    "speedup_over_nth_element": 15,
    "speedup_over_torch_topk": 50,
}

Pointer = ctypes.c_void_p
Size = ctypes.c_size_t


def load() -> ctypes.CDLL:
    """The release build of pliant/compress/select_bench.cc."""
    library = ctypes.CDLL(
        str(figures.ROOT / "build/release/pliant/compress/libpliant_select_bench.so")
    )
    signatures = {
        "new": (Pointer, [Size, Size]),
        "delete": (None, [Pointer]),
        "new_buffer": (Pointer, [Size]),
        "buffer_data": (Pointer, [Pointer]),
        "delete_buffer": (None, [Pointer]),
        "gradient_step": (ctypes.c_double, [Pointer, Pointer, Pointer, Size]),
        "progress_step": (ctypes.c_double, [Pointer, Pointer, Pointer, Pointer, Size]),
        "nth_element_step": (ctypes.c_double, [Pointer, Pointer, Pointer, Size, Size]),
        "mstopk_step": (ctypes.c_double, [Pointer, Pointer, Pointer, Size, Size]),
        "kept": (Size, [Pointer]),
        "passes": (ctypes.c_int, [Pointer]),
        "put_back": (None, [Pointer, Pointer, Size]),
        "copy": (ctypes.c_double, [Pointer, Pointer, Size]),
        "plain_copy": (ctypes.c_double, [Pointer, Pointer, Size]),
        "gradient_floor": (ctypes.c_double, [Pointer, Pointer, Size]),
        "progress_floor": (ctypes.c_double, [Pointer, Pointer, Pointer, Size]),
        "draw": (None, [ctypes.c_int, ctypes.c_uint64, Pointer, Size]),
        "write_costs": (ctypes.c_int, [ctypes.c_char_p, Size, ctypes.c_int]),
        "start_up_costs": (ctypes.c_double, []),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"pliant_bench_{name}")
        function.restype, function.argtypes = result, arguments
        setattr(library, name, function)
    return library


def touched(entries: int) -> np.ndarray:
    """Zeros that have been touched, aligned to pages of the usual size: torch and numpy allocate no
    others by default."""
    array = np.frombuffer(mmap.mmap(-1, entries * 4), dtype=np.float32)
    array.fill(0)
    return array


def of_the_library(library: ctypes.CDLL, entries: int) -> np.ndarray:
    """The same as the library allocates what is its own: on huge pages where the kernel grants
    them."""
    buffer = library.new_buffer(entries)
    array = np.ctypeslib.as_array(
        ctypes.cast(library.buffer_data(buffer), ctypes.POINTER(ctypes.c_float)), (entries,)
    )
    weakref.finalize(array, library.delete_buffer, buffer)
    array.fill(0)
    return array


@dataclass
class Arrays:
    """One set for all shapes of a size. `gradient` is drawn once; its tail repeats its first 4 Mi
    entries, rotated."""

    gradient: np.ndarray  # torch's memory
    copied: np.ndarray
    residual: np.ndarray  # the library's own memory
    parameters: np.ndarray  # the copy it works on
    reference: np.ndarray

    @staticmethod
    def of(library: ctypes.CDLL, entries: int, distribution: int) -> Arrays:
        arrays = Arrays(
            touched(entries),
            touched(entries),
            *(of_the_library(library, entries) for _ in range(3)),
        )
        drawn = min(entries, 1 << 22)
        library.draw(distribution, 1, arrays.gradient.ctypes.data, drawn)
        for first in range(drawn, entries, drawn):
            count = min(drawn, entries - first)
            arrays.gradient[first : first + count] = np.roll(
                arrays.gradient[:drawn], first // drawn * 12_345
            )[:count]
        return arrays


Step = Callable[[], float]


def steps(library: ctypes.CDLL, arrays: Arrays, method: str, keep: int) -> tuple[Step, Pointer]:
    """A function that runs one step on a residual of zeros and returns its seconds."""
    n = arrays.gradient.size
    bench = library.new(n, keep)

    def run() -> float:
        arrays.residual.fill(0)
        if method != "update":
            return library.gradient_step(
                bench, arrays.gradient.ctypes.data, arrays.residual.ctypes.data, n
            )
        np.copyto(arrays.parameters, arrays.gradient)
        return library.progress_step(
            bench,
            arrays.parameters.ctypes.data,
            arrays.reference.ctypes.data,
            arrays.residual.ctypes.data,
            n,
        )

    for _ in range(WARM_UP_STEPS):
        run()
    return run, bench


def torch_step(arrays: Arrays, keep: int) -> float:
    """As a user would write it: add, abs, topk, gather, clear."""
    gradient, residual = torch.from_numpy(arrays.gradient), torch.from_numpy(arrays.residual)
    residual.zero_()
    start = thread_time()
    residual.add_(gradient)
    _, indices = torch.topk(residual.abs(), keep)
    values = residual[indices]
    residual[indices] = 0
    elapsed = thread_time() - start
    assert values.numel() == keep
    return elapsed


def references(library: ctypes.CDLL, arrays: Arrays, method: str) -> dict[str, Step]:
    """References of a step, in the order in which they surround it: memcpy next to it."""
    n = arrays.gradient.size
    gradient, copied, parameters = (
        arrays.gradient.ctypes.data,
        arrays.copied.ctypes.data,
        arrays.parameters.ctypes.data,
    )
    reference, residual = arrays.reference.ctypes.data, arrays.residual.ctypes.data

    def floor() -> float:
        arrays.residual.fill(0)  # as before a step
        if method == "update":
            return library.progress_floor(parameters, reference, residual, n)
        return library.gradient_floor(gradient, residual, n)

    return {
        "floor": floor,
        "plain_copy": lambda: library.plain_copy(copied, gradient, n),
        "memcpy": lambda: library.copy(copied, gradient, n),
    }


@dataclass
class Against:
    """Results of every repetition: the ratios to the references, and how much a reference moves (as
    programs count: reads and writes)."""

    ratios: dict[str, list[float]]
    reference_seconds: dict[str, list[float]]


def against_references(
    library: ctypes.CDLL, arrays: Arrays, method: str, density: float, repetitions: int
) -> Against:
    """Every reference runs before and after each step."""
    keep = round(density * arrays.gradient.size)
    run, bench = steps(library, arrays, method, keep)
    held_against = references(library, arrays, method)
    against = Against({name: [] for name in held_against}, {name: [] for name in held_against})
    for _ in range(repetitions):
        before = {name: reference() for name, reference in held_against.items()}
        seconds = run()
        assert library.passes(bench) == 1, "a step took a second pass"
        assert library.kept(bench) == keep, (library.kept(bench), keep)
        after = {name: reference() for name, reference in reversed(held_against.items())}
        for name in held_against:
            reference_seconds = 0.5 * (before[name] + after[name])
            against.ratios[name].append(seconds / reference_seconds)
            against.reference_seconds[name].append(reference_seconds)
    library.delete(bench)
    return against


def bandwidths(against: Against, method: str, entries: int) -> list[figures.Figure]:
    """GB/s that the references reach, counting what a program reads and writes."""
    moved = {"memcpy": 8, "plain_copy": 8, "floor": 20 if method == "update" else 12}
    names = {
        "memcpy": "memcpy",
        "plain_copy": "plain_copy",
        "floor": "update_floor" if method == "update" else "accumulate_floor",
    }
    return [
        figures.spread(
            f"bandwidth/{names[name]}",
            [moved[name] * entries / 1e9 / seconds for seconds in samples],
            "GB/s",
        )
        for name, samples in against.reference_seconds.items()
        if method == "exact" or name == "floor"
    ]


def speedups(
    library: ctypes.CDLL, arrays: Arrays, density: float, repetitions: int
) -> dict[str, list[float]]:
    """Factor by which the same selection takes longer with std::nth_element, with MSTopk and in
    torch, in turns with ours."""
    n = arrays.gradient.size
    keep = round(density * n)
    run, bench = steps(library, arrays, "exact", keep)
    slow: dict[str, list[float]] = {"nth_element": [], "mstopk": [], "torch_topk": []}
    for _ in range(repetitions):
        ours = run()
        for name, step in (
            ("nth_element", library.nth_element_step),
            ("mstopk", library.mstopk_step),
        ):
            arrays.residual.fill(0)
            seconds = step(bench, arrays.gradient.ctypes.data, arrays.residual.ctypes.data, n, keep)
            slow[name].append(seconds / ours)
        with_torch = torch_step(arrays, keep)
        slow["torch_topk"].append(with_torch / (0.5 * (ours + run())))
    library.delete(bench)
    return slow


def codec_figures() -> list[figures.Figure]:
    """Figures of the payload's codecs, as their own program measures them at n = 25.6 M."""
    program = figures.ROOT / "build" / "release" / "pliant" / "compress" / "payload_bench"
    print("codecs", file=sys.stderr)
    done = subprocess.run([program], capture_output=True, text=True, timeout=600, check=True)
    return [figures.Figure(**figure) for figure in json.loads(done.stdout)["figures"]]


def verdict(named: list[figures.Figure]) -> str:
    missed = []
    for figure in named:
        target = TARGETS.get(figure.name)
        if target is None:
            continue
        if figure.value < target if figure.name.startswith("speedup") else figure.value > target:
            missed.append(f"{figure.name} is {figure.value:.3g}, target {target:g}")
    return "all targets met" if not missed else "missed: " + "; ".join(missed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only n = 25.6 M, Gaussian")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    library = load()
    named: list[figures.Figure] = []
    floors: list[figures.Figure] = []
    shapes: list[dict[str, object]] = []
    for entries, repetitions in ENTRIES.items():
        for distribution, number in DISTRIBUTIONS.items():
            is_named = entries == NAMED_ENTRIES and distribution == "gaussian"
            if quick and not is_named:
                continue
            arrays = Arrays.of(library, entries, number)
            for text, density in DENSITIES.items():
                for method in KINDS:
                    print(f"n={entries} {distribution} {text} {method}", file=sys.stderr)
                    against = against_references(library, arrays, method, density, repetitions)
                    for reference, samples in against.ratios.items():
                        suffix = "" if reference == "memcpy" else f"_over_{reference}"
                        figure = figures.spread(
                            f"select_{method}{suffix}/density={text}", samples, f"x {reference}"
                        )
                        shapes.append(
                            {"entries": entries, "distribution": distribution, **asdict(figure)}
                        )
                        if is_named:
                            named.append(figure)
                    if is_named and text == "1%":
                        floors += bandwidths(against, method, entries)
                        if method == "exact":
                            ratio = zip(
                                against.reference_seconds["floor"],
                                against.reference_seconds["memcpy"],
                                strict=True,
                            )
                            floors.append(
                                figures.spread(
                                    "accumulate_floor",
                                    [floor / copy for floor, copy in ratio],
                                    "x memcpy",
                                )
                            )
            if is_named:
                print(
                    f"n={entries} {distribution} 1% nth_element, mstopk and torch", file=sys.stderr
                )
                slow = speedups(library, arrays, DENSITIES["1%"], 15)
                named += [
                    figures.spread(f"speedup_over_{name}", samples, "x")
                    for name, samples in slow.items()
                ]
            del arrays
    named += floors
    named += codec_figures()
    named.append(
        figures.spread("start_up_costs", [1e3 * library.start_up_costs() for _ in range(15)], "ms")
    )

    costs = figures.ROOT / "build" / "bench" / "costs.json"
    costs.parent.mkdir(parents=True, exist_ok=True)
    if library.write_costs(str(costs).encode(), NAMED_ENTRIES, 5) != 0:
        print(f"kernels: cannot write {costs}", file=sys.stderr)
        return 1
    path = figures.write("kernels", named, shapes=shapes)
    print(verdict(named))
    print(figures.show(named))
    print(
        figures.table(
            ["entries", "distribution", "figure", "value", "low", "high", "unit"],
            [
                [
                    str(s["entries"]),
                    *(s[key] for key in ("distribution", "name", "value", "low", "high", "unit")),
                ]
                for s in shapes
            ],
        )
    )
    print(f"written: {path} and {costs}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
