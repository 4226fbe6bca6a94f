# SPDX-License-Identifier: MIT
"""Printer of the outcome: the verdict, the table, and where the files are."""

from __future__ import annotations

import sys

from rich import box
from rich.console import Console
from rich.table import Table

from pliant.demo.comparison import Outcome


def show(outcome: Outcome, in_the_lab: bool) -> None:
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 110)
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("")
    for title in ("plain DDP", "Pliant", "times"):
        table.add_column(title, justify="left" if title == "Pliant" else "right")
    for row in outcome.rows:
        table.add_row(row.what, row.plain, row.pliant, row.ratio)
    console.print(outcome.verdict, markup=False)
    if not in_the_lab:
        console.print(
            "On loopback there is little to gain: this shows that it works, not what it is for.",
            markup=False,
        )
    console.print(table)
    console.print(f"report   {outcome.report}", markup=False, soft_wrap=True)
    console.print(f"chart    {outcome.chart}", markup=False, soft_wrap=True)
    console.print(f"figures  {outcome.figures}", markup=False, soft_wrap=True)
