# SPDX-License-Identifier: MIT
"""Page of a report: one HTML file that loads nothing from any network.

All text from a log is escaped. A policy in the page allows its own two scripts, by their hashes,
and no other."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources

from plotly.offline import get_plotlyjs

from pliant.report import (
    exchange_charts,
    headline,
    network_charts,
    svg,
    tables,
    training_charts,
    verdict,
)
from pliant.report.chart import Chart, Section, look
from pliant.report.figures import Comparison, Figures
from pliant.report.truth import Truth
from pliant.runlog import RunLog
from pliant.tools import formatting


def page(
    logs: Sequence[RunLog],
    figures: Sequence[Figures],
    comparison: Comparison,
    truth: Truth | None,
    titles: Sequence[str] | None = None,
) -> str:
    """titles: names of the runs in the chart on top; those in the logs unless given."""
    chart = headline.of(logs, figures, comparison, truth, titles)
    sections = [
        training_charts.noted(logs),
        training_charts.step_times(logs),
        network_charts.plans(logs, truth),
        network_charts.links(logs, truth),
        exchange_charts.predictions(logs),
        exchange_charts.traffic(logs),
        exchange_charts.compression(logs),
    ]
    body = [
        _top(figures, truth),
        _verdict(figures, comparison),
        f'<figure class="headline-chart">{svg.text(chart, dark=False)}</figure>',
        _contents(["Figures"] + [section.title for section in sections] + ["Decisions", "Runs"]),
        _anchored(
            "Figures",
            "Means over the steps; pauses of the job itself (evaluation, checkpoints) are not "
            "counted as steps.",
            tables.figures(figures),
        ),
        *(_section(section) for section in sections),
        _anchored(
            "Decisions",
            "Every change of plan in short; fold a row out for the whole plans, the reason and what "
            "it beat.",
            tables.decisions(logs),
        ),
        _anchored("Runs", "What was run, and what it said.", tables.runs(logs)),
        "<footer>Drag in a chart to enlarge a part of it, double-click to go back; click a name to "
        "hide its curve.</footer>",
    ]
    return _document(
        " and ".join(formatting.short(each.name) for each in figures),
        "\n".join(body),
        _data(sections),
    )


def embedded(value: object) -> str:
    """JSON that cannot end the script it lies in."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _data(sections: Sequence[Section]) -> str:
    drawn = [chart for section in sections for chart in section.charts if chart.has_points]
    return embedded(
        [
            {
                "id": f"chart-{chart.id}",
                "data": chart.traces,
                "layout": chart.layout | {"height": chart.height},
            }
            for chart in drawn
        ]
    )


@cache
def _file(name: str) -> str:
    return resources.files("pliant.report").joinpath(name).read_text("utf-8")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _document(title: str, body: str, data: str) -> str:
    plotly, ours = get_plotlyjs(), _file("page.js")
    policy = f"default-src 'none'; script-src {_hash(plotly)} {_hash(ours)}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)} - pliant report</title>
<link rel="icon" href="data:,">
<style>{_file("page.css")}</style>
</head>
<body>
<main>
{body}
</main>
<script type="application/json" id="charts">{data}</script>
<script>{plotly}</script>
<script>{ours}</script>
</body>
</html>
"""


def _top(figures: Sequence[Figures], truth: Truth | None) -> str:
    files = ", ".join(each.file for each in figures) + (f"; truth {truth.path}" if truth else "")
    return f'<header class="top"><strong>Pliant report</strong><span>{html.escape(formatting.plain(files))}</span></header>'


def _verdict(figures: Sequence[Figures], comparison: Comparison) -> str:
    paragraphs = [
        f"<p>{html.escape(sentence)}</p>" for sentence in verdict.of_comparison(comparison, figures)
    ]
    for index, each in enumerate(figures):
        swatch = (
            f'<span class="swatch" style="background:{look(index)[0]}"></span>'
            if len(figures) > 1
            else ""
        )
        facts = f"{formatting.count(each.steps, 'step')}, {formatting.count(each.world, 'rank')}, {formatting.duration(each.seconds)}"
        paragraphs.append(
            f'<p><span class="run">{swatch}{html.escape(formatting.short(each.name, 80))}: {facts}</span>{html.escape(verdict.of_run(each, compared=len(figures) > 1))}</p>'
        )
    return f'<div class="verdict">{"".join(paragraphs)}</div>'


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _contents(titles: Sequence[str]) -> str:
    return (
        "<nav>" + "".join(f'<a href="#{_anchor(title)}">{title}</a>' for title in titles) + "</nav>"
    )


def _anchored(title: str, text: str, content: str) -> str:
    return f'<section id="{_anchor(title)}"><h2>{title}</h2><p>{html.escape(text)}</p>{content}</section>'


def _section(section: Section) -> str:
    return _anchored(
        section.title,
        section.text,
        f'<div class="grid">{"".join(_figure(chart) for chart in section.charts)}</div>',
    )


def _figure(chart: Chart) -> str:
    if not chart.has_points:
        return f'<figure><h3>{html.escape(chart.title)}</h3><p class="empty">{html.escape(chart.empty)}</p></figure>'
    style = ' class="wide"' if chart.wide else ""
    plot = f'<div class="plot" id="chart-{chart.id}" style="height:{chart.height}px"></div>'
    return f"<figure{style}><h3>{html.escape(chart.title)}</h3>{plot}<figcaption>{html.escape(chart.caption)}</figcaption></figure>"
