"""Longest common subsequence of two lists that differ little, in time proportional to length times differences.

Source: E. Myers, "An O(ND) difference algorithm and its variations", Algorithmica 1 (1986).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

Trace = list[dict[int, int]]


def common_subsequence(
    left: Sequence[Hashable], right: Sequence[Hashable], most_edits: int
) -> list[tuple[int, int]] | None:
    """Positions (in left, in right) of a longest common subsequence, ascending; None beyond ``most_edits`` edits."""
    head = 0
    while head < len(left) and head < len(right) and left[head] == right[head]:
        head += 1
    tail = 0
    while tail < min(len(left), len(right)) - head and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    middle = _aligned(left[head : len(left) - tail], right[head : len(right) - tail], most_edits)
    if middle is None:
        return None
    before = [(i, i) for i in range(head)]
    after = [(len(left) - tail + i, len(right) - tail + i) for i in range(tail)]
    return before + [(head + i, head + j) for i, j in middle] + after


def _aligned(left: Sequence[Hashable], right: Sequence[Hashable], most_edits: int) -> list[tuple[int, int]] | None:
    if not left or not right:
        return []
    trace = _trace(left, right, most_edits)
    return None if trace is None else _walk_back(trace, len(left), len(right))


def _trace(left: Sequence[Hashable], right: Sequence[Hashable], most_edits: int) -> Trace | None:
    """For each number of edits the furthest reach on every diagonal, up to the one that reaches both ends."""
    reach = {1: 0}
    trace: Trace = []
    for edits in range(min(most_edits, len(left) + len(right)) + 1):
        trace.append(dict(reach))
        for diagonal in range(-edits, edits + 1, 2):
            x = _start(reach, diagonal, edits)
            y = x - diagonal
            while x < len(left) and y < len(right) and left[x] == right[y]:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            if x >= len(left) and y >= len(right):
                return trace
    return None


def _start(reach: dict[int, int], diagonal: int, edits: int) -> int:
    down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
    return reach[diagonal + 1] if down else reach[diagonal - 1] + 1


def _walk_back(trace: Trace, x: int, y: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for edits in range(len(trace) - 1, -1, -1):
        reach, diagonal = trace[edits], x - y
        down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
        previous = diagonal + 1 if down else diagonal - 1
        from_x = reach[previous] if edits else 0
        from_y = from_x - previous if edits else 0
        while x > from_x and y > from_y and (edits == 0 or x - y == diagonal):
            if edits and x == (from_x if down else from_x + 1):
                break
            x, y = x - 1, y - 1
            found.append((x, y))
        x, y = from_x, from_y
    return found[::-1]
