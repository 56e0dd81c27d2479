"""Sequence matching: like exact matching, but an extra or missing call does not shift the calls after it.

Where the forward calls of both sides are not the same list, they are aligned by the longest common subsequence of
(name
without number, enclosing module). Backward entries then follow their forward call.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from msprobe.compare.match.exact import ExactMatch
from msprobe.compare.match.myers import common_subsequence
from msprobe.compare.match.protocol import Positions
from msprobe.compare.pairs import EntryKey

_MOST_EDITS = 600
_Place = tuple[str, int | None]


class SequenceMatch:
    """See the module text. Falls back to exact matching when the two sides have too little in common to align."""

    def pairs(self, target: Sequence[EntryKey], golden: Sequence[EntryKey]) -> Positions:
        exact = ExactMatch().pairs(target, golden)
        left, right = _forward(target), _forward(golden)
        left_keys, right_keys = [_key(target[i]) for i in left], [_key(golden[j]) for j in right]
        if left_keys == right_keys:
            return exact
        aligned = common_subsequence(left_keys, right_keys, _MOST_EDITS)
        if aligned is None:
            return exact
        forward = [(left[i], right[j]) for i, j in aligned]
        return _with_backward(target, golden, forward, exact)


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
