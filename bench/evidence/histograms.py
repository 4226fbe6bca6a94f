# SPDX-License-Identifier: MIT
"""Histograms of what the adaptive methods chose over the steps of each study: collectives and
densities, as in the published figures 7 and 8."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from evidence.runs import Runner
from evidence.study import Study
from pliant import runlog


Plans = Mapping[
    str, Mapping[str, float]
]  # "scheme", "density", "every", "late" -> value -> share of steps


def of(runner: Runner, study: Study, method: str, seeds: Iterable[int]) -> Plans:
    """Over all seeds; empty if none was logged."""
    plans = [plan for seed in seeds for plan in _plans(runner, study, method, seed)]
    if not plans:
        return {}
    return {
        "scheme": _shares(_scheme(plan) for plan in plans),
        "density": _shares(_word(plan, "density=", "100%") for plan in plans),
        "every": _shares(_word(plan, "every=", "1") for plan in plans),
        "late": _shares(_word(plan, "late=", "0") for plan in plans),
    }


def _plans(runner: Runner, study: Study, method: str, seed: int) -> list[str]:
    path = runner.log_of(study.full(runner, method, seed))
    return [step.plan for step in runlog.read(path).steps] if path.exists() else []


def _scheme(plan: str) -> str:
    words = plan.split()
    kind, scheme = words[0], next(word for word in words[1:] if "=" not in word)
    reduce = _word(plan, "reduce=", "")
    return f"{kind} {scheme}" + (f" ({reduce})" if scheme.startswith("shared") else "")


def _word(plan: str, key: str, otherwise: str) -> str:
    return next(
        (word.removeprefix(key) for word in plan.split() if word.startswith(key)), otherwise
    )


def _shares(values: Iterable[str]) -> dict[str, float]:
    counted = Counter(values)
    return {value: round(count / counted.total(), 4) for value, count in counted.most_common()}
