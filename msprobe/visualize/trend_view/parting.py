"""Where two runs part: the first step, and in it the first tensor in the order of a training step, that differs beyond
rounding. What one run has alone is told apart: it is never the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from msprobe.trend.extremes import Cells, is_absent
from msprobe.trend.further_tables import TILE_STEPS
from msprobe.visualize.trend_view.runs import COUNTED, JUDGED, Range, Runs

ORDER: Final = (
    "forward",
    "actv",
    "recompute",
    "backward",
    "actv_grad",
    "parameters_grad",
    "grad_unreduced",
    "grad_reduced",
    "param_origin",
    "exp_avg",
    "exp_avg_sq",
    "update",
    "ratio",
    "param_updated",
)
"""Metrics in the order in which a step of a training has them; others follow."""
_MOST: Final = 200
_STATISTICS: Final = ("norm", "max", "min", "mean", "nans", "infs")
Cancelled = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Difference:
    """One cell that differs: its place on the axes of the runs, both values, and how many times its tolerance."""

    metric: str
    statistic: str
    step: int
    rank: int
    layer: int
    target: float
    golden: float
    times: float


@dataclass(frozen=True, slots=True)
class Parting:
    """What a comparison of two runs found.

    Attributes:
        first: the first difference; None where there is none.
        compared: how many cells both runs have, up to the step of the first difference.
        alone: how many cells only one of them has.
    """

    first: Difference | None
    compared: int
    alone: int


def find_parting(runs: Runs, cancelled: Cancelled = lambda: False) -> Parting:
    """Return where the target parts from the golden run; ``cancelled`` ends the search early."""
    metrics = sorted(runs.metrics, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    compared = alone = 0
    for begin in range(0, len(runs.steps), TILE_STEPS):
        steps = np.arange(begin, min(begin + TILE_STEPS, len(runs.steps)))
        found: list[Difference] = []
        for metric in metrics:
            if cancelled():
                return Parting(None, compared, alone)
            for statistic, times, missing in _judged(runs, metric, steps):
                compared += int((~missing).sum())
                alone += int(_alone(runs, metric, statistic, steps, missing))
                found += _first(runs, (metric, statistic), steps, times)
        if found:
            order = {name: place for place, name in enumerate(metrics)}
            first = min(found, key=lambda one: (one.step, order[one.metric], _layer_order(runs, one), one.rank))
            return Parting(first, compared, alone)
    return Parting(None, compared, alone)


def _judged(runs: Runs, metric: str, steps: NDArray[Any]) -> Iterator[tuple[str, Cells, NDArray[Any]]]:
    part = _all(runs, metric, steps)
    for statistic in _STATISTICS:
        if statistic in runs.metrics[metric] and statistic in JUDGED | COUNTED:
            times = runs.differences(metric, statistic, part)
            if runs.keeps_all:
                runs.note_differences((metric, statistic), int(steps[0]), times)
            yield statistic, times, is_absent(times)


def _all(runs: Runs, metric: str, steps: NDArray[Any]) -> Range:
    return Range(steps, np.arange(len(runs.ranks)), np.arange(len(runs.layers(metric))))


def _alone(runs: Runs, metric: str, statistic: str, steps: NDArray[Any], missing: NDArray[Any]) -> int:
    if not missing.any():
        return 0
    part = _all(runs, metric, steps)
    sides = [is_absent(runs.cells(side, metric, statistic, part)) for side in ("target", "golden")]
    return int((sides[0] != sides[1]).sum())


def _first(runs: Runs, names: tuple[str, str], steps: NDArray[Any], times: Cells) -> list[Difference]:
    """Return the cells of the first step with a difference, one per layer and rank."""
    with np.errstate(invalid="ignore"):
        wrong = times > 1.0
    in_step = wrong.any(axis=(0, 2))
    if not in_step.any():
        return []
    step = int(np.argmax(in_step))
    result = []
    for rank, layer in zip(*np.nonzero(wrong[:, step, :]), strict=True):
        cell = Range(steps[step : step + 1], np.array([rank]), np.array([layer]))
        values = [float(runs.cells(side, *names, cell)[0, 0, 0]) for side in ("target", "golden")]
        place = int(steps[step]), int(rank), int(layer)
        result.append(Difference(*names, *place, values[0], values[1], float(times[rank, step, layer])))
        if len(result) >= _MOST:
            break
    return result


def _layer_order(runs: Runs, one: Difference) -> int:
    """Return the place of a layer in the order in which the golden run measured it."""
    metric = runs.stores[-1].metrics.get(one.metric)
    name = runs.layers(one.metric)[one.layer]
    return metric.names.index(name) if metric is not None and name in metric.names else one.layer
