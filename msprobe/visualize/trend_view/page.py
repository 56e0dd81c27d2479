"""One offline page with everything in it: the same front end, with the cells of all metrics inside.

A page has at most ``MOST_CELLS`` cells. Where the runs have more, neighbouring steps are one: their extreme is shown,
and the page says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from msprobe.core.store.safe_files import write_atomic
from msprobe.trend.extremes import Cells, reduced
from msprobe.visualize.trend_view.answers import Json, index, parting_answer
from msprobe.visualize.trend_view.parting import find_parting
from msprobe.visualize.trend_view.runs import Range, Runs, Side
from msprobe.visualize.trend_view.store import TrendStore
from msprobe.visualize.viewer.offline_page import TRENDS, offline_page, page_part
from msprobe.visualize.viewer.queries import encode

MOST_CELLS: Final = 12_000_000
_STEPS_AT_ONCE: Final = 4096
ReportLine = Callable[[str], None]


def write_trend_page(
    target: Path, page: Path, golden: Path | None = None, report: ReportLine = lambda line: None
) -> int:
    """Write the page and return its size in bytes; ``report`` gets a line per metric.

    Raises:
        OSError: the page cannot be written.
        ReadError: a file is no trend database. In both cases nothing is left behind.
    """
    runs = Runs(*(TrendStore(path) for path in (target, golden) if path is not None))
    sides: tuple[Side, ...] = ("target", "golden", "difference") if runs.compared else ("target",)
    planes = sum(len(names) * len(runs.layers(metric)) for metric, names in runs.metrics.items())
    cells = planes * len(sides) * max(len(runs.ranks), 1)
    bins = max(1, min(len(runs.steps), MOST_CELLS // max(cells, 1)))
    each = -(-len(runs.steps) // bins) if len(runs.steps) else 1
    before, after = offline_page(" against ".join(store.path.name for store in runs.stores), TRENDS)

    def pieces() -> Iterator[bytes]:
        yield before
        facts: Json = {**index(runs), "each": each}
        yield page_part("index", encode(facts))
        yield page_part("parting", encode(parting_answer(runs, find_parting(runs) if runs.compared else None)))
        for number, (metric, statistics) in enumerate(runs.metrics.items()):
            report(f"{metric}: {len(runs.layers(metric))} layers, {len(statistics)} statistics")
            for place, statistic in enumerate(statistics):
                for side in sides:
                    cube = _cube(runs, side, (metric, statistic), each)
                    yield page_part(f"cells-{side}-{number}-{place}", cube.astype("<f4", copy=False).tobytes())
        yield after

    return write_atomic(page, pieces())


def _cube(runs: Runs, side: Side, names: tuple[str, str], each: int) -> Cells:
    """Return cells by rank, group of steps and layer."""
    layers, together = np.arange(len(runs.layers(names[0]))), max(each, _STEPS_AT_ONCE // each * each)
    planes = []
    for rank in range(len(runs.ranks)):
        groups = []
        for begin in range(0, len(runs.steps), together):
            steps = np.arange(begin, min(begin + together, len(runs.steps)))
            cells = runs.cells(side, *names, Range(steps, np.array([rank]), layers))[0]
            groups.append(reduced(cells, -(-len(steps) // each)))
        planes.append(np.concatenate(groups) if groups else np.zeros((0, len(layers)), np.float32))
    return np.stack(planes) if planes else np.zeros((0, 0, len(layers)), np.float32)
