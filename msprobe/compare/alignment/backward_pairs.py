"""Backward entries follow their forward call, once it is known which forward calls belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msprobe.compare.alignment.protocol import Positions
from msprobe.compare.records.entries import EntryKey

_Place = tuple[str, int | None]


def forward_calls(keys: Sequence[EntryKey]) -> list[int]:
    """Positions of the forward calls that no checkpoint repeats."""
    return [i for i, key in enumerate(keys) if key.phase == "forward" and not key.recompute]


class BackwardPairs(NamedTuple):
    """``forward`` are pairs of positions of forward calls."""

    target: Sequence[EntryKey]
    golden: Sequence[EntryKey]
    forward: Positions

    def pairs(self, exact: Positions) -> Positions:
        """These pairs and those of backward entries; what has no forward call pairs as ``exact`` says."""
        found = list(self.forward)
        used = {i for i, _ in found}, {j for _, j in found}
        for pairs in (self._backward(), self._recomputed()):
            _add(found, used, pairs)
        gradients = self._gradients(found)
        for pairs in (gradients.pairs, self._others(exact, gradients.placed)):
            _add(found, used, pairs)
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

    def _gradients(self, found: Positions) -> _Gradients:
        """Gradients of parameters follow the backward of their module that made them."""
        partner = dict(found)
        theirs = {before: j for j, before in _made_by(self.golden).items()}
        ours = _made_by(self.target)
        pairs = [(i, theirs[partner[before]]) for i, before in ours.items() if partner.get(before) in theirs]
        paired = partner.keys(), set(partner.values())
        left = {i for i, before in ours.items() if before in paired[0]}
        right = {j for before, j in theirs.items() if before in paired[1]}
        return _Gradients(pairs, (left, right))

    def _others(self, exact: Positions, placed: tuple[set[int], set[int]]) -> Positions:
        known = {_place(self.target[i]) for i, _ in self.forward}, {_place(self.golden[j]) for _, j in self.forward}
        found: Positions = []
        for i, j in exact:
            left, right = self.target[i], self.golden[j]
            if left.phase == "forward" and not left.recompute:
                continue
            if left.phase == "backward" and (_place(left) in known[0] or _place(right) in known[1]):
                continue
            if i in placed[0] or j in placed[1]:
                continue
            found.append((i, j))
        return found


class _Gradients(NamedTuple):
    """Pairs of gradients of parameters, and on each side all that a paired backward made."""

    pairs: Positions
    placed: tuple[set[int], set[int]]


def _add(found: Positions, used: tuple[set[int], set[int]], pairs: Positions) -> None:
    for i, j in pairs:
        if i not in used[0] and j not in used[1]:
            found.append((i, j))
            used[0].add(i)
            used[1].add(j)


def _made_by(keys: Sequence[EntryKey]) -> dict[int, int]:
    """Positions of gradients of parameters, each with the last backward of its module before it."""
    last: dict[str, int] = {}
    found: dict[int, int] = {}
    for position, key in enumerate(keys):
        if key.phase == "backward":
            last[key.stem] = position
        elif key.phase == "parameters_grad" and key.stem in last:
            found[position] = last[key.stem]
    return found


def _backward_of(keys: Sequence[EntryKey]) -> dict[_Place, int]:
    return {_place(key): position for position, key in enumerate(keys) if key.phase == "backward"}


def _place(key: EntryKey) -> _Place:
    return key.stem, key.call
