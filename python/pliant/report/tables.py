# SPDX-License-Identifier: MIT
"""Tables of the page: figures of all runs side by side, decisions with reasons, facts and
messages."""

from __future__ import annotations

import html
import shlex
from collections.abc import Sequence
from datetime import datetime, timezone

from pliant.report import verdict
from pliant.report.figures import Figures
from pliant.runlog import Candidate, Decision, Header, RunLog, plan_text
from pliant.tools import formatting

# A run of days evaluates thousands of times; nobody reads that many rows.
MOST_ROWS = 300


def rows(figures: Figures) -> dict[str, str]:
    """The figures that people look for, by the words they look for."""
    dense = (
        f" (dense: {formatting.size(figures.dense_bytes_per_step)})"
        if figures.dense_bytes_per_step
        else ""
    )
    facts = {
        "steps": f"{figures.steps:,} in {formatting.duration(figures.seconds)}",
        "time per step": formatting.duration(figures.step_time),
        "of that: compute": formatting.duration(figures.compute),
        "of that: exposed exchange": formatting.duration(figures.exposed),
        "coding": formatting.duration(figures.coding),
        "dense would have taken": formatting.duration(figures.dense_step_time)
        if figures.speed_up
        else "-",
        "less time than dense": "-"
        if not figures.steps or verdict.plainly_dense(figures)
        else formatting.times_range(*figures.speed_up)
        if figures.speed_up
        else "not known well enough",
        "plans by share of steps": ", ".join(
            f"{each.plan} ({formatting.percent(each.share)})" for each in figures.plans[:4]
        )
        or "-",
        "prediction error (median)": formatting.percent(figures.prediction_error),
        "bytes a step": formatting.size(figures.bytes_per_step) + dense,
        "bytes in all": f"{formatting.size(figures.bytes)}, control records {formatting.size(figures.control_bytes)}",
        "link, last estimate": formatting.link(figures.rate, figures.latency)
        if figures.latency is not None
        else "-",
        "gain, updated fraction": f"{formatting.number(figures.gain)}, {formatting.percent(figures.updated)}"
        if figures.gain is not None
        else "-",
        "decisions": f"{figures.decisions}: {formatting.count(figures.changes, 'change')}, {formatting.count(figures.trials, 'trial')}",
        "void exchanges, warnings": f"{figures.voids}, {figures.warnings}",
    }
    if figures.rate_error is not None or figures.latency_error is not None:
        facts["estimate off the truth (median)"] = (
            f"rate {formatting.percent(figures.rate_error)}, latency "
            f"{formatting.percent(figures.latency_error)}"
        )
    if figures.pauses:
        facts["pauses, not counted"] = (
            f"{figures.pauses}, {formatting.duration(figures.pause_seconds)} in all"
        )
    for name, noted in list(figures.notes.items())[:6]:
        diverged = (
            f"; {formatting.count(noted.not_finite, 'time')} not finite" if noted.not_finite else ""
        )
        facts[f"{formatting.short(name)}: last (smallest, largest)"] = (
            f"{formatting.number(noted.last)} ({formatting.number(noted.smallest)}, "
            f"{formatting.number(noted.largest)}){diverged}"
        )
    return facts


def figures(runs: Sequence[Figures]) -> str:
    columns = [rows(each) for each in runs]
    names = shown(columns)
    lines = [
        f'<tr><th scope="row">{html.escape(name)}</th>{_cells([column.get(name, "-") for column in columns])}</tr>'
        for name in names
    ]
    if len(runs) == 1:
        half = (len(lines) + 1) // 2
        table = f'<div class="grid">{_card(lines[:half])}{_card(lines[half:])}</div>'
    else:
        head = "".join(f"<th>{html.escape(formatting.short(each.name))}</th>" for each in runs)
        table = _card(lines, f"<thead><tr><th></th>{head}</tr></thead>")
    return table + "".join(_phases(each, len(runs)) for each in runs if each.phases)


def _card(lines: Sequence[str], head: str = "") -> str:
    return f'<div class="card scroll figures"><table>{head}<tbody>{"".join(lines)}</tbody></table></div>'


def shown(columns: Sequence[dict[str, str]]) -> list[str]:
    """Rows in which at least one run has something."""
    return list(
        dict.fromkeys(name for column in columns for name, text in column.items() if text != "-")
    )


def _cells(texts: Sequence[str]) -> str:
    return "".join(f"<td>{html.escape(text)}</td>" for text in texts)


def _phases(run: Figures, runs: int) -> str:
    title = "By phase of the network" + (f": {formatting.short(run.name)}" if runs > 1 else "")
    truth = any(each.rate_true is not None or each.latency_true is not None for each in run.phases)
    head = [
        "phase",
        "begins",
        "steps",
        "time per step",
        "dense would take",
        "plan of most steps",
    ] + (["true rate", "true latency"] if truth else [])
    body = []
    for each in run.phases:
        cells = [
            each.phase or "-",
            formatting.duration(each.begin),
            f"{each.steps:,}",
            formatting.duration(each.step_time),
            formatting.duration(each.dense_step_time),
            each.plan or "-",
        ]
        cells += (
            [
                formatting.rate(each.rate_true) if each.rate_true else "unlimited",
                formatting.duration(each.latency_true),
            ]
            if truth
            else []
        )
        body.append(f"<tr>{_cells(cells)}</tr>")
    heads = "".join(f"<th>{cell}</th>" for cell in head)
    return f'<div class="card scroll"><h3>{html.escape(title)}</h3><table><thead><tr>{heads}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'


def decisions(logs: Sequence[RunLog]) -> str:
    return f'<div class="decisions">{"".join(_decisions_of(log, len(logs)) for log in logs)}</div>'


def _decisions_of(log: RunLog, runs: int) -> str:
    title = (
        f"<h3>{html.escape(formatting.short(formatting.plain(log.header.name), 80))}</h3>"
        if runs > 1
        else ""
    )
    if not log.decisions:
        return (
            f'<div class="card">{title}<p class="empty">There is no decision in this log.</p></div>'
        )
    pairs = list(zip(log.decisions, log.moves(), strict=True))
    moved = [pair for pair in pairs if pair[1] != "kept"]
    kept = [pair for pair in pairs if pair[1] == "kept"]
    more = (
        f"<details><summary>{formatting.count(len(kept), 'evaluation')} that kept the "
        f"plan</summary>{_decision_table(kept)}</details>"
        if kept
        else ""
    )
    return f'<div class="card scroll">{title}{_decision_table(moved)}{more}</div>'


def _decision_table(decisions: Sequence[tuple[Decision, str]]) -> str:
    left_out = (
        f"<p>The first {MOST_ROWS} of {len(decisions):,}; the log has the rest.</p>"
        if len(decisions) > MOST_ROWS
        else ""
    )
    head = '<tr><th class="number">step</th><th class="number">time</th><th></th><th>what and why</th><th class="number">step, predicted</th><th class="number">efficiency</th></tr>'
    return f"<table><thead>{head}</thead><tbody>{''.join(_decision(each, move) for each, move in decisions[:MOST_ROWS])}</tbody></table>{left_out}"


def _decision(decision: Decision, move: str) -> str:
    style = " changed" if move == "changed" else ""
    chosen = decision.chosen
    return (
        f'<tr><td class="number">{decision.step:,}</td><td class="number">{formatting.duration(decision.t)}</td><td><span class="tag{style}">{move}</span></td>'
        f'<td class="reason">{html.escape(formatting.plain(decision.short))}{_in_full(decision)}</td>'
        f'<td class="number">{formatting.duration(chosen.step) if chosen else "-"}</td><td class="number">{formatting.number(chosen.efficiency) if chosen else "-"}</td></tr>'
    )


def _in_full(decision: Decision) -> str:
    """The whole plans, the reason and the front, folded."""
    rows = [("plan", decision.plan)]
    if decision.before and decision.before != decision.plan:
        rows.append(("instead of", decision.before))
    plans = "".join(
        f"<p><span class='tag'>{name}</span> <code>{html.escape(formatting.plain(plan))}</code></p>"
        for name, plan in rows
    )
    front = _front(decision) if decision.front or decision.inputs else ""
    reason = f"<p>{html.escape(formatting.plain(decision.reason))}</p>"
    return f"<details><summary>in full</summary>{plans}{reason}{front}</details>"


def _front(decision: Decision) -> str:
    """What it beat."""
    counted = f" of {formatting.count(decision.candidates, 'plan')}" if decision.candidates else ""
    head = '<tr><th>plan</th><th class="number">step</th><th class="number">exchange</th><th class="number">efficiency</th><th class="number">bytes</th></tr>'
    inputs = (
        f"<p><code>{html.escape(formatting.plain(decision.inputs))}</code></p>"
        if decision.inputs
        else ""
    )
    table = (
        f"<table><thead>{head}</thead><tbody>{''.join(_candidate(each, decision.plan) for each in decision.front)}</tbody></table>"
        if decision.front
        else ""
    )
    count = f"<p>The best {len(decision.front)}{counted}, by step time:</p>" if table else ""
    return f"{inputs}{count}{table}"


def _candidate(each: Candidate, taken: str) -> str:
    mark = " <span class='tag changed'>taken</span>" if each.plan == taken else ""
    figures = (
        formatting.duration(each.step),
        formatting.duration(each.exchange),
        formatting.number(each.efficiency),
        formatting.size(each.bytes),
    )
    return (
        f"<tr><td>{html.escape(plan_text.label(each.plan))}{mark}</td>"
        + "".join(f'<td class="number">{figure}</td>' for figure in figures)
        + "</tr>"
    )


def runs(logs: Sequence[RunLog]) -> str:
    return f'<div class="grid">{"".join(_run(log) for log in logs)}</div>'


def _run(log: RunLog) -> str:
    header, end = log.header, log.end
    facts = {
        "file": str(log.path),
        "started": _moment(header.started),
        "ended": "the log has no end: the run goes on, or was killed"
        if end is None
        else f"{end.status} after {formatting.duration(end.t)}"
        + (f": {end.error}" if end.error else ""),
        "rank, ranks, lanes": f"{header.rank}, {header.world}, {header.lanes}",
        "parameters": f"{header.parameters:,} in {formatting.count(len(header.buckets), 'bucket')}",
        "layout": header.layout,
        "optimizer": header.optimizer or "not known",
        "versions": ", ".join(f"{name} {version}" for name, version in header.versions.items()),
        "options": ", ".join(f"{name}={value}" for name, value in header.options.items()) or "none",
        "command": _command(header),
    }
    body = "".join(
        f'<tr><th scope="row">{name}</th><td>{html.escape(formatting.plain(value))}</td></tr>'
        for name, value in facts.items()
    )
    return f'<div class="card figures"><h3>{html.escape(formatting.short(formatting.plain(header.name), 80))}</h3><table><tbody>{body}</tbody></table>{_messages(log)}</div>'


def _command(header: Header) -> str:
    return shlex.join(header.command) if header.command else "not known"


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "not known"


def _messages(log: RunLog) -> str:
    if not log.messages:
        return ""
    lines = "".join(
        f'<tr><td class="number">{formatting.duration(each.t)}</td><td>{html.escape(formatting.plain(each.level))}</td><td class="reason">{html.escape(formatting.plain(each.text))}</td></tr>'
        for each in log.messages[:MOST_ROWS]
    )
    return f"<details open><summary>{formatting.count(len(log.messages), 'message')}</summary><div class='scroll'><table><tbody>{lines}</tbody></table></div></details>"
