"""``KeptDifferences``: differences of whole ranks, coarse, which whoever computes some of them leaves for the others.

The search for the place where two runs part computes them in any case; pictures take what is there, and compute what
is missing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

import numpy as np

from msprobe.trend.extremes import Cells, absent_cells, extremes
from msprobe.trend.further_tables import COARSE, TILE_STEPS
from msprobe.visualize.trend_view.store import Ints

MOST_BYTES: Final = 256 << 20
Key = tuple[str, str, int]
"""Metric, statistic and position of the rank."""


class KeptDifferences:
    """The extremes of each ``COARSE`` neighbouring steps, one plane of all steps and layers for each key.

    Args:
        steps: how many steps the runs have.
        most_bytes: how much memory the planes may take; those that nobody asked for lately go first.
    """

    def __init__(self, steps: int, most_bytes: int = MOST_BYTES) -> None:
        self._steps = steps
        self._most_bytes = most_bytes
        self._planes: OrderedDict[Key, Cells] = OrderedDict()
        self._missing: dict[Key, set[int]] = {}
        self._lock = threading.Lock()

    def missing(self, key: Key) -> Ints:
        """Return the blocks of ``TILE_STEPS`` steps that nobody has computed, ascending."""
        with self._lock:
            if key in self._planes:
                self._planes.move_to_end(key)
                return np.array(sorted(self._missing[key]), np.int64)
        return np.arange(-(-self._steps // TILE_STEPS))

    def put(self, key: Key, begin: int, differences: Cells) -> None:
        """Keep differences by step and layer, of all layers, from a step on that begins a block."""
        found = extremes(differences, COARSE)
        blocks = range(begin // TILE_STEPS, -(-(begin + len(differences)) // TILE_STEPS))
        with self._lock:
            plane = self._planes.get(key)
            if plane is None:
                plane = self._planes[key] = absent_cells(-(-self._steps // COARSE), differences.shape[1])
                self._missing[key] = set(range(-(-self._steps // TILE_STEPS)))
            first = begin // COARSE
            plane.view(np.uint32)[first : first + len(found)] = found.view(np.uint32)
            self._missing[key].difference_update(blocks)
            while len(self._planes) > 1 and sum(one.nbytes for one in self._planes.values()) > self._most_bytes:
                gone, _ = self._planes.popitem(last=False)
                del self._missing[gone]

    def plane(self, key: Key) -> Cells | None:
        """Return the plane of a key; None where blocks of it are missing."""
        with self._lock:
            if key not in self._planes or self._missing[key]:
                return None
            self._planes.move_to_end(key)
            return self._planes[key]
