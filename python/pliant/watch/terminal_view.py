# SPDX-License-Identifier: MIT
"""View of a run as a panel that a terminal redraws in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pliant.runlog import Decision
from pliant.tools import formatting
from pliant.watch.plain_view import clock, ending
from pliant.watch.state import State

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

BARS = "▁▂▃▄▅▆▇█"


def spark(values: Sequence[float], width: int = 40) -> str:
    """The last values as a row of bars."""
    shown = list(values)[-width:]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    return "".join(
        BARS[int((value - low) / (high - low) * (len(BARS) - 1)) if high > low else 0]
        for value in shown
    )


def picture(state: State, total: int | None) -> RenderableType:
    """The panel. total: the number of steps that the run will have, if it is known."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    parts: list[RenderableType] = [_figures(state, total)]
    if state.decisions:
        parts.append(Text("\nlast decisions", style="dim"))
        parts += [_decision(each, state) for each in reversed(state.decisions)]
    parts += [
        Text(
            f"{clock(each.t)}  {formatting.plain(each.level)}: {formatting.plain(each.text)}",
            style="yellow",
        )
        for each in state.messages
    ]
    if state.end:
        style = "bold green" if state.end.status == "closed" else "bold red"
        parts.append(Text(ending(state.end), style=style))
    return Panel(
        Group(*parts),
        title=Text(formatting.short(formatting.plain(state.header.name), 60)),
        subtitle=Text(f"{state.header.world} ranks, {state.header.parameters:,} parameters"),
        border_style="dim",
    )


def _figures(state: State, total: int | None) -> Table:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()

    def row(name: str, *pieces: str | tuple[str, str]) -> None:
        # As Text, so that rich reads no markup in what the log says.
        table.add_row(name, Text.assemble(*pieces))

    of_total = f" of {total:,}" if total else ""
    row("steps", f"{state.steps:,}{of_total} in {formatting.duration(state.t)}")
    if total:
        table.add_row("", ProgressBar(total=total, completed=min(state.steps, total), width=40))
        if state.step_time and total > state.steps:
            row("time left", formatting.duration((total - state.steps) * state.step_time))
    times = spark([step.whole for step in state.recent if step.whole])
    step_time = formatting.duration(state.step_time)
    against = f", {state.against_dense}" if state.against_dense else ""
    row("a step", (step_time, "bold"), against, "  ", (times, "cyan"))
    if state.noted:
        row("noted", _noted(state))
    if state.phase is not None:
        row("phase", formatting.plain(state.phase))
    if state.last:
        row("plan", (state.plan(state.last.plan), "bold cyan"))
    else:
        row("plan", ("-", "bold cyan"))
    row("why", state.reason(state.decision) if state.decision else "-")
    row("link", _link(state))
    row("sent", _sent(state))
    return table


def _noted(state: State) -> str:
    return ", ".join(
        f"{formatting.short(formatting.plain(name), 24)} {formatting.number(value)}"
        for name, value in list(state.noted.items())[:5]
    )


def _link(state: State) -> str:
    if state.link is None:
        return "not known yet"
    return formatting.link(state.link.known_rate, state.link.latency)


def _sent(state: State) -> str:
    if not state.steps:
        return "nothing yet"
    voids = f"; {formatting.count(state.voids, 'void exchange')}" if state.voids else ""
    per_step = formatting.size(state.bytes / state.steps)
    return f"{formatting.size(state.bytes)}, {per_step} a step{voids}"


def _decision(decision: Decision, state: State) -> RenderableType:
    from rich.text import Text

    kind = (
        "trial"
        if decision.trial
        else "new"
        if decision.changed or decision.before is None
        else "kept"
    )
    style = "bold cyan" if kind == "new" else ""
    return Text.assemble(
        (f"{clock(decision.t)}  ", "dim"),
        (f"{kind:5} ", style),
        (state.reason(decision), style),
        overflow="ellipsis",
        no_wrap=True,
    )
