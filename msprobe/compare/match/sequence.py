"""Sequence matching: like exact matching, but an extra or missing call does not shift the calls after it.

Where the forward calls of both sides are not the same list, they are aligned by the longest common subsequence of
(name without number, enclosing module): the module calls first, then the API calls between each two of them, so that a
changed operation never tears its module apart. Backward entries then follow their forward call.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from msprobe.compare.match.exact import ExactMatch
from msprobe.compare.match.in_backward import is_module, placed
from msprobe.compare.match.myers import common_subsequence
from msprobe.compare.match.protocol import Positions
from msprobe.compare.pairs import EntryKey

_MOST_EDITS = 600
_Place = tuple[str, int | None]


class SequenceMatch:
    """See the module text. Falls back to exact matching when the two sides have too little in common to align."""

    def pairs(self, target: Sequence[EntryKey], golden: Sequence[EntryKey]) -> Positions:
        target, golden = placed(target), placed(golden)
        exact = ExactMatch().pairs(target, golden)
        left, right = _forward(target), _forward(golden)
        if [_key(target[i]) for i in left] == [_key(golden[j]) for j in right]:
            return exact
        forward = _aligned(target, golden, left, right)
        return exact if forward is None else _with_backward(target, golden, forward, exact)


def _aligned(
    target: Sequence[EntryKey], golden: Sequence[EntryKey], left: list[int], right: list[int]
) -> list[tuple[int, int]] | None:
    """Pairs of positions of forward calls, ascending; None when there is too little in common."""

    def common(ours: list[int], theirs: list[int]) -> list[tuple[int, int]] | None:
        found = common_subsequence([_key(target[i]) for i in ours], [_key(golden[j]) for j in theirs], _MOST_EDITS)
        return None if found is None else [(ours[i], theirs[j]) for i, j in found]

    anchors = common([i for i in left if is_module(target[i])], [j for j in right if is_module(golden[j])])
    if anchors is None:
        return None
    pairs: list[tuple[int, int]] = []
    ours, theirs = _segments(target, left, {i for i, _ in anchors}), _segments(golden, right, {j for _, j in anchors})
    for number, (mine, others) in enumerate(zip(ours, theirs, strict=True)):
        found = common(mine, others)
        if found is None:
            return None
        pairs += found + anchors[number : number + 1]
    return pairs


def _segments(keys: Sequence[EntryKey], positions: list[int], anchors: set[int]) -> list[list[int]]:
    """The API calls before, between and after the anchors."""
    segments: list[list[int]] = [[]]
    for position in positions:
        if position in anchors:
            segments.append([])
        elif not is_module(keys[position]):
            segments[-1].append(position)
    return segments


def _forward(keys: Sequence[EntryKey]) -> list[int]:
    return [i for i, key in enumerate(keys) if key.phase == "forward" and not key.recompute]


def _key(key: EntryKey) -> Hashable:
    return key.stem, key.parent


def _with_backward(
    target: Sequence[EntryKey], golden: Sequence[EntryKey], forward: Sequence[tuple[int, int]], exact: Positions
) -> Positions:
    found: Positions = list(forward)
    used_target, used_golden = {i for i, _ in forward}, {j for _, j in forward}
    number = {_place(target[i]): golden[j].call for i, j in forward}
    backward = {_place(key): j for j, key in enumerate(golden) if key.phase == "backward"}
    aligned_golden = {_place(golden[j]) for _, j in forward}
    for i, key in enumerate(target):
        place = _place(key)
        if key.phase == "backward" and place in number:
            j = backward.get((key.stem, number[place]))
            if j is not None and j not in used_golden:
                found.append((i, j))
                used_target.add(i)
                used_golden.add(j)
    forward_known = set(number)
    for pair in exact:
        if pair[0] in used_target or pair[1] in used_golden or pair[0] is None or pair[1] is None:
            continue
        left, right = target[pair[0]], golden[pair[1]]
        if left.phase == "forward" and not left.recompute:
            continue
        if left.phase == "backward" and (_place(left) in forward_known or _place(right) in aligned_golden):
            continue
        found.append(pair)
    return found


def _place(key: EntryKey) -> _Place:
    return key.stem, key.call
