"""Exact matching: the same name, with calls counted so that recomputation does not shift them.

Forward entries that are not recomputed are counted per name without number; a recomputed one pairs with a
recomputed one. Backward entries pair by number where both sides have the same numbers, otherwise by order of
occurrence (checkpointing numbers them differently). Parameter gradients pair by their full name.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from msprobe.compare.alignment.in_backward import with_backward_scope
from msprobe.compare.alignment.protocol import SAME, Alignment, Positions, Side
from msprobe.compare.pairs import EntryKey

_Group = tuple[str, str, bool, str]


class ExactMatch:
    """See the module text."""

    def align(self, target: Side, golden: Side) -> Alignment:
        if target.keys == golden.keys:
            return SAME
        return Alignment(exact_pairs(with_backward_scope(target.keys), with_backward_scope(golden.keys)))


def exact_pairs(target: Sequence[EntryKey], golden: Sequence[EntryKey]) -> Positions:
    """Pairs of positions of keys that ``placed`` has seen."""
    by_number = _same_numbers(target, golden)
    golden_at = {key: j for j, key in enumerate(_join_keys(golden, by_number))}
    found: Positions = []
    for i, key in enumerate(_join_keys(target, by_number)):
        j = golden_at.get(key)
        if j is not None:
            found.append((i, j))
    return found


def _group(key: EntryKey) -> _Group:
    """Recomputed calls count per module: the two sides may recompute different parts of the model."""
    return key.stem, key.phase, key.recompute, key.parent if key.recompute else ""


def _same_numbers(target: Sequence[EntryKey], golden: Sequence[EntryKey]) -> set[_Group]:
    """The groups of calls that carry the same numbers on both sides."""
    left, right = _numbers(target), _numbers(golden)
    return {group for group, numbers in left.items() if right.get(group) == numbers}


def _numbers(keys: Sequence[EntryKey]) -> dict[_Group, set[int | None]]:
    numbers: dict[_Group, set[int | None]] = {}
    for key in keys:
        numbers.setdefault(_group(key), set()).add(key.call)
    return numbers


def _join_keys(keys: Sequence[EntryKey], by_number: set[_Group]) -> list[Hashable]:
    recomputed = {(key.stem, key.phase) for key in keys if key.recompute}
    counted: dict[_Group, int] = {}
    joined: list[Hashable] = []
    for key in keys:
        group = _group(key)
        index: int | None = key.call
        if group not in by_number and (key.phase == "backward" or key.recompute or (key.stem, key.phase) in recomputed):
            index = counted.get(group, 0)
            counted[group] = index + 1
        joined.append((group, index))
    return joined
