"""Alignment of two lists of calls, of which one may hold calls more or less than the other.

What has one name on both sides and only one call is fixed first, then what has the same shapes and values; between
these fixed points calls of the same name are chosen by evidence: shapes, statistics, checksums. So a repeated or a
skipped call stays alone and does not shift those after it.

The common subsequence with the greatest sum of weights, in a band around the diagonal when the lists are long.

Dynamic programming row by row (Needleman and Wunsch, J. Mol. Biol. 48, 1970, with free gaps):
``best[i, j] = max(best[i-1, j], best[i, j-1], best[i-1, j-1] + weight[i, j])``. Between equal sums the earliest
pairing wins, so that a surplus call at the end stays alone when nothing tells the calls apart.

The longest ascending chain of pairs of positions: the most that two lists have in one order.

What tells one call from another of the same name: the shapes of its tensors, and their statistics or checksums.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.alignment.protocol import Positions, Side
from msprobe.compare.records.leaves import as_float
from msprobe.core.store.record_walk import INPUT, OUTPUT, Leaf, is_tensor, leaves
from msprobe.core.tensors.statistics import STATISTIC_NAMES

Floats = NDArray[np.float64]
WeightRow = Callable[[int, int, int], Floats]
"""Element of the left list, start and stop in the right one, to weights; 0 forbids the pair."""
_MOST_CELLS = 8_000_000
_PAIR, _UP, _LEFT = 0, 1, 2


def weighted_subsequence(left: int, right: int, weights: WeightRow) -> list[tuple[int, int]]:
    """Pairs of positions, ascending, of two lists of these lengths."""
    if not left or not right:
        return []
    width = min(right, max(_MOST_CELLS // left, 256))
    centres = (np.arange(left) * (right / left)).astype(np.int64)
    starts = np.clip(centres - width // 2, 0, right - width)
    steps = np.zeros((left, width), np.uint8)
    best = np.zeros(right + 1)
    for i in range(left):
        start = int(starts[i])
        stop = start + width
        weight = weights(i, start, stop)
        above = best[start + 1 : stop + 1]
        pair = np.where(weight > 0.0, best[start:stop] + weight, -1.0)
        row = np.maximum(above, pair)
        row[0] = max(row[0], best[start])
        row = np.maximum.accumulate(row)
        before = np.concatenate((best[start : start + 1], row[:-1]))
        steps[i] = np.where(row == above, _UP, np.where(row == before, _LEFT, _PAIR))
        best[start + 1 : stop + 1] = row
        best[stop + 1 :] = np.maximum(best[stop + 1 :], row[-1])
    return _walk_back(steps, starts)


def _walk_back(steps: NDArray[np.uint8], starts: NDArray[np.int64]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    i, j = len(steps) - 1, int(starts[-1]) + steps.shape[1] - 1
    while i >= 0 and j >= 0:
        at = j - int(starts[i])
        if at < 0:
            i -= 1
            continue
        if at >= steps.shape[1]:
            j = int(starts[i]) + steps.shape[1] - 1
            continue
        step = steps[i, at]
        if step == _UP:
            i -= 1
        elif step == _LEFT:
            j -= 1
        else:
            found.append((i, j))
            i, j = i - 1, j - 1
    return found[::-1]


def longest_ascending(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The most pairs, ascending in both positions, of ``pairs`` that ascend in the first.

    Patience sorting (Fredman, Discrete Mathematics 11, 1975): n log n.
    """
    tails: list[int] = []  # by length: the least second position in which a chain of it ends
    ends: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        at = bisect_left(tails, j)
        before.append(ends[at - 1] if at else -1)
        tails[at : at + 1] = [j]
        ends[at : at + 1] = [number]
    chain: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]


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


_SAME_NAME = 0.25
_KEPT = 0.98
_ROUNDINGS = (53, 14, 7)
"""Binary digits: all, about four decimal ones, about two."""
_Gap = tuple[slice, slice]


def align_sequences(
    target: Side, golden: Side, places: tuple[Sequence[int], Sequence[int]], keys: tuple[Sequence[Hashable], ...]
) -> Positions:
    """Pairs of positions, ascending. ``places`` are the positions to pair, ``keys`` what must be equal in a pair."""
    left, right = keys
    found: list[tuple[int, int]] = []
    for ours, theirs in _gaps(left, right, found):
        if left[ours] == right[theirs]:
            found += zip(range(ours.start, ours.stop), range(theirs.start, theirs.stop), strict=True)
        elif ours.stop > ours.start and theirs.stop > theirs.start:
            seen = call_features(target, places[0][ours]), call_features(golden, places[1][theirs])
            found += _moved(_by_features(*feature_arrays((left[ours], right[theirs]), seen), _ROUNDINGS), ours, theirs)
    return sorted((places[0][i], places[1][j]) for i, j in found)


def _by_features(left: CallFeatureArrays, right: CallFeatureArrays, roundings: Sequence[int]) -> list[tuple[int, int]]:
    """Fix what looks like nothing else, first by all digits, then by fewer; weigh what is left."""
    if not len(left) or not len(right):
        return []
    if not roundings:
        return _weighted(left, right)
    found: list[tuple[int, int]] = []
    gaps = list(_gaps(left.rounded(roundings[0]), right.rounded(roundings[0]), found))
    parts = [(left.part(ours), right.part(theirs)) for ours, theirs in gaps]
    if len(found) + sum(starmap(_most_pairs, parts)) < _KEPT * _most_pairs(left, right):
        return _by_features(left, right, roundings[1:])  # looks too much alike to be fixed by: chance tears calls apart
    for (ours, theirs), part in zip(gaps, parts, strict=True):
        found += _moved(_by_features(*part, roundings[1:]), ours, theirs)
    return found


def _most_pairs(left: CallFeatureArrays, right: CallFeatureArrays) -> int:
    """How many pairs the names allow, whatever the order."""
    if not len(left) or not len(right):
        return 0
    kinds = int(max(left.names.max(), right.names.max())) + 1
    if kinds > len(left) + len(right):
        return sum((Counter(left.names.tolist()) & Counter(right.names.tolist())).values())
    counts = np.bincount(left.names, minlength=kinds), np.bincount(right.names, minlength=kinds)
    return int(np.minimum(*counts).sum())


def _moved(pairs: list[tuple[int, int]], ours: slice, theirs: slice) -> list[tuple[int, int]]:
    return [(ours.start + i, theirs.start + j) for i, j in pairs]


def _weighted(left: CallFeatureArrays, right: CallFeatureArrays) -> list[tuple[int, int]]:
    def weights(i: int, start: int, stop: int) -> Floats:
        found = np.zeros(stop - start)
        equal = np.flatnonzero(right.names[start:stop] == left.names[i])
        if len(equal):
            found[equal] = _SAME_NAME + call_closeness(left, right, i, equal + start)
        return found

    if not _most_pairs(left, right):
        return []
    return weighted_subsequence(len(left), len(right), weights)


def _gaps(left: Sequence[Hashable], right: Sequence[Hashable], found: list[tuple[int, int]]) -> Iterator[_Gap]:
    """Pairs what is unique on both sides, into ``found``; yields what lies before, between and after."""
    i = j = 0
    for next_i, next_j in [*_unique(left, right), (len(left), len(right))]:
        yield slice(i, next_i), slice(j, next_j)
        if next_i < len(left):
            found.append((next_i, next_j))
        i, j = next_i + 1, next_j + 1


def _unique(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The longest ascending chain of pairs of keys that each side holds once."""
    ours, theirs = Counter(left), Counter(right)
    place = {key: j for j, key in enumerate(right) if theirs[key] == 1}
    pairs = [(i, place[key]) for i, key in enumerate(left) if ours[key] == 1 and key in place]
    return longest_ascending(pairs)
