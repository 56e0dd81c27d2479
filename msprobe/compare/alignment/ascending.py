"""The longest ascending chain of pairs of positions: the most that two lists have in one order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


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
