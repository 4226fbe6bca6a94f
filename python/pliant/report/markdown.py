# SPDX-License-Identifier: MIT
"""Summary of runs as Markdown: the verdict, then the figures of all runs side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pliant.report import tables, verdict
from pliant.report.figures import Comparison, Figures
from pliant.tools import formatting


def escaped(text: str) -> str:
    """Shown as it is, whatever Markdown or HTML would make of it."""
    return re.sub(r"([\\`*_{}\[\]<>#|~!$&])", r"\\\1", formatting.plain(text))


def summary(figures: Sequence[Figures], comparison: Comparison) -> str:
    lines = ["# Pliant report", ""]
    lines += [
        line
        for sentence in verdict.of_comparison(comparison, figures)
        for line in (escaped(sentence), "")
    ]
    for each in figures:
        lines += [
            f"**{escaped(each.name)}**: {escaped(verdict.of_run(each, compared=len(figures) > 1))}",
            "",
        ]
    columns = [tables.rows(each) for each in figures]
    names = tables.shown(columns)
    lines += [
        "| | " + " | ".join(escaped(each.name) for each in figures) + " |",
        "|---" * (len(figures) + 1) + "|",
    ]
    lines += [
        f"| {escaped(name)} | "
        + " | ".join(escaped(column.get(name, "-")) for column in columns)
        + " |"
        for name in names
    ]
    return "\n".join(lines) + "\n"
