"""What the rounds of a loop make of one kind: together it may be what another program makes at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from msprobe.core.tensors.statistics import NORM
from msprobe.trace.leaves import as_float, element_count
from msprobe.trace.likeness import Raw

LONGEST_ROUND = 32
"""How many values of one kind a round may have, of which one is taken."""


class Round(NamedTuple):
    """The values that a loop makes in one place, and which of them are taken: one in each round."""

    raws: Sequence[Raw]
    taken: slice

    @property
    def parts(self) -> list[Raw]:
        """The values that are taken."""
        return list(self.raws[self.taken])

    @property
    def place(self) -> tuple[int, int, int]:
        """In which rounds they are taken, of how many values."""
        return len(self.raws), self.taken.start, self.taken.step


class Rounds:
    """Finds of which values, one in each round of a loop, a tensor may consist.

    Args:
        raws: the tensors that a loop makes in one place, in their order.
    """

    def __init__(self, raws: Sequence[Raw]) -> None:
        found = sorted(_rounds(raws), key=lambda one: one[:2])
        self._rounds = [one for *_, one in found]
        self._sizes = np.array([size for size, *_ in found], dtype=np.float64)
        self._norms = np.array([norm for _, norm, _ in found], dtype=np.float64)

    def near(self, raw: Raw, apart: float) -> Iterator[Round]:
        """Yield those with as many elements together as a tensor, and a norm no farther than ``apart`` from its own."""
        size, norm, reach = element_count(raw), as_float(raw.get(NORM.name)), 1.0 - min(apart, 0.99)
        first, behind = np.searchsorted(self._sizes, size), np.searchsorted(self._sizes, size, side="right")
        norms = self._norms[first:behind]
        yield from self._rounds[
            first + np.searchsorted(norms, norm * reach) : first + np.searchsorted(norms, norm / reach, side="right")
        ]


def _rounds(raws: Sequence[Raw]) -> Iterator[tuple[float, float, Round]]:
    """Yield all choices of two and more values, one in each round, with their number of elements and their norm."""
    sizes = np.array([element_count(raw) for raw in raws], dtype=np.float64)
    squares = np.array([as_float(raw.get(NORM.name)) for raw in raws], dtype=np.float64) ** 2
    lengths = range(1, min(LONGEST_ROUND, len(raws) - 1) + 1)
    for length, first in ((one, first) for one in lengths for first in range(one)):
        together = zip(np.cumsum(sizes[first::length]), np.sqrt(np.cumsum(squares[first::length])), strict=True)
        for number, (size, norm) in enumerate(together):
            if number and np.isfinite(norm):
                yield float(size), float(norm), Round(raws, slice(first, first + number * length + 1, length))
