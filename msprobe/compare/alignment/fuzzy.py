"""Fuzzy matching: calls pair by name and order, whatever their numbers and wherever they are in the model.

The forward calls of each side are aligned as one sequence, so that a surplus call stays alone, and backward entries
follow. What is then left over on both sides under the same name pairs in its order. Every entry keeps its row.
"""

from __future__ import annotations

from msprobe.compare.alignment.drift import align_sequences
from msprobe.compare.alignment.followed import BackwardPairs, forward_calls
from msprobe.compare.alignment.protocol import SAME, Alignment, Positions, Side
from msprobe.compare.pairs import EntryKey

_Name = tuple[str, str, bool]


class FuzzyMatch:
    """See the module text."""

    def align(self, target: Side, golden: Side) -> Alignment:
        if target.keys == golden.keys:
            return SAME
        places = forward_calls(target.keys), forward_calls(golden.keys)
        stems = [target.keys[i].stem for i in places[0]], [golden.keys[j].stem for j in places[1]]
        forward = align_sequences(target, golden, places, stems)
        found = BackwardPairs(target.keys, golden.keys, forward).pairs([])
        return Alignment(found + _left_over(found, target, golden))


def _name(key: EntryKey) -> _Name:
    return key.stem, key.phase, key.recompute


def _left_over(pairs: Positions, target: Side, golden: Side) -> Positions:
    used = {i for i, _ in pairs}, {j for _, j in pairs}
    waiting: dict[_Name, list[int]] = {}
    for j in range(len(golden.keys) - 1, -1, -1):
        if j not in used[1]:
            waiting.setdefault(_name(golden.keys[j]), []).append(j)
    lone = ((i, _name(key)) for i, key in enumerate(target.keys) if i not in used[0])
    return [(i, waiting[name].pop()) for i, name in lone if waiting.get(name)]
