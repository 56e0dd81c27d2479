"""Pairs of backward entries and parameter gradients, which follow from the pairs of forward calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msprobe.compare.alignment.protocol import Positions
from msprobe.compare.records.entries import EntryKey

_Call = tuple[str, int | None]
"""Name without number, and number, of a call: the same for its forward and its backward entry."""


def forward_calls(keys: Sequence[EntryKey]) -> list[int]:
    """Return the positions of the forward calls that no checkpoint repeats."""
    return [i for i, key in enumerate(keys) if key.phase == "forward" and not key.recompute]


class BackwardPairs(NamedTuple):
    """Pairs what follows from pairs of forward calls.

    Args:
        target: the entries of the target.
        golden: the entries of the golden run.
        forward: the pairs of their forward calls.
    """

    target: Sequence[EntryKey]
    golden: Sequence[EntryKey]
    forward: Positions

    def pairs(self, exact: Positions) -> Positions:
        """Return the pairs of forward calls and of the entries that follow from them.

        Args:
            exact: the pairs of entries that have no forward call, and pairs of other entries, which are left out.
        """
        pairs = list(self.forward)
        paired = {i for i, _ in pairs}, {j for _, j in pairs}
        for further in (self._backward_pairs(), self._pairs_of_repeated_calls()):
            _add(pairs, paired, further)
        gradients = self._gradient_pairs(pairs)
        for further in (gradients.pairs, self._pairs_without_forward(exact, gradients.settled)):
            _add(pairs, paired, further)
        return pairs

    def _backward_pairs(self) -> Positions:
        left, right = _backward_positions(self.target), _backward_positions(self.golden)
        partner = {_call(self.target[i]): _call(self.golden[j]) for i, j in self.forward}
        return [(left[call], right[other]) for call, other in partner.items() if call in left and other in right]

    def _pairs_of_repeated_calls(self) -> Positions:
        """Return the pairs of backward entries of a call that one side made once more, under another number, to have
        its values again."""
        left, right = _backward_positions(self.target), _backward_positions(self.golden)
        calls = [(_call(self.target[i]), _call(self.golden[j])) for i, j in self.forward]
        paired_left, paired_right = {call for call, _ in calls}, {other for _, other in calls}
        only_right = [right[other] for call, other in calls if call not in left and other in right]
        only_left = [left[call] for call, other in calls if call in left and other not in right]
        repeated_left = [i for call, i in left.items() if call not in paired_left]
        repeated_right = [j for call, j in right.items() if call not in paired_right]
        return self._by_occurrence(repeated_left, only_right) + self._by_occurrence(only_left, repeated_right)

    def _by_occurrence(self, left: list[int], right: list[int]) -> Positions:
        """Return pairs of equal names in their order."""
        by_stem: dict[str, list[int]] = {}
        for j in sorted(right, reverse=True):
            by_stem.setdefault(self.golden[j].stem, []).append(j)
        return [(i, by_stem[self.target[i].stem].pop()) for i in sorted(left) if by_stem.get(self.target[i].stem)]

    def _gradient_pairs(self, pairs: Positions) -> _GradientPairs:
        """Return the pairs of parameter gradients: each follows the backward entry of its module that made it."""
        partner = dict(pairs)
        by_name = self._gradients_by_name()
        named = {i for i, _ in by_name}, {j for _, j in by_name}
        left = {i: backward for i, backward in _backward_of_gradients(self.target).items() if i not in named[0]}
        right = {backward: j for j, backward in _backward_of_gradients(self.golden).items() if j not in named[1]}
        gradients = [(i, right[partner[backward]]) for i, backward in left.items() if partner.get(backward) in right]
        paired_right = set(partner.values())
        settled_left = {i for i, backward in left.items() if backward in partner}
        settled_right = {j for backward, j in right.items() if backward in paired_right}
        return _GradientPairs(by_name + gradients, (settled_left, settled_right))

    def _gradients_by_name(self) -> Positions:
        """Return the pairs of gradients of modules of which both sides have gradients with the same numbers, whether
        they arrived before or after the backward call of the module."""
        left, right = _gradients(self.target), _gradients(self.golden)
        return [
            (i, right[stem][number])
            for stem, numbers in left.items()
            if numbers.keys() == right.get(stem, {}).keys()
            for number, i in numbers.items()
        ]

    def _pairs_without_forward(self, exact: Positions, settled: tuple[set[int], set[int]]) -> Positions:
        """Return those of the exact pairs about which the pairs of forward calls say nothing.

        A forward call that only one side makes says that its backward entry has no partner.
        """
        calls = _forward_calls(self.target), _forward_calls(self.golden)
        pairs: Positions = []
        for i, j in exact:
            left, right = self.target[i], self.golden[j]
            if left.phase == "forward" and not left.recompute:
                continue
            if left.phase == "backward" and (_call(left) in calls[0] or _call(right) in calls[1]):
                continue
            if i in settled[0] or j in settled[1]:
                continue
            pairs.append((i, j))
        return pairs


class _GradientPairs(NamedTuple):
    """Pairs of parameter gradients, and by side all gradients that a paired backward entry made."""

    pairs: Positions
    settled: tuple[set[int], set[int]]


def _add(pairs: Positions, paired: tuple[set[int], set[int]], further: Positions) -> None:
    """Add the further pairs of which neither entry is paired yet."""
    for i, j in further:
        if i not in paired[0] and j not in paired[1]:
            pairs.append((i, j))
            paired[0].add(i)
            paired[1].add(j)


def _backward_of_gradients(keys: Sequence[EntryKey]) -> dict[int, int]:
    """Return for the position of each parameter gradient that of the last backward entry of its module before it."""
    last: dict[str, int] = {}
    backward: dict[int, int] = {}
    for position, key in enumerate(keys):
        if key.phase == "backward":
            last[key.stem] = position
        elif key.phase == "parameters_grad" and key.stem in last:
            backward[position] = last[key.stem]
    return backward


def _gradients(keys: Sequence[EntryKey]) -> dict[str, dict[int | None, int]]:
    """Return the positions of the gradients of parameters by module and number."""
    gradients: dict[str, dict[int | None, int]] = {}
    for position, key in enumerate(keys):
        if key.phase == "parameters_grad":
            gradients.setdefault(key.stem, {})[key.call] = position
    return gradients


def _forward_calls(keys: Sequence[EntryKey]) -> set[_Call]:
    return {_call(keys[position]) for position in forward_calls(keys)}


def _backward_positions(keys: Sequence[EntryKey]) -> dict[_Call, int]:
    return {_call(key): position for position, key in enumerate(keys) if key.phase == "backward"}


def _call(key: EntryKey) -> _Call:
    return key.stem, key.call
