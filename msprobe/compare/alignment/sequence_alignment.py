"""Alignment of two lists of calls, of which either may hold calls that the other has not.

``align_sequences`` first pairs calls whose name occurs once on both sides, then calls with the same shapes and values.
Between these fixed points it pairs calls of the same name by evidence (``CallFeatures``): shapes, statistics or
checksums. So a repeated or skipped call keeps no partner and does not shift the calls after it.

``weighted_subsequence`` and ``longest_ascending`` are the two algorithms behind it.

Layer inference has another measure of likeness, ``tensor_signature.closeness``, on purpose. It is 1 up to a difference
of a thousandth, because the same layer of two programs may differ that much. Calls of one function in one model often
differ by less: the residual stream of neighbouring layers, or two micro batches. Which of them one side skipped is seen
only in further digits, so ``call_closeness`` counts all that agree
(``test_values_that_differ_little_tell_which_call_one_side_skipped``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, starmap
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.alignment.protocol import Positions, Side
from msprobe.core.store.record_walk import INPUT, OUTPUT, Leaf, is_tensor, leaves
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.trace.leaves import as_float

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
WeightRow = Callable[[int, int, int], Floats]
"""Returns the weights of an element of the left list with those of the right list from start to stop, as an array of
shape (stop - start,); 0 forbids the pair."""
_SAME_NAME = 0.25
_KEPT = 0.98
"""The share of possible pairs that must remain possible when calls are fixed by their features."""
_ROUNDINGS = (53, 14, 7)
"""Binary digits by which features are compared: all, about four decimal digits, about two."""
_AGREE = 1.25
"""How alike two calls with equal shapes are whose statistics agree in about three decimal digits."""
_Gap = tuple[slice, slice]
_Agree = Callable[[int, int], bool]


def align_sequences(
    target: Side, golden: Side, positions: tuple[Sequence[int], Sequence[int]], keys: tuple[Sequence[Hashable], ...]
) -> Positions:
    """Return pairs of positions, ascending on both sides.

    Args:
        target: the left side.
        golden: the right side.
        positions: the positions of the calls to pair, of both sides.
        keys: for each of these calls, what must be equal in a pair.
    """
    left, right = keys

    def agree(i: int, j: int) -> bool:
        features = call_features(target, [positions[0][i]]), call_features(golden, [positions[1][j]])
        one, other = feature_arrays(((left[i],), (right[j],)), features)
        return bool(call_closeness(one, other, 0, np.zeros(1, np.int64))[0] > _AGREE)

    pairs: list[tuple[int, int]] = []
    for left_gap, right_gap in _gaps(left, right, pairs, agree):
        if left[left_gap] == right[right_gap]:
            pairs += zip(range(left_gap.start, left_gap.stop), range(right_gap.start, right_gap.stop), strict=True)
        elif left_gap.stop > left_gap.start and right_gap.stop > right_gap.start:
            features = call_features(target, positions[0][left_gap]), call_features(golden, positions[1][right_gap])
            arrays = feature_arrays((left[left_gap], right[right_gap]), features)
            pairs += _shifted(_pairs_by_features(*arrays, _ROUNDINGS), left_gap, right_gap)
    return sorted((positions[0][i], positions[1][j]) for i, j in pairs)


def _pairs_by_features(
    left: CallFeatureArrays, right: CallFeatureArrays, roundings: Sequence[int]
) -> list[tuple[int, int]]:
    """Return pairs of calls: first those with unique features, by all digits and then by fewer; the rest by weight."""
    if not len(left) or not len(right):
        return []
    if not roundings:
        return _pairs_by_weight(left, right)
    pairs: list[tuple[int, int]] = []
    gaps = list(_gaps(left.rounded(roundings[0]), right.rounded(roundings[0]), pairs))
    parts = [(left.part(left_gap), right.part(right_gap)) for left_gap, right_gap in gaps]
    if len(pairs) + sum(starmap(_most_pairs, parts)) < _KEPT * _most_pairs(left, right):
        return _pairs_by_features(left, right, roundings[1:])  # features equal by chance would exclude too many pairs
    for (left_gap, right_gap), part in zip(gaps, parts, strict=True):
        pairs += _shifted(_pairs_by_features(*part, roundings[1:]), left_gap, right_gap)
    return pairs


def _most_pairs(left: CallFeatureArrays, right: CallFeatureArrays) -> int:
    """Return how many pairs of equal names there can be, whatever the order."""
    if not len(left) or not len(right):
        return 0
    kinds = int(max(left.names.max(), right.names.max())) + 1
    if kinds > len(left) + len(right):
        return sum((Counter(left.names.tolist()) & Counter(right.names.tolist())).values())
    counts = np.bincount(left.names, minlength=kinds), np.bincount(right.names, minlength=kinds)
    return int(np.minimum(*counts).sum())


def _shifted(pairs: list[tuple[int, int]], left_gap: slice, right_gap: slice) -> list[tuple[int, int]]:
    return [(left_gap.start + i, right_gap.start + j) for i, j in pairs]


def _pairs_by_weight(left: CallFeatureArrays, right: CallFeatureArrays) -> list[tuple[int, int]]:
    def weights(i: int, start: int, stop: int) -> Floats:
        row = np.zeros(stop - start)
        equal = np.flatnonzero(right.names[start:stop] == left.names[i])
        if len(equal):
            row[equal] = _SAME_NAME + call_closeness(left, right, i, equal + start)
        return row

    if not _most_pairs(left, right):
        return []
    return weighted_subsequence(len(left), len(right), weights)


def _gaps(
    left: Sequence[Hashable], right: Sequence[Hashable], pairs: list[tuple[int, int]], agree: _Agree | None = None
) -> Iterator[_Gap]:
    """Add the pairs of what is unique on both sides to ``pairs``; yield what lies before, between and after them.
    ``agree`` as in ``_unique_pairs``."""
    i = j = 0
    for next_i, next_j in [*_unique_pairs(left, right, agree), (len(left), len(right))]:
        yield slice(i, next_i), slice(j, next_j)
        if next_i < len(left):
            pairs.append((next_i, next_j))
        i, j = next_i + 1, next_j + 1


def _unique_pairs(
    left: Sequence[Hashable], right: Sequence[Hashable], agree: _Agree | None = None
) -> list[tuple[int, int]]:
    """Return the longest ascending chain of pairs of keys that each side holds once.

    Where pairs cross, those come first that ``agree``: others may have nothing but their name in common.
    """
    left_counts, right_counts = Counter(left), Counter(right)
    right_index = {key: j for j, key in enumerate(right) if right_counts[key] == 1}
    pairs = [(i, right_index[key]) for i, key in enumerate(left) if left_counts[key] == 1 and key in right_index]
    longest = longest_ascending(pairs)
    if agree is None or len(longest) == len(pairs):
        return longest
    sure = longest_ascending([pair for pair in pairs if agree(*pair)])
    return longest_ascending([
        (i, j) for i, j in pairs if bisect_left(sure, (i, j)) == bisect_left(sure, j, key=itemgetter(1))
    ])


# What tells one call from another of the same name

_WIDTH = 2 * len(STATISTIC_NAMES)
_PLAIN = {float, type(None)}
"""Types of statistics that numpy converts at once, null to NaN."""
_DECADES = 7.0
"""Two float32 results of the same operation agree in about this many decimal digits."""
_SHAPES, _VALUES = 0.5, 2.0


class CallFeatures(NamedTuple):
    """What tells a call from others of its name.

    Args:
        shapes: the shapes of all tensors.
        values: the statistics of the first input tensor and of the first output tensor, or their checksums.
    """

    shapes: Hashable
    values: tuple[Any, ...]


def call_features(side: Side, positions: Sequence[int]) -> list[CallFeatures]:
    """Return the features of the entries at these positions."""
    names = [side.keys[position].name for position in positions]
    return [_features(name, side.dump.data[name]) for name in names]


def _features(name: str, body: Any) -> CallFeatures:
    tensors = [leaf for leaf in leaves(name, body) if is_tensor(leaf.raw)]
    shapes = tuple((leaf.suffix, str(leaf.raw["shape"])) for leaf in tensors)
    return CallFeatures(shapes, _first_values(tensors, INPUT) + _first_values(tensors, OUTPUT))


def _first_values(tensors: list[Leaf], slot: str) -> tuple[Any, ...]:
    """Return the statistics of the first tensor of a slot, or its checksum in place of each of them."""
    raw = next((leaf.raw for leaf in tensors if leaf.slot == slot), None) or {}
    if raw.get("md5") is not None:
        return (str(raw["md5"]),) * len(STATISTIC_NAMES)
    return tuple(raw.get(name) for name in STATISTIC_NAMES)


@dataclass(frozen=True, slots=True)
class CallFeatureArrays:
    """The features of n calls of one side as arrays.

    Args:
        names: a number for the name of each call, shape (n,).
        shapes: a number for the shapes of its tensors, shape (n,).
        values: its statistics, or numbers for checksums, shape (n, 2 * number of statistics).
        has_checksums: whether the values of either side are numbers for checksums.
    """

    names: Ints
    shapes: Ints
    values: Floats
    has_checksums: bool

    def __len__(self) -> int:
        return len(self.names)

    def part(self, where: slice) -> CallFeatureArrays:
        """Return the features of some of the calls."""
        return CallFeatureArrays(self.names[where], self.shapes[where], self.values[where], self.has_checksums)

    def rounded(self, bits: int) -> list[bytes]:
        """Return one key per call: equal for calls whose names and shapes are equal and whose values agree in ``bits``
        binary digits. Values on both sides of a rounding boundary get different keys, however close they are."""
        mantissa, exponent = np.frexp(self.values + 0.0)
        with np.errstate(over="ignore"):  # the largest numbers may round up to infinity, on both sides alike
            values = np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits) + 0.0
        values[np.isnan(values)] = np.nan
        table = np.column_stack((self.names, self.shapes, values.view(np.int64).reshape(-1, _WIDTH)))
        return [row.tobytes() for row in np.ascontiguousarray(table)]


def feature_arrays(
    names: tuple[Sequence[Hashable], ...], features: tuple[Sequence[CallFeatures], ...]
) -> tuple[CallFeatureArrays, CallFeatureArrays]:
    """Return the features of both sides as arrays, in which equal names, shapes and checksums have equal numbers.

    Args:
        names: what must be equal in a pair, for each call of both sides.
        features: the features of the same calls.
    """
    name_numbers: dict[Hashable, int] = {}
    shape_numbers: dict[Hashable, int] = {}
    checksum_numbers: dict[str, int] = {}
    left, right = (
        (
            np.array([name_numbers.setdefault(name, len(name_numbers)) for name in side_names], np.int64),
            np.array([shape_numbers.setdefault(call.shapes, len(shape_numbers)) for call in side], np.int64),
            _value_table([call.values for call in side], checksum_numbers),
        )
        for side_names, side in zip(names, features, strict=True)
    )
    has_checksums = bool(checksum_numbers)
    return CallFeatureArrays(*left, has_checksums), CallFeatureArrays(*right, has_checksums)


def _value_table(rows: list[tuple[Any, ...]], checksum_numbers: dict[str, int]) -> Floats:
    if set(map(type, chain.from_iterable(rows))) <= _PLAIN:
        return np.array(rows, np.float64).reshape(-1, _WIDTH)
    return np.array([[_number(value, checksum_numbers) for value in row] for row in rows]).reshape(-1, _WIDTH)


def _number(value: Any, checksum_numbers: dict[str, int]) -> float:
    """Return a statistic as a float; for a checksum its number in the order of appearance."""
    if isinstance(value, str):
        return float(checksum_numbers.setdefault(value, len(checksum_numbers)))
    return as_float(value)


def call_closeness(left: CallFeatureArrays, right: CallFeatureArrays, i: int, others: Ints) -> Floats:
    """Return how alike a call of the left side is to some of the right side, from 0 to 2.5.

    Equal shapes count 0.5. Statistics count up to 2, by the decimal digits in which they agree; checksums when equal.

    Args:
        left: the features of the left side.
        right: the features of the right side.
        i: the position of the call of the left side.
        others: the positions of the calls of the right side, shape (m,); the result has the same shape.
    """
    same_shapes = right.shapes[others] == left.shapes[i]
    values, other_values = left.values[i], right.values[others]
    if left.has_checksums:
        agreement = (values == other_values).mean(axis=1)
    else:
        with np.errstate(all="ignore"):
            difference = np.abs(other_values - values) / np.maximum(np.abs(other_values), np.abs(values))
            digits = np.where(other_values == values, _DECADES, -np.log10(difference))
        agreement = np.clip(np.nan_to_num(digits, nan=0.0), 0.0, _DECADES).mean(axis=1) / _DECADES
    return np.asarray(_SHAPES * same_shapes + _VALUES * agreement)


# The two algorithms

_MOST_CELLS = 8_000_000
_PAIR, _UP, _LEFT = 0, 1, 2


def weighted_subsequence(left: int, right: int, weights: WeightRow) -> list[tuple[int, int]]:
    """Return the common subsequence with the greatest sum of weights, as pairs of positions, ascending.

    Dynamic programming row by row (Needleman and Wunsch, J. Mol. Biol. 48, 1970, with free gaps):
    ``best[i, j] = max(best[i-1, j], best[i, j-1], best[i-1, j-1] + weight[i, j])``. Of long lists only a band around
    the diagonal is searched. Between equal sums the earliest pairing wins, so that a surplus call at the end has no
    partner when nothing tells the calls apart.

    Args:
        left: the length of the left list.
        right: the length of the right list.
        weights: returns the weights of an element of the left list.
    """
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
    pairs: list[tuple[int, int]] = []
    i, j = len(steps) - 1, int(starts[-1]) + steps.shape[1] - 1
    while i >= 0 and j >= 0:
        column = j - int(starts[i])
        if column < 0:
            i -= 1
            continue
        if column >= steps.shape[1]:
            j = int(starts[i]) + steps.shape[1] - 1
            continue
        step = steps[i, column]
        if step == _UP:
            i -= 1
        elif step == _LEFT:
            j -= 1
        else:
            pairs.append((i, j))
            i, j = i - 1, j - 1
    return pairs[::-1]


def longest_ascending(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest chain of pairs that ascends in both positions: the most that two lists have in one order.

    Patience sorting (Fredman, Discrete Mathematics 11, 1975), in O(n log n).

    Args:
        pairs: pairs that ascend in the first position.
    """
    tails: list[int] = []  # by length of a chain: the least second position in which one ends
    ends: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [j]
        ends[length : length + 1] = [number]
    longest: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        longest.append(pairs[number])
        number = before[number]
    return longest[::-1]
