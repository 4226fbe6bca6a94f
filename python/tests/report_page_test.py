# SPDX-License-Identifier: MIT
"""The page in a real browser: it draws what the log says, asks nothing of any network, and runs
nothing that came in a name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plotly.graph_objects
import pytest
from pliant.report import chart, cli
from support import browser, synthetic_logs
from support.synthetic_logs import Made

if browser.CHROMIUM is None:
    pytest.skip("chromium is not here", allow_module_level=True)

EVIL = "<script>window.hurt=1</script><img src=x onerror='window.hurt=2'></script><!--<script> \" ' & %{y} </title></style>"
DATA = "JSON.stringify([...document.querySelectorAll('.plot')].map(d => [d.id.slice(6), d.data.map(t => ({name: t.name, x: [...t.x], y: [...t.y]}))]))"


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    with browser.Browser(deadline=900) as shown:
        yield shown


def page(folder: Path, *logs: Made, truth: bool = True) -> Path:
    paths = [str(log.write(folder / f"{index}.jsonl")) for index, log in enumerate(logs)]
    options = (
        ["--truth", str(synthetic_logs.truth_of(logs[0]).write(folder / "truth.jsonl"))]
        if truth
        else []
    )
    assert cli.main([*paths, *options, "-o", str(folder / "page.html")]) == 0
    return folder / "page.html"


def drawn(shown: browser.Browser) -> dict[str, list[dict[str, Any]]]:
    return dict(json.loads(shown.evaluate(DATA)))


def has(traces: list[dict[str, Any]], x: list[Any], y: list[Any]) -> bool:
    return any(trace["x"] == x and trace["y"] == y for trace in traces)


def test_every_chart_shows_the_log(chromium: browser.Browser, tmp_path: Path) -> None:
    runs = [synthetic_logs.made("one"), synthetic_logs.made("two", seed=2)]
    chromium.open(page(tmp_path, *runs))
    assert chromium.complaints == []
    charts = drawn(chromium)
    checked = set()

    def check(id: str, x: list[Any], y: list[Any]) -> None:
        assert has(charts[id], x, y), (
            f"{id} has no trace of {len(x)} points of the log, only "
            f"{[(trace['name'], len(trace['x'])) for trace in charts[id]]}"
        )
        checked.add(id)

    for index, run in enumerate(runs):
        steps, notes = run.of("step"), run.of("note")
        timed, sends = (
            [step for step in steps if step["whole"] is not None],
            [step for step in steps if step["bytes"]],
        )
        linked, predicted = (
            [step for step in steps if step["link"]],
            [step for step in steps if step["predicted"]],
        )
        t = [step["t"] for step in steps]
        for number, name in enumerate(("loss", "accuracy")):
            check(
                f"noted-{number}-time",
                [note["t"] for note in notes],
                [note["values"][name] for note in notes],
            )
            check(
                f"noted-{number}-steps",
                [note["step"] for note in notes],
                [note["values"][name] for note in notes],
            )
        check("step-time", [step["t"] for step in timed], [step["whole"] for step in timed])
        check(
            "step-time",
            [step["t"] for step in timed],
            [step["whole"] if step["plan"] == synthetic_logs.DENSE else None for step in timed],
        )
        for part in ("compute", "exposed"):
            check(f"parts-{index}", [step["t"] for step in timed], [step[part] for step in timed])
        check(
            f"parts-{index}",
            [step["t"] for step in timed],
            [step["coding"] if step["plan"] == synthetic_logs.UPDATES else 0 for step in timed],
        )
        check(
            f"parts-{index}",
            [step["t"] for step in timed],
            [None if step["plan"] == synthetic_logs.UPDATES else step["coding"] for step in timed],
        )
        for plan, density in (
            (synthetic_logs.DENSE, 100),
            (synthetic_logs.STAR, 1),
            (synthetic_logs.UPDATES, 0.3),
        ):
            check(f"plan-{index}", t, [density if step["plan"] == plan else None for step in steps])
        check(
            f"latency-{index}",
            [step["t"] for step in linked],
            [step["link"]["latency"] for step in linked],
        )
        check(
            f"latency-{index}",
            [step["t"] for step in linked],
            [step["link"]["latency"] + step["link"]["latency_sd"] for step in linked],
        )
        check(
            f"rate-{index}",
            [step["t"] for step in linked],
            [step["link"]["rate"] for step in linked],
        )
        for plan in (synthetic_logs.DENSE, synthetic_logs.STAR, synthetic_logs.UPDATES):
            mine = [step for step in predicted if step["plan"] == plan]
            check(
                f"prediction-{index}",
                [step["predicted"] for step in mine],
                [step["seen"] for step in mine],
            )
        check(
            f"prediction-over-time-{index}",
            [step["t"] for step in predicted],
            [step["seen"] for step in predicted],
        )
        check("bytes", [step["t"] for step in sends], [step["bytes"] for step in sends])
        check(
            "bytes-so-far",
            t,
            [sum(step["bytes"] for step in steps[: n + 1]) for n in range(len(steps))],
        )
        check("gain", t, [step["gain"] for step in steps])
        check("residual", t, [step["residual_ratio"] for step in steps])
    assert checked == set(charts)
    # The truth: the phases' links from the log's begin to its end.
    changes, end = (
        [0, *(phase["t"] for phase in runs[0].of("phase")[1:])],
        runs[0].of("end")[0]["t"],
    )
    for id, at in (("latency-0", 1), ("rate-0", 2), ("plan-0", 2)):
        values = [phase[at] for phase in synthetic_logs.PHASES.values()]
        (true,) = [trace for trace in charts[id] if trace["name"] in ("true", "true rate")]
        assert true["x"] == pytest.approx([*changes, end]) and true["y"] == [*values, values[-1]]
    assert (
        chromium.evaluate("document.querySelector('.verdict').innerText").count(
            "ms per step; 33 % of steps used"
        )
        == 2
    )


def test_plotly_takes_every_figure(chromium: browser.Browser, tmp_path: Path) -> None:
    """Its Python half checks names and values of attributes that its JavaScript half passes
    over."""
    chromium.open(page(tmp_path, synthetic_logs.made()))
    figures = json.loads(chromium.evaluate("document.getElementById('charts').textContent"))
    assert len(figures) == len(drawn(chromium))
    for figure in figures:
        plotly.graph_objects.Figure(figure["data"], figure["layout"])


def test_it_asks_nothing_of_any_network(chromium: browser.Browser, tmp_path: Path) -> None:
    path = page(tmp_path, synthetic_logs.made())
    chromium.open(path)
    assert [
        address for address in chromium.requests if not address.startswith(("data:", "blob:"))
    ] == [path.as_uri()]
    assert "default-src 'none'" in chromium.evaluate(
        "document.querySelector('meta[http-equiv]').content"
    )


def test_names_do_nothing(chromium: browser.Browser, tmp_path: Path) -> None:
    evil = synthetic_logs.made(
        EVIL,
        reason=EVIL,
        options={EVIL: EVIL},
        command=[EVIL],
        versions={EVIL: EVIL},
        optimizer=EVIL,
        layout=EVIL,
    )
    for line in evil.lines:
        if line["type"] == "note":
            line["values"] = {"loss": line["values"]["loss"], EVIL: 1.0}
        if line["type"] == "phase":
            line["name"] = EVIL
        if line["type"] in ("step", "decision") and line["step"] > 250:
            line["plan"] = f"gradients {EVIL}"
        if line["type"] == "decision":
            line |= {"inputs": EVIL, "from": EVIL}
            line["front"][0]["plan"] = EVIL
    evil.lines += [{"type": "message", "t": 9.0, "level": EVIL, "text": EVIL}]
    evil.of("end")[0].update(status="failed", error=EVIL)
    (tmp_path / "<b onclick=1>").mkdir()
    path = page(tmp_path / "<b onclick=1>", evil, synthetic_logs.made(EVIL), truth=False)
    chromium.open(path)
    assert chromium.evaluate("window.hurt") is None
    assert chromium.complaints == []
    assert (
        chromium.evaluate("document.querySelectorAll('script').length") == 3
    )  # the data, plotly, ours
    assert (
        chromium.evaluate("document.querySelectorAll('main img, [onerror], [onclick]').length") == 0
    )
    assert (
        chromium.evaluate("document.querySelector('.verdict').innerText").count(
            "<script>window.hurt=1</script>"
        )
        >= 2
    )
    assert "<script>" in chromium.evaluate(
        "document.querySelector('#chart-noted-0-time .legendtext').textContent"
    )


@pytest.mark.slow
def test_names_would_do_nothing_even_without_the_policy(
    chromium: browser.Browser, tmp_path: Path
) -> None:
    """The page's policy stops scripts; escaping must be enough by itself."""
    path = page(tmp_path, synthetic_logs.made(EVIL, reason=EVIL), synthetic_logs.made(EVIL, seed=2))
    text = path.read_text()
    bare = text.replace('<meta http-equiv="Content-Security-Policy"', '<meta name="was-policy"')
    assert bare != text
    path.write_text(bare)
    chromium.open(path)
    assert chromium.evaluate("window.hurt") is None and chromium.complaints == []
    path.write_text(
        bare.replace("<main>", "<main><script>window.hurt = 3</script>")
    )  # this test can fail
    chromium.open(path)
    assert chromium.evaluate("window.hurt") == 3


@pytest.mark.parametrize("width", [1280, 400])
def test_it_fits(width: int, chromium: browser.Browser, tmp_path: Path) -> None:
    long = synthetic_logs.made(
        "a-name-without-any-place-to-break-" * 8, options={"x" * 300: "y" * 300}, reason="z" * 300
    )
    for runs in (
        [synthetic_logs.made()],
        [long, synthetic_logs.made("two"), synthetic_logs.made("three")],
    ):
        chromium.open(page(tmp_path, *runs), width)
        assert chromium.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert chromium.evaluate("window.innerWidth") == width
        beyond = "[...document.querySelectorAll('.plot')].filter(d => d.querySelector('svg').getBoundingClientRect().right > d.parentElement.getBoundingClientRect().right + 1).length"
        assert chromium.evaluate(beyond) == 0
        sizes = json.loads(
            chromium.evaluate(
                "JSON.stringify([...document.querySelectorAll('.plot .nsewdrag')].map(d => "
                "[d.getBoundingClientRect().width, d.getBoundingClientRect().height]))"
            )
        )
        assert sizes and all(w > 0.45 * min(width, 560) and h > 60 for w, h in sizes), sizes
    assert chromium.picture(tmp_path / "page.png").stat().st_size > 50_000


def test_charts_without_data_say_so(chromium: browser.Browser, tmp_path: Path) -> None:
    chromium.open(page(tmp_path, Made([synthetic_logs.header("bare")]), truth=False))
    assert chromium.complaints == []
    assert drawn(chromium) == {}
    said = chromium.evaluate(
        "[...document.querySelectorAll('.empty')].map(e => e.innerText).join('|')"
    )
    assert (
        said.count("|") == 13
        and "averager.note(loss=...)" in said
        and "no decision" in said
        and "no estimate of the link" in said
    )


@pytest.mark.slow
def test_a_long_run_is_thinned_to_points_of_the_log(
    chromium: browser.Browser, tmp_path: Path
) -> None:
    run = synthetic_logs.made(steps=12_000)
    chromium.open(page(tmp_path, run))
    points = {(step["t"], step["whole"]) for step in run.of("step")}
    shown = [
        point
        for trace in drawn(chromium)["step-time"][:1]
        for point in zip(trace["x"], trace["y"], strict=True)
    ]
    assert chart.MOST_STEPS / 2 < len(shown) <= chart.MOST_STEPS + 2 and set(shown) <= points
    slowest = max(
        (step for step in run.of("step") if step["whole"]), key=lambda step: float(step["whole"])
    )
    assert (slowest["t"], slowest["whole"]) in shown


def test_decisions_are_told(chromium: browser.Browser, tmp_path: Path) -> None:
    run = synthetic_logs.made()
    chromium.open(page(tmp_path, run))
    told = chromium.evaluate("document.querySelector('#decisions').textContent")
    for decision in run.of("decision"):
        assert all(decision[key] in told for key in ("short", "plan", "reason"))
    assert "1 evaluation that kept the plan" in told and "The best 3 of 1,234 plans" in told
    # Whole plans and long reasons are a click away.
    seen = chromium.evaluate("document.querySelector('#decisions').innerText")
    assert run.of("decision")[0]["short"] in seen
    assert all(decision["plan"] not in seen for decision in run.of("decision"))
