# SPDX-License-Identifier: MIT
"""Parser for the text of a plan (docs/plans.md), for tools that read run logs without the binding.

Code that can load the binding uses its Plan and Pins instead."""

from __future__ import annotations

import math

_KINDS = ("gradients", "updates")


def is_updates(plan: str) -> bool:
    return _parts(plan).get("kind") == "updates"


def scheme(plan: str) -> str:
    return _parts(plan).get("scheme", plan)


def value(plan: str, key: str, usual: str) -> str:
    """Of a key; `usual` if the text does not have it."""
    return _parts(plan).get(key, usual)


def density(plan: str) -> float | None:
    """Percent of the entries that are sent: 100 for dense, None if the text does not say."""
    parts = _parts(plan)
    if parts.get("scheme") == "dense":
        return 100.0
    try:
        value = float(parts["density"].removesuffix("%"))
    except (KeyError, ValueError):
        return None
    return value if math.isfinite(value) and value > 0 else None


def label(plan: str) -> str:
    """A short form, the same as `pliant/plan/label.h` writes: "dense", "top 10 %", "all (srs)",
    "updates every 4, late 2, top 1 %"."""
    parts = _parts(plan)
    name = scheme(plan)
    if name != "dense" and "density" in parts:
        percent = parts["density"].removesuffix("%")
        top = "all" if percent == "100" else f"top {percent} %"
        name = top if name == "union" else f"{top} ({name})"
    if parts.get("kind") != "updates":
        return name
    rhythm = "updates"
    if parts.get("every", "1") != "1":
        rhythm += f" every {parts['every']}"
    if parts.get("late", "0") != "0":
        rhythm += f", late {parts['late']}"
    return f"{rhythm}, {name}"


def words(plan: str) -> str:
    """In words for people who do not know plans: what is sent, how often, and when it lands.
    "all gradients, every step"; "top 10 % of updates, every 4 steps, landing 2 steps later"."""
    parts = _parts(plan)
    percent = parts.get("density", "100%").removesuffix("%")
    kind = "updates" if parts.get("kind") == "updates" else "gradients"
    amount = (
        f"all {kind}"
        if parts.get("scheme") == "dense" or percent == "100"
        else f"top {percent} % of {kind}"
    )
    every, late = parts.get("every", "1"), parts.get("late", "0")
    rhythm = "every step" if every == "1" else f"every {every} steps"
    if late == "0":
        return f"{amount}, {rhythm}"
    return f"{amount}, {rhythm}, landing {late} step{'' if late == '1' else 's'} later"


def _parts(plan: str) -> dict[str, str]:
    """`kind`, `scheme`, and every key with its value."""
    parts: dict[str, str] = {}
    for word in plan.split():
        key, equals, value = word.partition("=")
        if equals:
            parts[key] = value
        else:
            parts["kind" if word in _KINDS else "scheme"] = word
    return parts
