# SPDX-License-Identifier: MIT
"""Headline chart of a report: how soon each run got there, what the network did in each run, and
which plans the run chose and when. All parts share one axis of time.

`of` lays the chart out as shapes in pixels; `svg.py` and `picture.py` draw them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pliant.report import verdict
from pliant.report.chart import finite, running_mean, running_median, thinned, window_of
from pliant.report.figures import Comparison, Figures, falls
from pliant.report.network_charts import true_points
from pliant.report.training_charts import noted_names
from pliant.report.truth import Truth
from pliant.runlog import RunLog, plan_text
from pliant.tools import formatting

WIDTH = 760
LEFT, RIGHT = 62, 16  # of the plots
TOP = 70  # under title and legend
CURVES = 210  # height of the curves
BAND = 44  # height of one run's network
STRIP = 20  # height of the plans
GAP = 30  # above a band or a strip, for its caption
MOST_RUNS = 4
MOST_PLANS = 8  # in the key; more are counted
KEY_LINE = 17
CHARACTER = 0.55  # width of a character, in sizes of the font: an estimate

ALL_DENSE = plan_text.words("gradients dense")

Point = tuple[float, float]


@dataclass(frozen=True)
class Text:
    at: Point
    text: str
    role: str = "ink"
    size: float = 13
    anchor: str = "start"
    bold: bool = False


@dataclass(frozen=True)
class Line:
    points: list[Point]
    role: str
    width: float = 1
    dash: str = ""


@dataclass(frozen=True)
class Area:
    points: list[Point]
    role: str
    opacity: float = 1.0
    tip: str = ""  # shown where the pointer rests


@dataclass(frozen=True)
class Dot:
    at: Point
    role: str


Shape = Text | Line | Area | Dot


@dataclass
class Headline:
    width: float
    height: float
    title: str  # the first of the texts, for people who cannot see the picture
    shapes: list[Shape] = field(default_factory=list)


@dataclass(frozen=True)
class Segment:
    """Steps in a row under plans that send alike."""

    label: str  # plan_text.words
    begin: float
    end: float


def of(
    logs: Sequence[RunLog],
    figures: Sequence[Figures],
    comparison: Comparison,
    truth: Truth | None,
    titles: Sequence[str] | None = None,
) -> Headline:
    """titles: names of the runs for people; those in the logs unless given."""
    names = [formatting.short(formatting.plain(log.header.name), 28) for log in logs]
    return _Layout(logs, figures, comparison, truth, list(titles or names)).headline()


def segments(log: RunLog) -> list[Segment]:
    """The plans over time. A trial of one exchange is left out: the plan before it comes back."""
    trials = {line.step for line in log.decisions if line.trial}
    out: list[Segment] = []
    for step in log.steps:
        label = plan_text.words(step.plan)
        if out and (step.step in trials or out[-1].label == label):
            out[-1] = Segment(out[-1].label, out[-1].begin, step.t)
        else:
            begin = out[-1].end if out else 0.0
            out.append(Segment(label, begin, step.t))
    if out:
        out[-1] = Segment(out[-1].label, out[-1].begin, log.seconds)
    return out


def _share(label: str) -> float:
    """How dark a plan is drawn: 1 where all is sent in every step, 0 where a thousandth is, on a
    logarithmic scale."""
    top, every = re.search(r"top ([0-9.]+) %", label), re.search(r"every ([0-9]+) steps", label)
    share = (float(top[1]) / 100 if top else 1.0) / (int(every[1]) if every else 1)
    return min(1.0, max(0.0, 1 + math.log10(share) / 3)) if share > 0 else 0.0


class _Layout:
    def __init__(
        self,
        logs: Sequence[RunLog],
        figures: Sequence[Figures],
        comparison: Comparison,
        truth: Truth | None,
        names: list[str],
    ) -> None:
        self.logs = list(logs)[:MOST_RUNS]
        self.figures, self.comparison, self.truth, self.names = figures, comparison, truth, names
        self.seconds = max((log.seconds for log in self.logs), default=0.0) or 1.0
        self.value = comparison.value or next(iter(noted_names(self.logs)), None)
        self.shapes: list[Shape] = []
        self.y = float(TOP)

    def headline(self) -> Headline:
        title, below = self._words()
        self._text(LEFT - 46, 24, title, size=17, bold=True)
        self._text(LEFT - 46, 44, below, role="quiet")
        self._curves()
        for index, log in enumerate(self.logs):
            self._network(index, log)
        for index, log in enumerate(self.logs):
            self._plans(index, log)
        self._time_axis()
        return Headline(WIDTH, self.y + 44, title, self.shapes)

    # --- words ---

    def _words(self) -> tuple[str, str]:
        first = self.figures[0]
        size = f"{formatting.count(first.world, 'rank')}, {first.parameters:,} parameters"
        best = self._best()
        if best is not None and self.comparison.target is not None:
            factor = self.comparison.sooner[best] or 1.0
            goal = f"{self.comparison.value} {formatting.number(self.comparison.target)}"
            times = [formatting.duration(goal.seconds) for goal in self.comparison.goals]
            return (
                f"{self.names[best]} reached {goal} {verdict.ratio(factor, 'sooner', 'later')}",
                f"{times[best]} instead of {times[0]} with {self.names[0]}; {size}, "
                f"{formatting.count(self.figures[best].steps, 'step')}",
            )
        if not first.steps:
            return "No step was logged", size
        per_step = f"{formatting.duration(first.step_time)} per step"
        return (
            verdict.against_dense(first) if first.speed_up else per_step,
            f"{size}, {formatting.count(first.steps, 'step')} in "
            f"{formatting.duration(first.seconds)}",
        )

    def _best(self) -> int | None:
        """The run that was compared with the first and got there soonest."""
        known = [
            (factor, index)
            for index, factor in enumerate(self.comparison.sooner)
            if index and index < len(self.logs) and factor is not None
        ]
        return max(known)[1] if known else None

    # --- curves ---

    def _curves(self) -> None:
        curves = [self._curve(log) for log in self.logs]
        values = [y for curve in curves for _, y in curve]
        if not values and self.value is not None:  # all NaN
            self.value = None
            return self._curves()
        top, bottom = self.y + 12, self.y + CURVES
        if not values:
            self._text(LEFT, top + 20, "This log has neither losses nor step times.", role="quiet")
            self.y += 40
            return
        scale = _scale(values, self.comparison.target if self.value else None, top, bottom)
        what = self.value or "step time"
        for mark in scale.marks:
            y = scale.y(mark)
            self.shapes.append(Line([(LEFT, y), (WIDTH - RIGHT, y)], "grid"))
            text = formatting.number(mark) if self.value else formatting.duration(mark)
            self._text(LEFT - 7, y + 4.5, text, role="quiet", size=12, anchor="end")
        logarithmic = " (logarithmic)" if scale.logarithmic else ""
        self._text(
            LEFT,
            self.y + 2,
            f"{formatting.short(formatting.plain(what))}{logarithmic}",
            role="quiet",
            size=12,
        )
        for index, curve in enumerate(curves):
            points = scale.inside([(self._x(t), y) for t, y in curve])
            self.shapes.append(Line(points, f"run{index}", 2.6))
        self._legend(top)
        self._goal(scale)
        self.y = bottom

    def _curve(self, log: RunLog) -> list[Point]:
        if self.value is not None:
            pairs = [
                (note.t, note.values[self.value]) for note in log.notes if self.value in note.values
            ]
            calmed = running_mean
        else:
            steps = thinned([step for step in log.steps if step.whole])
            pairs = [(step.t, step.whole or 0.0) for step in steps]
            calmed = running_median
        values = finite([y for _, y in pairs])
        if len(values) > 20:
            values = calmed(values, window_of(len(values)))
        return [(t, y) for (t, _), y in zip(pairs, values, strict=True) if y is not None]

    def _legend(self, top: float) -> None:
        """Falling curves leave the upper right corner free, rising ones the lower right."""
        rising = self.value is not None and falls(self.value) is False
        y = self.y + CURVES - 20.0 * len(self.logs) - 30 if rising else top + 12
        longest = max(len(name) for name in self.names[: len(self.logs)])
        x = WIDTH - RIGHT - 8 - longest * 15 * CHARACTER - 34
        for index in range(len(self.logs)):
            self.shapes.append(Line([(x, y - 4), (x + 22, y - 4)], f"run{index}", 2.6))
            self._text(x + 30, y, self.names[index], role=f"run{index}", size=14, bold=True)
            y += 20

    def _goal(self, scale: _Scale) -> None:
        """From the moment the best run reached the common loss to the moment the first did."""
        best, target = self._best(), self.comparison.target
        if best is None or target is None:
            return
        ours, theirs = (self.comparison.goals[index].seconds for index in (best, 0))
        if ours is None or theirs is None:
            return
        y = scale.y(target)
        a, b = self._x(ours), self._x(theirs)
        self.shapes.append(Line([(a, y), (b, y)], "ink", 1.2, "4 3"))
        self.shapes += [Dot((a, y), f"run{best}"), Dot((b, y), "run0")]
        if abs(b - a) > 130:
            factor = verdict.ratio(theirs / ours, "sooner", "later")
            self._text((a + b) / 2, y + 20, factor, size=16, anchor="middle", bold=True)
        self._text(a, y + 19, formatting.duration(ours), role=f"run{best}", anchor="middle")
        self._text(b, y + 19, formatting.duration(theirs), role="run0", anchor="middle")

    # --- the network ---

    def _rates_of(self, log: RunLog) -> tuple[list[float], list[float | None], str]:
        """Moments, the rate from each on, and what to call it: the truth, else the estimate, which
        is infinite where the link is too fast to tell."""
        x, rates = true_points(log, self.truth, lambda state: state.rate)
        if any(rates):
            return x, rates, "network"
        steps = thinned([step for step in log.steps if step.link])
        x = [step.t for step in steps] + [log.seconds]
        estimates = [step.link.known_rate or math.inf for step in steps if step.link]
        calm = running_median(estimates, window_of(len(steps)))
        return x, [*calm, calm[-1]] if calm else [], "network (estimated)"

    def _all_rates(self) -> list[float | None]:
        return [rate for log in self.logs for rate in self._rates_of(log)[1]]

    def _network(self, index: int, log: RunLog) -> None:
        x, rates, known = self._rates_of(log)
        if not any(rates):
            return
        self.y += GAP
        caption = f"{known} during {self.names[index]}" if len(self.logs) > 1 else known
        self._text(LEFT, self.y - 8, caption, size=12, role=f"run{index}")
        bottom = self.y + BAND
        height = _rate_scale([rate for rate in self._all_rates() if rate and rate < math.inf])
        points: list[Point] = []
        for i, rate in enumerate(rates):
            y = bottom - BAND * (height(rate) if rate else 0.0)
            if points:
                points.append((self._x(x[i]), points[-1][1]))
            points.append((self._x(x[i]), y))
        area = [(points[0][0], bottom), *points, (points[-1][0], bottom)]
        self.shapes += [Area(area, f"run{index}", 0.22), Line(points, f"run{index}", 1.4)]
        self._rates(x, rates, bottom)
        self.y = bottom

    def _rates(self, x: Sequence[float], rates: Sequence[float | None], bottom: float) -> None:
        """The rate, where it stays long enough to be read; without its unit where that is all that
        fits, and the unit is the same everywhere."""
        known = [rate for rate in rates if rate and rate < math.inf]
        one_unit = len({formatting.rate(rate).partition(" ")[2] for rate in known}) == 1
        begin = 0
        for i in range(1, len(rates) + 1):
            if i < len(rates) - 1 and _alike(rates[i], rates[begin]):
                continue
            end = min(i, len(rates) - 1)
            left, right = self._x(x[begin]), self._x(x[end])
            rate = rates[begin]
            text = _rate_text(rate)
            shorter = text.partition(" ")[0] if one_unit and rate in known else text
            for each in dict.fromkeys((text, shorter)):
                if len(each) * 12 * CHARACTER + 4 < right - left:
                    self._text((left + right) / 2, bottom - 6, each, size=12, anchor="middle")
                    break
            begin = i

    # --- the plans ---

    def _plans(self, index: int, log: RunLog) -> None:
        found = segments(log)
        if not found or (len(self.logs) > 1 and {each.label for each in found} == {ALL_DENSE}):
            return
        self.y += GAP
        self._text(LEFT, self.y - 8, f"what {self.names[index]} sent", size=12, role=f"run{index}")
        numbers: dict[str, int] = {}
        for each in found:
            number = numbers.setdefault(each.label, len(numbers) + 1)
            left, right = self._x(each.begin), self._x(each.end)
            box = [(left, self.y), (right, self.y), (right, self.y + STRIP), (left, self.y + STRIP)]
            tip = f"from {formatting.duration(each.begin)}: {each.label}"
            self.shapes.append(Area(box, f"run{index}", 0.15 + 0.6 * _share(each.label), tip))
            self.shapes.append(Line([(left, self.y), (left, self.y + STRIP)], "card", 1))
            if right - left > 6 + 8 * len(str(number)):
                middle = (left + right) / 2
                self._text(middle, self.y + 14.5, str(number), size=12, anchor="middle", bold=True)
        self._key(found, numbers)

    def _key(self, found: Sequence[Segment], numbers: dict[str, int]) -> None:
        """What the numbers mean, from the strip's right end where there is room, else below it."""
        lines = [f"{number}  {label}" for label, number in list(numbers.items())[:MOST_PLANS]]
        if len(numbers) > MOST_PLANS:
            lines.append(f"and {len(numbers) - MOST_PLANS} more")
        wide = max(map(len, lines)) * 12 * CHARACTER
        x = self._x(found[-1].end) + 14
        beside = x + wide < WIDTH - RIGHT
        y = self.y + 14.5 if beside else self.y + STRIP + 18
        for line in lines:
            self._text(x if beside else LEFT, y, line, size=12)
            y += KEY_LINE
        self.y = max(self.y + STRIP, y - KEY_LINE + 4)

    # --- the axis of time ---

    def _time_axis(self) -> None:
        bottom = self.y + 10
        self.shapes.insert(0, Line([(LEFT, bottom), (WIDTH - RIGHT, bottom)], "quiet"))
        step = _nice(self.seconds / 8)
        for i in range(int(self.seconds / step) + 1):
            x = self._x(i * step)
            self.shapes.insert(0, Line([(x, TOP + 12), (x, bottom)], "grid"))
            text = formatting.duration(i * step) if i else "0"
            self._text(x, bottom + 17, text, role="quiet", size=12, anchor="middle")

    def _x(self, t: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(t, self.seconds) / self.seconds

    def _text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        role: str = "ink",
        size: float = 13,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        self.shapes.append(Text((x, y), text, role, size, anchor, bold))


@dataclass(frozen=True)
class _Scale:
    y: Callable[[float], float]
    marks: list[float]
    logarithmic: bool
    highest: float

    def inside(self, points: Sequence[Point]) -> list[Point]:
        """In pixels, from where the curve comes down to the highest value that is shown."""
        out: list[Point] = []
        for i, (x, value) in enumerate(points):
            if value > self.highest:
                if not out and i + 1 < len(points) and points[i + 1][1] <= self.highest:
                    (x1, next_value) = points[i + 1]
                    share = (value - self.highest) / (value - next_value)
                    out.append((x + share * (x1 - x), self.y(self.highest)))
                continue
            out.append((x, self.y(value)))
        return out


# Above so many times the loss that counts, a curve tells nothing: all runs fall alike there.
WORTH_SEEING = 2.5


def _scale(values: Sequence[float], target: float | None, top: float, bottom: float) -> _Scale:
    """Logarithmic where the largest value is more than twice the smallest. The first drop, far above
    the loss that counts, is cut off."""
    low, high = min(values), max(values)
    if target is not None and 0 < target * WORTH_SEEING < high and low > 0:
        high = target * WORTH_SEEING
    if low > 0 and high / low > 2:
        low, high = low / 1.22, high * 1.02
        marks = [
            digit * 10.0**decade
            for decade in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            for digit in _digits(high / low)
        ]
        span = math.log(high / low)
        return _Scale(
            lambda value: bottom - (bottom - top) * math.log(max(value, low) / low) / span,
            [mark for mark in marks if low <= mark <= high],
            True,
            high,
        )
    spare = 0.08 * (high - low) or 0.5 * abs(high) or 1.0
    low, high = low - 2 * spare, high + spare
    step = _nice((high - low) / 6)
    marks = [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return _Scale(
        lambda value: bottom - (bottom - top) * (value - low) / (high - low),
        marks,
        False,
        high,
    )


def _digits(ratio: float) -> tuple[float, ...]:
    """Marks in a decade of a logarithmic axis."""
    if ratio < 6:
        return (1, 1.5, 2, 3, 4, 5, 6, 8)
    return (1, 2, 3, 5, 7) if ratio < 20 else (1, 3) if ratio < 1e3 else (1,)


def _rate_scale(rates: Sequence[float]) -> Callable[[float], float]:
    """Heights from 0.48 to 0.95 of a band, logarithmic: a network ten times slower must still be
    there."""
    low, high = min(rates, default=1.0), max(rates, default=1.0)
    if high / low < 1.05:
        return lambda rate: 0.65 if rate < math.inf else 0.95
    return lambda rate: 0.48 + 0.47 * math.log(min(rate, high) / low) / math.log(high / low)


def _rate_text(rate: float | None) -> str:
    if not rate:
        return "down"
    return formatting.rate(rate) if rate < math.inf else "too fast to tell"


def _alike(a: float | None, b: float | None) -> bool:
    return a == b or bool(a and b and max(a, b) < math.inf and abs(math.log(a / b)) < 0.2)


def _nice(value: float) -> float:
    """1, 2 or 5 times a power of ten, not below the value."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= value * 0.999)
