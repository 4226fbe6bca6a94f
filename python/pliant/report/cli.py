# SPDX-License-Identifier: MIT
"""Command `pliant report`: reads run logs and writes a page, a picture, a trace or tables."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pliant import runlog
from pliant.report import figures as figures_of
from pliant.report import files, headline, markdown, picture, scalars, svg, trace, verdict
from pliant.report import truth as truth_log
from pliant.report.figures import Comparison, Figures
from pliant.report.truth import Truth
from pliant.runlog import RunLog
from pliant.tools import formatting
from pliant.tools.arguments import BadInput, Parser
from pliant.tools.exit_codes import BAD_INPUT, FINE, SOMETHING_MISSING

NAME = "pliant report"


def parser() -> Parser:
    out = Parser(
        prog=NAME,
        allow_abbrev=False,
        description="Turns run logs into a page that works offline, and into other forms. Several logs are compared with the first.",
        epilog="Examples:\n"
        "  pliant report run.jsonl -o report.html\n"
        "  pliant report plain.jsonl pliant.jsonl --truth truth.jsonl -o report.html --svg "
        "chart.svg\n"
        "  pliant report run-*.jsonl --trace trace.json      (open it in Perfetto)\n\n"
        "Exit codes: 0 fine; 2 bad input; 6 something needed is missing here.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument(
        "logs", nargs="+", metavar="run.jsonl", help="run logs (docs/formats/run-log.md)"
    )
    out.add_argument("-o", "--output", metavar="FILE", help="the page, HTML")
    out.add_argument(
        "--truth",
        metavar="FILE",
        help="the lab's truth log, laid behind the plans and beside the estimates",
    )
    out.add_argument("--md", action="store_true", help="print the summary as Markdown")
    out.add_argument("--json", action="store_true", help="print all figures of the summary as JSON")
    out.add_argument(
        "--trace",
        metavar="FILE",
        help="spans for Perfetto or chrome://tracing: a rank is a process, a lane a thread",
    )
    out.add_argument(
        "--tensorboard", metavar="DIR", help="TensorBoard event files, a folder for each run"
    )
    out.add_argument(
        "--svg", metavar="FILE", help="the chart on top of the page, for light and dark pages"
    )
    out.add_argument("--png", metavar="FILE", help="the same chart, as PNG")
    return out


def main(arguments: Sequence[str]) -> int:
    try:
        options = parser().parse(arguments)
        _check(options)
        return _report(options)
    except (BadInput, runlog.RunLogError, truth_log.TruthError, FileExistsError) as error:
        return _complain(str(error), BAD_INPUT)
    except (scalars.NoTensorBoard, picture.NoMatplotlib) as error:
        return _complain(str(error), SOMETHING_MISSING)
    except ModuleNotFoundError as error:
        return _complain(
            f"the Python package {error.name} is not here: pip install {error.name}",
            SOMETHING_MISSING,
        )


def _complain(text: str, code: int) -> int:
    print(f"{NAME}: {formatting.plain(text)}", file=sys.stderr)
    return code


def _check(options: argparse.Namespace) -> None:
    """Everything that can be known to fail before the work begins."""
    if options.md and options.json:
        raise BadInput("--md and --json both print to standard output; choose one")
    inputs = [Path(name) for name in options.logs] + (
        [Path(options.truth)] if options.truth else []
    )
    _different(inputs, "is given twice")
    outputs = [
        Path(name)
        for name in (options.output, options.trace, options.svg, options.png)
        if name is not None
    ]
    for path in outputs:
        if str(path) in ("", ".") or path.is_dir():
            raise BadInput(f"{path}: a folder, not a file to write to")
        if not path.parent.is_dir():
            raise BadInput(f"{path}: there is no folder {path.parent}")
        if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
            raise BadInput(f"{path}: may not be written")
    _different([*inputs, *outputs], "would be written over, or written twice")


def _different(paths: Sequence[Path], what: str) -> None:
    seen: set[str] = set()
    for path in paths:
        real = os.path.realpath(path)
        if real in seen:
            raise BadInput(f"{path} {what}")
        seen.add(real)


def _report(options: argparse.Namespace) -> int:
    logs = [runlog.read(name) for name in options.logs]
    truth = truth_log.read(options.truth) if options.truth else None
    if options.png:
        picture.check()
    if options.tensorboard is not None:
        scalars.check(logs, Path(options.tensorboard))
    figures = [figures_of.of(log, truth) for log in logs]
    comparison = figures_of.compare(logs, figures)
    try:
        _write(options, logs, figures, comparison, truth)
    except OSError as error:
        raise BadInput(f"{error.filename or 'writing'}: {error.strerror or error}") from None
    print(_printed(options, figures, comparison))
    return FINE


def _write(
    options: argparse.Namespace,
    logs: list[RunLog],
    figures: list[Figures],
    comparison: Comparison,
    truth: Truth | None,
) -> None:
    if options.output:
        from pliant.report.page import page  # plotly takes its time to load

        files.write_text(Path(options.output), page(logs, figures, comparison, truth))
    if options.trace:
        files.write_text(Path(options.trace), json.dumps(trace.events(logs)))
    chart = headline.of(logs, figures, comparison, truth)
    if options.svg:
        files.write_text(Path(options.svg), svg.text(chart))
    if options.png:
        picture.write(Path(options.png), chart)
    if options.tensorboard is not None:
        scalars.write(logs, Path(options.tensorboard))
    for written in (
        options.output,
        options.trace,
        options.svg,
        options.png,
        options.tensorboard,
    ):
        if written:
            print(f"{NAME}: wrote {formatting.plain(written)}", file=sys.stderr)


def _printed(options: argparse.Namespace, figures: list[Figures], comparison: Comparison) -> str:
    if options.json:
        return json.dumps(
            {
                "pliant_report": 1,
                "runs": [asdict(each) for each in figures],
                "comparison": asdict(comparison),
            },
            indent=2,
        )
    if options.md:
        return markdown.summary(figures, comparison).rstrip("\n")
    sentences = verdict.of_comparison(comparison, figures)
    return "\n".join(
        sentences
        + [
            f"{each.name}: {verdict.of_run(each, compared=True)}"
            if len(figures) > 1
            else verdict.of_run(each)
            for each in figures
        ]
    )
