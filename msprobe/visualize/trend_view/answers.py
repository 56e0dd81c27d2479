"""What the page asks: the axes, a heat map over two of step, rank and layer, a line along one of them, the alerts.

A heat map is sent as a line of JSON and the cells behind it, float32 in the order of rows; NaN and what is absent have
the bits of ``trend/further_tables.py``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from msprobe.trend.extremes import Cells, extremes, reduced
from msprobe.trend.further_tables import COARSE
from msprobe.visualize.trend_view.parting import Parting
from msprobe.visualize.trend_view.runs import Axis, Range, Runs, Side
from msprobe.visualize.trend_view.store import Ints, Target

Json = dict[str, Any]
LAYOUTS: Final[dict[str, tuple[Axis, Axis, Axis]]] = {
    "step-layer": ("step", "layer", "rank"),
    "step-rank": ("step", "rank", "layer"),
    "rank-layer": ("rank", "layer", "step"),
}
"""What lies along x and y, and the third."""
SIDES: Final = ("target", "golden", "difference")
MOST_POINTS: Final = 4000
_PLANE: Final[dict[Axis, int]] = {"rank": 0, "step": 1, "layer": 2}


@dataclass(frozen=True, slots=True)
class Picture:
    """One heat map that is asked for.

    Attributes:
        side: whose values.
        metric, statistic: which values.
        layout: a key of ``LAYOUTS``.
        third: the position on the third axis.
        x, y: begin and end of what is shown, as positions; y counts the layers that fit ``query``.
        size: the largest numbers of columns and rows.
        query: words that names of layers hold.
    """

    side: Side
    metric: str
    statistic: str
    layout: str
    third: int
    x: tuple[int, int]
    y: tuple[int, int]
    size: tuple[int, int]
    query: str = ""


def index(runs: Runs) -> Json:
    """Return the names of files, the axes, and the metrics with their statistics and layers."""
    return {
        "kind": "trend",
        "files": [store.path.name for store in runs.stores],
        "compared": runs.compared,
        "steps": [int(step) for step in runs.steps],
        "ranks": runs.ranks,
        "metrics": [
            {"name": name, "statistics": statistics, "layers": [label(one) for one in runs.layers(name)]}
            for name, statistics in runs.metrics.items()
        ],
        "alerts": alerts(runs),
    }


def label(target: Target) -> str:
    """Return the name of a layer for people."""
    name, stage, micro = target
    return f"{name or '(model)'}{f' [{micro}]' if micro else ''}{f' (stage {stage})' if stage else ''}"


def alerts(runs: Runs) -> list[list[Any]]:
    """Return metric, positions of step, rank and layer, statistic and reason of each alert of the target."""
    store = runs.stores[0]
    steps = {int(step): place for place, step in enumerate(runs.steps)}
    ranks = {rank: place for place, rank in enumerate(runs.ranks)}
    layers = {name: {one: place for place, one in enumerate(runs.layers(name))} for name in runs.metrics}
    names = {
        (metric.name, number): name
        for metric in store.metrics.values()
        for number, name in zip(metric.ids, metric.names, strict=True)
    }
    result = []
    for metric, rank, step, number, statistic, reason in store.alerts:
        name = names.get((metric, number))
        if name is not None and step in steps and rank in ranks:
            result.append([metric, steps[step], ranks[rank], layers[metric][name], statistic, reason])
    return result


def picture(runs: Runs, wanted: Picture) -> bytes:
    """Return a heat map: JSON with the positions of rows and columns, a line feed, and the cells."""
    x, y, third = LAYOUTS[wanted.layout]
    chosen = fitting([label(one) for one in runs.layers(wanted.metric)], wanted.query)
    length: dict[Axis, Ints] = {"step": np.arange(len(runs.steps)), "rank": np.arange(len(runs.ranks)), "layer": chosen}
    columns, rows = length[x][slice(*wanted.x)], length[y][slice(*wanted.y)]
    whole: Ints = np.arange(len(runs.layers(wanted.metric))) if third == "layer" else length[third]
    axes: dict[Axis, Ints] = {x: columns, y: rows, third: whole[wanted.third : wanted.third + 1]}
    each = [-(-len(columns) // wanted.size[0]) or 1, -(-len(rows) // wanted.size[1]) or 1]
    cells = _coarse(runs, wanted, axes) if x == "step" and each[0] > COARSE // 2 else None
    along = each[0]
    if cells is not None:
        along = -(-each[0] // COARSE)
        each[0] = along * COARSE
    else:
        part = Range(axes["step"], axes["rank"], axes["layer"])
        cells = runs.cells(wanted.side, wanted.metric, wanted.statistic, part)
    plane = extremes(_plane(cells, x, y, third, len(axes[third])), along)  # along x, which lies first
    plane = np.ascontiguousarray(extremes(np.ascontiguousarray(plane.T), each[1]))
    head = {
        "rows": plane.shape[0],
        "columns": plane.shape[1],
        "each": each,
        "total": [len(length[x]), len(length[y])],
        "layers": [int(one) for one in (axes["layer"] if third != "layer" else [])],
    }
    return _encoded(head, plane)


def _coarse(runs: Runs, wanted: Picture, axes: Mapping[Axis, Ints]) -> Cells | None:
    """Return the cells with one row for each ``COARSE`` steps; None where the files do not have them."""
    names, steps = (wanted.metric, wanted.statistic), axes["step"]
    ends = int(steps[0]), int(steps[-1]) + 1
    planes = [runs.coarse_cells(wanted.side, names, int(rank), ends, axes["layer"]) for rank in axes["rank"]]
    found = [plane for plane in planes if plane is not None]
    return np.stack(found) if found and len(found) == len(planes) else None


def _plane(cells: Cells, x: Axis, y: Axis, third: Axis, found: int) -> Cells:
    """Return the cells as a table with x along its first axis."""
    order = (_PLANE[x], _PLANE[y], _PLANE[third])
    moved = np.transpose(cells, order)
    return np.ascontiguousarray(moved[:, :, 0] if found else moved.reshape(*moved.shape[:2]))


def line(runs: Runs, names: tuple[str, str], along: Axis, place: Mapping[str, int], ends: tuple[int, int]) -> bytes:
    """Return the values along one axis through a place, one row for each run and one for their difference."""
    metric, statistic = names
    length: dict[Axis, int] = {
        "step": len(runs.steps),
        "rank": len(runs.ranks),
        "layer": len(runs.layers(metric)),
    }
    positions: dict[Axis, Ints] = {
        axis: np.arange(count)[place[axis] : place[axis] + 1] for axis, count in length.items()
    }
    positions[along] = np.arange(length[along])[slice(*ends)]
    part = Range(positions["step"], positions["rank"], positions["layer"])
    rows = [reduced(cells.reshape(-1), MOST_POINTS) for cells in runs.sides(metric, statistic, part)]
    each = -(-len(positions[along]) // max(len(rows[0]), 1)) if len(rows[0]) else 1
    return _encoded({"rows": len(rows), "columns": len(rows[0]), "each": each, "begin": ends[0]}, np.stack(rows))


def _encoded(head: Json, cells: Cells) -> bytes:
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 1) % 4)  # float32 of the browser begin at multiples of four
    return text + b"\n" + cells.astype("<f4", copy=False).tobytes()


def fitting(labels: Sequence[str], query: str) -> Ints:
    """Return the positions of the names that hold all words of a query."""
    words = query.lower().split()
    found = [place for place, name in enumerate(labels) if all(word in name.lower() for word in words)]
    return np.array(found, np.int64)


def parting_answer(runs: Runs, parting: Parting | None) -> Json:
    """Return what the page says about where two runs part."""
    if not runs.compared:
        return {"state": "alone"}
    if parting is None:
        return {"state": "searching"}
    first = parting.first
    if first is None:
        state = "same" if parting.compared else "nothing"
        return {"state": state, "compared": parting.compared, "alone": parting.alone}
    return {
        "state": "parted",
        "compared": parting.compared,
        "alone": parting.alone,
        "metric": first.metric,
        "statistic": first.statistic,
        "step": first.step,
        "rank": first.rank,
        "layer": first.layer,
        "target": _shown(first.target),
        "golden": _shown(first.golden),
        "times": _shown(first.times),
        "words": words(runs, parting),
    }


def _shown(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def words(runs: Runs, parting: Parting) -> str:
    """Return where two runs part, as a sentence."""
    first = parting.first
    if first is None:
        return f"{parting.compared} values agree" if parting.compared else "the runs have no values in common"
    name = label(runs.layers(first.metric)[first.layer])
    times = f"{first.times:.3g} times the tolerance" if math.isfinite(first.times) else "not finite on one side only"
    return (
        f"first part at step {int(runs.steps[first.step])}, rank {runs.ranks[first.rank]}: {first.metric} {name}, "
        f"{first.statistic} {first.target:.6g} against {first.golden:.6g} ({times})"
    )
