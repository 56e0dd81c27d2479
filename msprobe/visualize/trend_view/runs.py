"""One run, or a target and a golden run, on common axes: steps, ranks and layers that are named alike are the same.

Where a picture has fewer points than the run, a point shows the value with the largest magnitude of those that it
stands for, and NaN or infinity before all others: a spike is seen at every size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np

from msprobe.core.tensors.statistics import STATISTICS
from msprobe.numerics.statistic_cells import times_tolerance
from msprobe.trend.extremes import ABSENT_BITS, Cells, absent_cells, extremes, is_absent
from msprobe.trend.further_tables import COARSE, TILE_STEPS
from msprobe.visualize.trend_view.kept_differences import MOST_BYTES, KeptDifferences
from msprobe.visualize.trend_view.store import Ints, Target, TrendStore, natural

Side = Literal["target", "golden", "difference"]
Axis = Literal["step", "rank", "layer"]
JUDGED: Final = frozenset({"min", "max", "mean", "norm"})
"""Statistics in the unit of the data, whose differences have a tolerance."""
_FEW_LAYERS: Final = 4
"""For as many layers differences are computed where they are asked for, not for the whole rank."""
COUNTED: Final = frozenset({"nans", "infs"})
"""Statistics that are equal or not."""
assert {spec.name.lower() for spec in STATISTICS} == JUDGED


@dataclass(frozen=True, slots=True)
class Range:
    """A part of the axes: positions of steps, ranks and layers."""

    steps: Ints
    ranks: Ints
    layers: Ints


class Runs:
    """The target and, where there is one, the golden run.

    Args:
        target: the run.
        golden: the run that it is compared with.
    """

    def __init__(self, target: TrendStore, golden: TrendStore | None = None) -> None:
        self.stores = [target] if golden is None else [target, golden]
        self._indexes: dict[str, list[Ints]] = {}
        self._names: dict[str, list[Target]] = {}

    @property
    def compared(self) -> bool:
        """Return whether there is a golden run."""
        return len(self.stores) > 1

    @cached_property
    def steps(self) -> Ints:
        """Return the steps of both runs, ascending."""
        return np.asarray(np.unique(np.concatenate([store.steps for store in self.stores])), np.int64)

    @cached_property
    def _kept(self) -> KeptDifferences:
        return KeptDifferences(len(self.steps))

    @cached_property
    def ranks(self) -> list[int]:
        """Return the ranks of both runs, ascending."""
        return sorted({rank for store in self.stores for rank in store.ranks})

    @cached_property
    def metrics(self) -> dict[str, tuple[str, ...]]:
        """Return the metrics of both runs with their statistics."""
        result: dict[str, tuple[str, ...]] = {}
        for store in self.stores:
            for name, metric in store.metrics.items():
                result[name] = tuple(dict.fromkeys((*result.get(name, ()), *metric.statistics)))
        return result

    def layers(self, metric: str) -> list[Target]:
        """Return the targets of a metric in the order of their names, numbers by value."""
        if metric not in self._names:
            found = {name for store in self.stores if metric in store.metrics for name in store.metrics[metric].names}
            names = sorted(found, key=natural)
            self._indexes[metric] = [self._index(store, metric, names) for store in self.stores]
            self._names[metric] = names
        return self._names[metric]

    @staticmethod
    def _index(store: TrendStore, metric: str, names: Sequence[Target]) -> Ints:
        own = {name: place for place, name in enumerate(store.metrics[metric].names)} if metric in store.metrics else {}
        return np.array([own.get(name, -1) for name in names], np.int64)

    @cached_property
    def _step_indexes(self) -> list[Ints]:
        result = []
        for store in self.stores:
            place = np.searchsorted(store.steps, self.steps)
            place = np.minimum(place, max(len(store.steps) - 1, 0))
            same = store.steps[place] == self.steps if len(store.steps) else np.zeros(len(self.steps), bool)
            result.append(np.where(same, place, -1))
        return result

    def cells(self, side: Side, metric: str, statistic: str, part: Range) -> Cells:
        """Return the cells of a part: one plane per rank, one row per step, one column per layer."""
        if side == "difference":
            return self.differences(metric, statistic, part)
        number = 0 if side == "target" else 1
        if number >= len(self.stores):
            return absent_cells(len(part.ranks), len(part.steps), len(part.layers))
        self.layers(metric)
        store, steps = self.stores[number], self._step_indexes[number][part.steps]
        if metric not in store.metrics:
            return absent_cells(len(part.ranks), len(part.steps), len(part.layers))
        layers = self._indexes[metric][number][part.layers]
        planes = [store.cells(store.metrics[metric], statistic, self.ranks[rank], steps, layers) for rank in part.ranks]
        return np.stack(planes) if planes else absent_cells(0, len(steps), len(layers))

    def coarse_cells(
        self, side: Side, names: tuple[str, str], rank: int, ends: tuple[int, int], layers: Ints
    ) -> Cells | None:
        """Return the extremes of each ``COARSE`` neighbouring steps, as they lie in the file; None where they do not.

        Args:
            side: whose.
            names: metric and statistic.
            rank: a position.
            ends: positions of the first step and behind the last one.
            layers: positions.
        """
        if side == "difference":
            return self._coarse_differences(names, rank, ends, layers)
        number = 0 if side == "target" else 1
        if number >= len(self.stores) or ends[0] % COARSE:
            return None
        metric, store = names[0], self.stores[number]
        if metric not in store.metrics or not store.in_order or len(store.steps) != len(self.steps):
            return None
        self.layers(metric)
        return store.coarse_cells(
            (store.metrics[metric], names[1], self.ranks[rank]), ends, self._indexes[metric][number][layers]
        )

    def _coarse_differences(
        self, names: tuple[str, str], rank: int, ends: tuple[int, int], layers: Ints
    ) -> Cells | None:
        """Return the extremes of differences; those of a whole rank are computed once and kept."""
        if not self.compared or ends[0] % COARSE:
            return None
        key = (*names, rank)
        if len(layers) <= _FEW_LAYERS and self._kept.plane(key) is None:
            return extremes(self.differences(*names, Range(np.arange(*ends), np.array([rank]), layers))[0], COARSE)
        whole = self.keep_differences(names, rank)
        return whole[ends[0] // COARSE : -(-ends[1] // COARSE)][:, layers]

    def keep_differences(self, names: tuple[str, str], rank: int) -> Cells:
        """Return the extremes of the differences of each ``COARSE`` steps of a rank, for all layers."""
        key, layers = (*names, rank), np.arange(len(self.layers(names[0])))
        if not len(self.steps):
            return absent_cells(0, len(layers))
        while (plane := self._kept.plane(key)) is None:
            for block in self._kept.missing(key):
                begin = int(block) * TILE_STEPS
                steps = np.arange(begin, min(begin + TILE_STEPS, len(self.steps)))
                self._kept.put(key, begin, self.differences(*names, Range(steps, np.array([rank]), layers))[0])
        return plane

    @cached_property
    def keeps_all(self) -> bool:
        """Return whether the differences of all metrics, statistics and ranks fit into memory together."""
        planes = sum(len(names) * len(self.layers(metric)) for metric, names in self.metrics.items())
        return planes * len(self.ranks) * (len(self.steps) // COARSE + 1) * 4 <= MOST_BYTES

    def note_differences(self, names: tuple[str, str], begin: int, cells: Cells) -> None:
        """Keep differences that were computed for another reason.

        Args:
            names: metric and statistic.
            begin: the position of the first step, which begins a block of ``TILE_STEPS``.
            cells: of all ranks, then of these steps, then of all layers.
        """
        for rank, plane in enumerate(cells):
            self._kept.put((*names, rank), begin, plane)

    def differences(self, metric: str, statistic: str, part: Range) -> Cells:
        """Return the differences in units of the tolerance; absent where a side has no value."""
        return self.sides(metric, statistic, part)[-1]

    def sides(self, metric: str, statistic: str, part: Range) -> list[Cells]:
        """Return the cells of the target and, where there are two runs, those of the golden run and the differences."""
        target = self.cells("target", metric, statistic, part)
        if not self.compared:
            return [target]
        golden = self.cells("golden", metric, statistic, part)
        if statistic in JUDGED:
            resolution = max(store.resolution for store in self.stores)
            scale = golden if statistic == "norm" else self._scale(metric, part)
            times = times_tolerance(target, golden, scale, 2.0 * resolution)
        elif statistic in COUNTED:
            times = np.where(target == golden, 0.0, np.inf).astype(np.float32)
        else:
            times = absent_cells(*target.shape)
        missing = is_absent(target) | is_absent(golden)
        times.view(np.uint32)[missing] = ABSENT_BITS
        return [target, golden, times]

    def _scale(self, metric: str, part: Range) -> Cells:
        """Return the size of the elements of each tensor of the golden run, where its statistics say so."""
        have = [name for name in ("max", "min") if name in self.metrics[metric]]
        if len(have) < 2:
            return absent_cells(len(part.ranks), len(part.steps), len(part.layers))
        high, low = (np.abs(self.cells("golden", metric, name, part)) for name in have)
        return np.fmax(high, low)
