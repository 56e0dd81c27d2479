"""What tells one call from another of the same name: the shapes of its tensors, and their statistics or checksums."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.alignment.protocol import Side
from msprobe.compare.items import INPUT, OUTPUT, Leaf, is_tensor, leaves
from msprobe.compare.recorded_number import as_float
from msprobe.core.tensors.statistics import STATISTIC_NAMES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_WIDTH = 2 * len(STATISTIC_NAMES)
_PLAIN = {float, type(None)}  # as numbers at once, null as NaN
_DECADES = 7.0
"""Two float32 results of the same operation agree in about this many digits."""
_SHAPES, _VALUES = 0.5, 2.0


class CallFeatures(NamedTuple):
    """``shapes`` of all tensors; ``values`` are the statistics of the first tensor given and the first one made, or
    their checksums."""

    shapes: Hashable
    values: tuple[Any, ...]


def call_features(side: Side, positions: Sequence[int]) -> list[CallFeatures]:
    """The traits of these entries."""
    names = [side.keys[position].name for position in positions]
    return [_traits(name, side.dump.data[name]) for name in names]


def _traits(name: str, body: Any) -> CallFeatures:
    tensors = [leaf for leaf in leaves(name, body) if is_tensor(leaf.raw)]
    shapes = tuple((leaf.suffix, str(leaf.raw["shape"])) for leaf in tensors)
    return CallFeatures(shapes, _values(tensors, INPUT) + _values(tensors, OUTPUT))


def _values(tensors: list[Leaf], slot: str) -> tuple[Any, ...]:
    raw = next((leaf.raw for leaf in tensors if leaf.slot == slot), None) or {}
    if raw.get("md5") is not None:
        return (str(raw["md5"]),) * len(STATISTIC_NAMES)
    return tuple(raw.get(name) for name in STATISTIC_NAMES)


@dataclass(frozen=True, slots=True)
class CallFeatureArrays:
    """The traits of some calls of one side as arrays, with what has the same name as one number."""

    names: Ints
    shapes: Ints
    values: Floats
    digests: bool

    def __len__(self) -> int:
        return len(self.names)

    def part(self, where: slice) -> CallFeatureArrays:
        """Those of some of the calls."""
        return CallFeatureArrays(self.names[where], self.shapes[where], self.values[where], self.digests)

    def rounded(self, bits: int) -> list[bytes]:
        """One text per call, equal for calls whose names and shapes are equal and whose values agree in ``bits``
        binary digits (nearly: a value may lie at the edge)."""
        mantissa, exponent = np.frexp(self.values + 0.0)
        with np.errstate(over="ignore"):  # the largest numbers may round up to infinity, on both sides alike
            values = np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits) + 0.0
        values[np.isnan(values)] = np.nan
        table = np.column_stack((self.names, self.shapes, values.view(np.int64).reshape(-1, _WIDTH)))
        return [row.tobytes() for row in np.ascontiguousarray(table)]


def feature_arrays(
    names: tuple[Sequence[Hashable], ...], found: tuple[Sequence[CallFeatures], ...]
) -> tuple[CallFeatureArrays, CallFeatureArrays]:
    """The looks of both sides; numbers that stand for names, shapes and checksums are the same in both."""
    known: dict[Hashable, int] = {}
    shapes: dict[Hashable, int] = {}
    digests: dict[str, int] = {}
    made = [
        (
            np.array([known.setdefault(name, len(known)) for name in own], np.int64),
            np.array([shapes.setdefault(one.shapes, len(shapes)) for one in side], np.int64),
            _table([one.values for one in side], digests),
        )
        for own, side in zip(names, found, strict=True)
    ]
    return CallFeatureArrays(*made[0], bool(digests)), CallFeatureArrays(*made[1], bool(digests))


def _table(rows: list[tuple[Any, ...]], digests: dict[str, int]) -> Floats:
    if set(map(type, chain.from_iterable(rows))) <= _PLAIN:
        return np.array(rows, np.float64).reshape(-1, _WIDTH)
    return np.array([[_number(value, digests) for value in row] for row in rows]).reshape(-1, _WIDTH)


def _number(value: Any, digests: dict[str, int]) -> float:
    """A statistic, or the number of a checksum in the order of appearance."""
    if isinstance(value, str):
        return float(digests.setdefault(value, len(digests)))
    return as_float(value)


def call_closeness(left: CallFeatureArrays, right: CallFeatureArrays, i: int, others: Ints) -> Floats:
    """How alike call ``i`` of the left side is to these of the right one, from 0 to 2.5.

    Equal shapes count 0.5. Statistics count up to 2, by the decimal digits in which they agree; checksums when equal.
    """
    same = right.shapes[others] == left.shapes[i]
    ours, theirs = left.values[i], right.values[others]
    if left.digests:
        alike = (ours == theirs).mean(axis=1)
    else:
        with np.errstate(all="ignore"):
            apart = np.abs(theirs - ours) / np.maximum(np.abs(theirs), np.abs(ours))
            digits = np.where(theirs == ours, _DECADES, -np.log10(apart))
        alike = np.clip(np.nan_to_num(digits, nan=0.0), 0.0, _DECADES).mean(axis=1) / _DECADES
    return np.asarray(_SHAPES * same + _VALUES * alike)
