"""Alignment of two lists of calls, of which one may hold calls more or less than the other.

What has one name on both sides and only one call is fixed first, then what has the same shapes and values; between
these fixed points calls of the same name are chosen by evidence: shapes, statistics, checksums. So a repeated or a
skipped call stays alone and does not shift those after it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from msprobe.compare.alignment.evidence import Closeness, Floats, Traits, traits
from msprobe.compare.alignment.protocol import Positions, Side
from msprobe.compare.alignment.weighted import weighted_subsequence

_SAME_NAME = 0.25
_Gap = tuple[slice, slice]


def aligned(
    target: Side, golden: Side, places: tuple[Sequence[int], Sequence[int]], keys: tuple[Sequence[Hashable], ...]
) -> Positions:
    """Pairs of positions, ascending. ``places`` are the positions to pair, ``keys`` what must be equal in a pair."""
    left, right = keys
    found: list[tuple[int, int]] = []
    for ours, theirs in _gaps(left, right, found):
        if left[ours] == right[theirs]:
            found += zip(range(ours.start, ours.stop), range(theirs.start, theirs.stop), strict=True)
        elif ours.stop > ours.start and theirs.stop > theirs.start:
            evidence = traits(target, places[0][ours]), traits(golden, places[1][theirs])
            chosen = _by_evidence(left[ours], right[theirs], evidence)
            found += [(ours.start + i, theirs.start + j) for i, j in chosen]
    return sorted((places[0][i], places[1][j]) for i, j in found)


def _by_evidence(
    left: Sequence[Hashable], right: Sequence[Hashable], evidence: tuple[list[Traits], list[Traits]]
) -> list[tuple[int, int]]:
    fine = [list(zip(keys, side, strict=True)) for keys, side in zip((left, right), evidence, strict=True)]
    found: list[tuple[int, int]] = []
    for ours, theirs in _gaps(fine[0], fine[1], found):
        mine, others = left[ours], right[theirs]
        if not set(mine) & set(others):
            continue
        closeness = Closeness.of(evidence[0][ours], evidence[1][theirs])
        for i, j in _weighted(mine, others, closeness):
            found.append((ours.start + i, theirs.start + j))
    return found


def _weighted(left: Sequence[Hashable], right: Sequence[Hashable], closeness: Closeness) -> list[tuple[int, int]]:
    known: dict[Hashable, int] = {}
    mine, others = (np.array([known.setdefault(key, len(known)) for key in side], np.int64) for side in (left, right))

    def weights(i: int, start: int, stop: int) -> Floats:
        found = np.zeros(stop - start)
        equal = np.flatnonzero(others[start:stop] == mine[i])
        if len(equal):
            found[equal] = _SAME_NAME + closeness.of_pairs(i, equal + start)
        return found

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
    tails: list[int] = []
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
