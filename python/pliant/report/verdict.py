# SPDX-License-Identifier: MIT
"""Verdict on runs, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from pliant.report.figures import Comparison, Figures
from pliant.tools import formatting

# Closer than this is no difference worth a word.
ALIKE = 0.05
# What steps cost in trials (1 - worth) over what is assumed (docs/model.md).
COST_IN_TRIALS = (0.3, 1.5)
NO_COST = 0.005  # a worth that is nearer to 1 counts as 1
LEAST_IN_RANGE = 0.1  # a worth; below that nobody would train


def of_run(figures: Figures, *, compared: bool = False) -> str:
    """For example: 3.1 to 3.6x less time per step than dense would have taken; 71 % of steps used
    top 1 %; prediction error 6 %. compared: another run stands beside it, so it need not be said
    that little is known of dense."""
    if not figures.steps:
        parts = ["No step was logged"]
    elif plainly_dense(figures):
        parts = [against_dense(figures)]
    else:
        per_step = f"{formatting.duration(figures.step_time)} per step"
        unknown = compared and figures.speed_up is None
        parts = [per_step if unknown else against_dense(figures)]
        top = figures.plans[0]
        parts.append(f"{formatting.percent(top.share)} of steps used {top.plan}")
        parts.append(
            "nothing was predicted"
            if figures.prediction_error is None
            else f"prediction error {formatting.percent(figures.prediction_error)}"
        )
    sentences = ["; ".join(parts) + ".", to_the_same_end(figures), _ending(figures)]
    return " ".join(filter(None, sentences))


def plainly_dense(figures: Figures) -> bool:
    """Nothing to compare with: it is the yardstick."""
    return [each.plan for each in figures.plans] == ["dense"]


def against_dense(figures: Figures) -> str:
    if plainly_dense(figures):
        return f"{formatting.duration(figures.step_time)} per step, all of them dense"
    if figures.speed_up is None:
        return f"{formatting.duration(figures.step_time)} per step; too little is known to say what dense would have taken"
    low, high = figures.speed_up
    if abs((low + high) / 2 - 1) <= ALIKE:
        return "About as much time per step as dense would have taken"
    if low + high > 2:
        return f"{formatting.times_range(low, high)} less time per step than dense would have taken"
    more = formatting.times_range(1 / high, 1 / low)
    return f"{more} more time per step than dense would have taken"


def to_the_same_end(figures: Figures) -> str:
    """For example: Train 1.1 to 1.3x as many steps to end where plain DDP ends; that is 2.9 to 3.4x
    sooner. Empty where nothing is known, or the run was plain DDP."""
    if figures.worth is None or not figures.steps or plainly_dense(figures):
        return ""
    cost = 1 - figures.worth
    most, least = (max(1 - factor * cost, LEAST_IN_RANGE) for factor in COST_IN_TRIALS)
    steps = "as many steps as plain DDP"
    if cost > NO_COST:
        steps = f"{1 / most:.3g} to {1 / least:.3g}x as many steps"
    sentence = f"Train {steps} to end where plain DDP ends"
    if figures.speed_up is None:
        return f"{sentence} (assumed)."
    low, high = figures.speed_up[0] * least, figures.speed_up[1] * most
    if low <= 1 + ALIKE and high >= 1 - ALIKE:
        return f"{sentence} (assumed); that is about as soon."
    sooner = (
        f"{formatting.times_range(low, high)} sooner"
        if low > 1
        else f"{formatting.times_range(1 / high, 1 / low)} later"
    )
    return f"{sentence} (assumed); that is {sooner}."


def _ending(figures: Figures) -> str:
    if figures.status == "failed":
        return f"The run failed: {formatting.short(formatting.plain(figures.error or 'no reason was logged'), 300)}"
    if figures.status == "interrupted":
        return "The run was interrupted."
    return (
        "The log has no end: the run goes on, or was killed."
        if figures.status == "unfinished"
        else ""
    )


def of_comparison(comparison: Comparison, figures: Sequence[Figures]) -> list[str]:
    """A sentence for each run after the first: to the same loss, else per step."""
    first = figures[0]
    sentences = []
    for index in range(1, len(figures)):
        each, sooner, faster = figures[index], comparison.sooner[index], comparison.faster[index]
        if sooner is not None and comparison.value is not None and comparison.target is not None:
            goal = f"{each.name} reached {comparison.value} {formatting.number(comparison.target)} in {formatting.duration(comparison.goals[index].seconds)}"
            sentences.append(
                f"{goal}, {first.name} in {formatting.duration(comparison.goals[0].seconds)}: "
                f"{ratio(sooner, 'sooner', 'later')}."
            )
        elif faster is not None:
            times = f"{each.name} took {formatting.duration(each.step_time)} per step, {first.name} {formatting.duration(first.step_time)}"
            sentences.append(f"{times}: {ratio(faster, 'less', 'more')}.")
    return sentences


def ratio(factor: float, better: str, worse: str) -> str:
    """ "3.4x sooner", "1.2x later", or "alike" where the difference is not worth a word."""
    if abs(factor - 1) <= ALIKE:
        return "alike"
    return (
        f"{formatting.times(factor)} {better}"
        if factor > 1
        else f"{formatting.times(1 / factor)} {worse}"
    )
