"""The longest ascending chain, held against all chains there are."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.alignment.sequence_alignment import longest_ascending


def ascends(chain: tuple[tuple[int, int], ...]) -> bool:
    return all(i < k and j < m for (i, j), (k, m) in pairwise(chain))


@given(st.lists(st.integers(0, 9), max_size=9))
def test_no_chain_is_longer(seconds: list[int]) -> None:
    pairs = list(enumerate(seconds))
    found = longest_ascending(pairs)
    assert set(found) <= set(pairs)
    assert ascends(tuple(found))
    longest = max(n for n in range(len(pairs) + 1) if any(map(ascends, combinations(pairs, n))))
    assert len(found) == longest


def test_one_that_moved_far_is_left_out() -> None:
    assert longest_ascending([(0, 3), (1, 0), (2, 1), (3, 2)]) == [(1, 0), (2, 1), (3, 2)]
