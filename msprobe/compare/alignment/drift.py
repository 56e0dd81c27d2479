"""Alignment of two lists of calls, of which one may hold calls more or less than the other.

What has one name on both sides and only one call is fixed first, then what has the same shapes and values; between
these fixed points calls of the same name are chosen by evidence: shapes, statistics, checksums. So a repeated or a
skipped call stays alone and does not shift those after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import starmap

import numpy as np

from msprobe.compare.alignment.ascending import longest_ascending
from msprobe.compare.alignment.evidence import CallFeatureArrays, Floats, call_closeness, call_features, feature_arrays
from msprobe.compare.alignment.protocol import Positions, Side
from msprobe.compare.alignment.weighted import weighted_subsequence

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
