"""Sequence matching: like exact matching, but an extra or missing call does not shift the calls after it.

Where the forward calls of both sides are not the same list, they are aligned by the longest common subsequence of
(name without number, enclosing module), weighed by what the calls hold: the module calls first, then the API calls
between each two of them, so that a changed operation never tears its module apart. Where the modules of the two sides
have hardly a name in common, the API calls are aligned by name alone. Backward entries then follow their forward call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from msprobe.compare.alignment.drift import aligned
from msprobe.compare.alignment.exact import exact_pairs
from msprobe.compare.alignment.in_backward import is_module, placed
from msprobe.compare.alignment.protocol import SAME, Alignment, Positions, Side
from msprobe.compare.pairs import EntryKey

_Place = tuple[str, int | None]


class SequenceMatch:
    """See the module text."""

    def align(self, target: Side, golden: Side) -> Alignment:
        if target.keys == golden.keys:
            return SAME
        target, golden = Side(target.dump, placed(target.keys)), Side(golden.dump, placed(golden.keys))
        exact = exact_pairs(target.keys, golden.keys)
        left, right = _forward(target.keys), _forward(golden.keys)
        if _keys(target, left) == _keys(golden, right):
            return Alignment(exact)
        forward = _forward_pairs(target, golden, left, right)
        if 2 * len(forward) < _alike(target, golden, left, right):
            forward = _by_name(target, golden, left, right)
        return Alignment(_Followed(target.keys, golden.keys, forward).pairs(exact))


def _forward_pairs(target: Side, golden: Side, left: list[int], right: list[int]) -> Positions:
    """Pairs of positions of forward calls, ascending."""

    def common(ours: list[int], theirs: list[int]) -> Positions:
        return aligned(target, golden, (ours, theirs), (_keys(target, ours), _keys(golden, theirs)))

    anchors = common(_modules(target, left), _modules(golden, right))
    ours = _segments(target, left, {i for i, _ in anchors})
    theirs = _segments(golden, right, {j for _, j in anchors})
    pairs: Positions = []
    for number, (mine, others) in enumerate(zip(ours, theirs, strict=True)):
        pairs += common(mine, others) + anchors[number : number + 1]
    return pairs


def _alike(target: Side, golden: Side, left: list[int], right: list[int]) -> int:
    """How many calls have a partner of the same name, as far as numbers go."""
    ours, theirs = (Counter(side.keys[i].stem for i in at) for side, at in ((target, left), (golden, right)))
    return sum((ours & theirs).values())


def _by_name(target: Side, golden: Side, left: list[int], right: list[int]) -> Positions:
    stems = [target.keys[i].stem for i in left], [golden.keys[j].stem for j in right]
    return aligned(target, golden, (left, right), stems)


def _modules(side: Side, positions: list[int]) -> list[int]:
    return [position for position in positions if is_module(side.keys[position])]


def _segments(side: Side, positions: list[int], anchors: set[int]) -> list[list[int]]:
    """The API calls before, between and after the anchors."""
    segments: list[list[int]] = [[]]
    for position in positions:
        if position in anchors:
            segments.append([])
        elif not is_module(side.keys[position]):
            segments[-1].append(position)
    return segments


def _forward(keys: Sequence[EntryKey]) -> list[int]:
    return [i for i, key in enumerate(keys) if key.phase == "forward" and not key.recompute]


def _keys(side: Side, positions: Sequence[int]) -> list[tuple[str, str]]:
    return [(side.keys[position].stem, side.keys[position].parent) for position in positions]


def _place(key: EntryKey) -> _Place:
    return key.stem, key.call


class _Followed(NamedTuple):
    """Backward entries follow their forward call; what has none pairs as exact matching says."""

    target: Sequence[EntryKey]
    golden: Sequence[EntryKey]
    forward: Positions

    def pairs(self, exact: Positions) -> Positions:
        found = list(self.forward)
        used = {i for i, _ in found}, {j for _, j in found}
        for pairs in (self._backward(), self._recomputed(), self._others(exact)):
            for i, j in pairs:
                if i not in used[0] and j not in used[1]:
                    found.append((i, j))
                    used[0].add(i)
                    used[1].add(j)
        return found

    def _backward(self) -> Positions:
        theirs = _backward_of(self.golden)
        number = {_place(self.target[i]): _place(self.golden[j]) for i, j in self.forward}
        ours = _backward_of(self.target)
        return [(ours[place], theirs[other]) for place, other in number.items() if place in ours and other in theirs]

    def _recomputed(self) -> Positions:
        """The backward of a call that one side made once more, under another number, to have its values again."""
        left, right = _backward_of(self.target), _backward_of(self.golden)
        paired = [(_place(self.target[i]), _place(self.golden[j])) for i, j in self.forward]
        known = {mine for mine, _ in paired}, {other for _, other in paired}
        lost = [right[other] for mine, other in paired if mine not in left and other in right]
        missing = [left[mine] for mine, other in paired if mine in left and other not in right]
        again = [i for place, i in left.items() if place not in known[0]]
        twice = [j for place, j in right.items() if place not in known[1]]
        return self._by_occurrence(again, lost) + self._by_occurrence(missing, twice)

    def _by_occurrence(self, ours: list[int], theirs: list[int]) -> Positions:
        waiting: dict[str, list[int]] = {}
        for j in sorted(theirs, reverse=True):
            waiting.setdefault(self.golden[j].stem, []).append(j)
        return [(i, waiting[self.target[i].stem].pop()) for i in sorted(ours) if waiting.get(self.target[i].stem)]

    def _others(self, exact: Positions) -> Positions:
        known = {_place(self.target[i]) for i, _ in self.forward}, {_place(self.golden[j]) for _, j in self.forward}
        found: Positions = []
        for i, j in exact:
            left, right = self.target[i], self.golden[j]
            if left.phase == "forward" and not left.recompute:
                continue
            if left.phase == "backward" and (_place(left) in known[0] or _place(right) in known[1]):
                continue
            found.append((i, j))
        return found


def _backward_of(keys: Sequence[EntryKey]) -> dict[_Place, int]:
    return {_place(key): position for position, key in enumerate(keys) if key.phase == "backward"}
