"""What tells one call from another of the same name: the shapes of its tensors, and their statistics or checksums."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.alignment.protocol import Side
from msprobe.compare.items import INPUT, OUTPUT, Leaf, is_tensor, leaves

Floats = NDArray[np.float64]
_NUMBERS = ("Max", "Min", "Mean", "Norm")
_WIDTH = 2 * len(_NUMBERS)
_DECADES = 7.0
"""Two float32 results of the same operation agree in about this many digits."""
_SHAPES, _VALUES = 0.5, 2.0


class Traits(NamedTuple):
    """``shapes`` of all tensors; ``values`` are the statistics of the first tensor given and the first one made, or
    their checksums."""

    shapes: Hashable
    values: tuple[Any, ...]


def traits(side: Side, positions: Sequence[int]) -> list[Traits]:
    """The traits of these entries."""
    names = [side.keys[position].name for position in positions]
    return [_traits(name, side.dump.data[name]) for name in names]


def _traits(name: str, body: Any) -> Traits:
    tensors = [leaf for leaf in leaves(name, body) if is_tensor(leaf.raw)]
    shapes = tuple((leaf.suffix, str(leaf.raw["shape"])) for leaf in tensors)
    return Traits(shapes, _values(tensors, INPUT) + _values(tensors, OUTPUT))


def _values(tensors: list[Leaf], slot: str) -> tuple[Any, ...]:
    raw = next((leaf.raw for leaf in tensors if leaf.slot == slot), None) or {}
    if raw.get("md5") is not None:
        return (str(raw["md5"]),) * len(_NUMBERS)
    return tuple(raw.get(name) for name in _NUMBERS)


@dataclass(frozen=True, slots=True)
class Closeness:
    """How alike each call of one list is to each of another, as a weight from 0 to 2.5.

    Equal shapes count 0.5. Statistics count up to 2, by the decimal digits in which they agree; checksums when equal.
    """

    shapes: tuple[NDArray[np.int64], NDArray[np.int64]]
    values: tuple[Floats, Floats]
    digests: bool

    @classmethod
    def of(cls, left: Sequence[Traits], right: Sequence[Traits]) -> Closeness:
        shapes: dict[Hashable, int] = {}
        digests: dict[str, int] = {}
        ids = [np.array([shapes.setdefault(t.shapes, len(shapes)) for t in side], np.int64) for side in (left, right)]
        values = [_table(side, digests) for side in (left, right)]
        return cls((ids[0], ids[1]), (values[0], values[1]), bool(digests))

    def of_pairs(self, i: int, others: NDArray[np.int64]) -> Floats:
        """Call ``i`` of the left list against these calls of the right one."""
        same = self.shapes[1][others] == self.shapes[0][i]
        left, right = self.values[0][i], self.values[1][others]
        if self.digests:
            alike = (left == right).mean(axis=1)
        else:
            with np.errstate(all="ignore"):
                apart = np.abs(right - left) / np.maximum(np.abs(right), np.abs(left))
                digits = np.where(right == left, _DECADES, -np.log10(apart))
            alike = np.clip(np.nan_to_num(digits, nan=0.0), 0.0, _DECADES).mean(axis=1) / _DECADES
        return np.asarray(_SHAPES * same + _VALUES * alike)


def _table(side: Sequence[Traits], digests: dict[str, int]) -> Floats:
    """The values of each call as numbers; a checksum as its number in the order of appearance."""
    rows = [[_number(value, digests) for value in one.values] for one in side]
    return np.array(rows, np.float64).reshape(-1, _WIDTH)


def _number(value: Any, digests: dict[str, int]) -> float:
    if isinstance(value, str):
        return float(digests.setdefault(value, len(digests)))
    return float(value) if isinstance(value, (int, float)) else float("nan")
