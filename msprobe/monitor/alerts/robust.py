"""Alerts that can be believed: a value far above what a window of steps before it had, and every NaN and infinity.

A value is a spike when three things hold:

- it is ``factor`` times the largest value of the window, and more the fewer steps the window has;
- its logarithm lies ``DEVIATIONS`` deviations above the median of the window. The deviation is 1.4826 times the median
  absolute deviation (MAD), as a normal distribution has it (F. Hampel, "The influence curve and its role in robust
  estimation", 1974), and at least ``LEAST_DEVIATION``;
- it is no rounding noise: not below ``NOISE`` of what the tensors of its source have in the middle.

Neither a spike nor a value that is not finite enters the window, so that one of them hides no other. A value that stays
high is the new level after ``COOL_DOWN`` steps, in which its series is silent.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from msprobe.monitor.alerts.alert import Alert, place_of
from msprobe.monitor.rows import Row

WINDOW: Final = 32
WARM_UP: Final = 3
COOL_DOWN: Final = 10
FACTORS: Final = ((16, 10.0), (8, 20.0), (5, 50.0), (WARM_UP, 100.0))
"""How far above the largest of the window a spike is, by the number of steps in the window."""
DEVIATIONS: Final = 8.0
LEAST_DEVIATION: Final = 0.1
NOISE: Final = 1e-6
COUNTS_FROM: Final = 0.1
"""The share of the largest magnitude of a tensor from which on an end of its range is a level."""
_LEVELS: Final = ("norm", "max", "min")
"""Statistics whose magnitude is a level; a mean is near zero by chance."""
_NAMES_OF_COUNTS: Final = {"nans": "NaN", "infs": "infinite"}
_COUNTS: Final = tuple(_NAMES_OF_COUNTS)


@dataclass(slots=True)
class Series:
    """What one statistic of one tensor had in the steps before."""

    window: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    silent_until: int = -1


class Levels:
    """Tells the spikes among values that are observed step by step. Whoever keeps steps in memory uses it too.

    Attributes:
        noise: the share of what is usual below which a value is rounding noise.
    """

    noise = NOISE

    def __init__(self) -> None:
        self._series: dict[Hashable, Series] = {}

    def observe(self, step: int, key: Hashable, value: float, floor: float) -> str:
        """Return why the value is a spike in its series; "" where it is none, or the series is silent.

        Args:
            step: the number of the step.
            key: names the series.
            value: a finite magnitude.
            floor: up to which a value is rounding noise.
        """
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = Series()
        if step < series.silent_until:
            return ""
        if series.silent_until >= 0:  # the cool-down is over: what it has now is the new level
            series.silent_until = -1
            series.window.clear()
        if value > floor and (reason := _spike(value, series.window)):
            series.silent_until = step + COOL_DOWN
            return reason
        if value > 0:
            series.window.append(value)
        return ""

    def usual(self, key: Hashable) -> float:
        """Return the median of the steps before."""
        return median(self._series[key].window)


class RobustPolicy:
    """Implements ``AlertPolicy`` by median and MAD of a window."""

    def __init__(self) -> None:
        self._levels = Levels()
        self._odd: dict[Hashable, int] = {}

    def observe(self, step: int, rows: Sequence[Row]) -> Iterator[Alert]:
        """Yield what is not finite, then the spikes of the others."""
        usual = _usual_levels(rows)
        for row in rows:
            yield from self._not_finite(step, row)
            for statistic, level in _levels_of(row):
                floor = NOISE * usual.get((row.source.name, statistic), 0.0)
                yield from self._level(step, row, statistic, (level, floor))

    def _not_finite(self, step: int, row: Row) -> Iterator[Alert]:
        """Yield one alert for a tensor with NaN or infinity, then none while it stays so within the cool-down."""
        found = [(name, value) for name, value in zip(row.statistics, row.values, strict=True) if _is_odd(name, value)]
        key = row.source.name, row.stage, row.label, row.micro_step, "finite"
        if not found:
            self._odd.pop(key, None)
            return
        if step < self._odd.get(key, step):
            return
        self._odd[key] = step + COOL_DOWN
        statistic, value = found[0]
        text = (
            f"{value} of its elements are {_NAMES_OF_COUNTS[statistic]}"
            if statistic in _COUNTS
            else f"its {statistic} is {value}"
        )
        yield Alert("not finite", row, statistic, value, None, f"{place_of(row)}: {text}")

    def _level(self, step: int, row: Row, statistic: str, level: tuple[float, float]) -> Iterator[Alert]:
        key = row.source.name, row.stage, row.label, row.micro_step, statistic
        if reason := self._levels.observe(step, key, *level):
            usual, value = self._levels.usual(key), row.value(statistic)
            size = "" if value == level[0] else f" ({value:.4g}), by its size,"
            yield Alert("spike", row, statistic, value, usual, f"{place_of(row)}: {statistic}{size} {reason}")


def _spike(value: float, window: Sequence[float]) -> str:
    """Return why a value is a spike after those of a window; "" where it is none."""
    factor = next((factor for steps, factor in FACTORS if len(window) >= steps), math.inf)
    largest = max(window, default=math.inf)
    if value < factor * largest:
        return ""
    logarithms = [math.log(one) for one in window]
    middle = median(logarithms)
    deviation = max(1.4826 * median(abs(one - middle) for one in logarithms), LEAST_DEVIATION)
    if math.log(value) - middle < DEVIATIONS * deviation:
        return ""
    times = value / largest
    return f"is {value:.4g}, {times:.0f} times the largest of the {len(window)} steps before ({largest:.4g})"


def _usual_levels(rows: Sequence[Row]) -> dict[tuple[str, str], float]:
    """Return the median magnitude of each statistic over the tensors of each source."""
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        for statistic, level in _levels_of(row):
            values.setdefault((row.source.name, statistic), []).append(level)
    return {key: median(found) for key, found in values.items()}


def _levels_of(row: Row) -> Iterator[tuple[str, float]]:
    """Yield the statistics of a row that are levels, with their magnitudes.

    Of the ends of the range only those count that are about the largest magnitude: the smallest of positive numbers, as
    the second moments of Adam, is what one element has by chance.
    """
    found = {one: row.value(one) for one in _LEVELS}
    finite = {one: float(value) for one, value in found.items() if _is_finite(value)}
    least = COUNTS_FROM * max((abs(finite[one]) for one in ("max", "min") if one in finite), default=0.0)
    for statistic, value in finite.items():
        side = {"max": value, "min": -value}.get(statistic)
        if side is None or (side >= 0 and side >= least):
            yield statistic, abs(value)


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _is_odd(statistic: str, value: Any) -> bool:
    if statistic in _COUNTS:
        return bool(value)
    return isinstance(value, float) and not math.isfinite(value)
