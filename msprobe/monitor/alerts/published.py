"""The alert rules of the published monitor, as documented.

``AnomalyTurbulence``: |x| > (1 + threshold) * history, the history being an exponential mean of |x| (beta 0.99) that
begins with the first value; for norm and mean. ``AnomalyNan``: x is NaN, or |x| > threshold. The first rule that holds
for a value is the one that is told. A value that is not finite does not enter the history; the published monitor lets
it in, and then says nothing about this tensor any more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msprobe.monitor.alerts.alert import Alert, place_of
from msprobe.monitor.rows import Row

BETA: Final = 0.99
TURBULENCE: Final = "AnomalyTurbulence"
NAN: Final = "AnomalyNan"
_SMOOTH: Final = ("norm", "mean")
_NUMBERS: Final = ("min", "max", "mean", "norm")


class PublishedPolicy:
    """Implements ``AlertPolicy`` by the published rules.

    Args:
        rules: names and arguments of the rules, in their order.
    """

    def __init__(self, rules: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        self._rules = [(name, arguments.get("threshold")) for name, arguments in rules]
        self._history: dict[tuple[str, int, str, str], float] = {}

    def observe(self, step: int, rows: Sequence[Row]) -> Iterator[Alert]:
        """Yield the alerts of a step."""
        for row in rows:
            for statistic, value in zip(row.statistics, row.values, strict=True):
                if statistic in _NUMBERS and isinstance(value, (int, float)):
                    yield from self._judge(row, statistic, float(value))

    def _judge(self, row: Row, statistic: str, value: float) -> Iterator[Alert]:
        key = row.source.name, row.stage, row.label, statistic
        history = self._history.get(key)
        for name, threshold in self._rules:
            if self._breaks(name, threshold, statistic, (value, history)):
                shown = f"history mean {history}" if history is not None else "no history"
                reason = f"{place_of(row)}: {statistic} is {value}, {shown}"
                yield Alert(name, row, statistic, value, history, reason)
                break
        if math.isfinite(value):
            size = abs(value)
            self._history[key] = size if history is None else BETA * history + (1 - BETA) * size

    def _breaks(self, rule: str, threshold: Any, statistic: str, values: tuple[float, float | None]) -> bool:
        value, history = values
        if rule == NAN:
            return math.isnan(value) or (threshold is not None and abs(value) > threshold)
        if history is None or statistic not in _SMOOTH or threshold is None:
            return False
        return abs(value) > (1 + float(threshold)) * history
