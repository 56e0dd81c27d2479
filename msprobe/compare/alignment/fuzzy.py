"""Fuzzy matching: calls pair by name and order, whatever their numbers and wherever they are in the model.

All entries are aligned as one sequence per side, so that a surplus call stays alone. What is then left over on both
sides under the same name pairs in its order. Every entry keeps its row, paired or not.
"""

from __future__ import annotations

from msprobe.compare.alignment.drift import aligned
from msprobe.compare.alignment.protocol import SAME, Alignment, Positions, Side
from msprobe.compare.pairs import EntryKey

_Name = tuple[str, str]


class FuzzyMatch:
    """See the module text."""

    def align(self, target: Side, golden: Side) -> Alignment:
        if target.keys == golden.keys:
            return SAME
        names = [_name(key) for key in target.keys], [_name(key) for key in golden.keys]
        pairs = aligned(target, golden, (range(len(names[0])), range(len(names[1]))), names)
        return Alignment(pairs + _left_over(pairs, names))


def _name(key: EntryKey) -> _Name:
    return key.stem, key.phase


def _left_over(pairs: Positions, names: tuple[list[_Name], list[_Name]]) -> Positions:
    used = {i for i, _ in pairs}, {j for _, j in pairs}
    waiting: dict[_Name, list[int]] = {}
    for j in range(len(names[1]) - 1, -1, -1):
        if j not in used[1]:
            waiting.setdefault(names[1][j], []).append(j)
    lone = (i for i in range(len(names[0])) if i not in used[0])
    return [(i, waiting[names[0][i]].pop()) for i in lone if waiting.get(names[0][i])]
