"""The arguments of a module that one side gives an argument more.

Nothing says which parameter of ``forward`` a positional argument is for. A call with an argument in the middle that the
other side does not give has moved all arguments behind it. So where the numbers of positional arguments differ, they
pair in their order as far as they are alike: equal values first, then tensors of one shape and dtype. In backward the
gradients of the arguments pair in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, Leaf, is_tensor
from msprobe.trace.likeness import same_values

Pairs = list[tuple[Leaf | None, Leaf | None]]
_Argument = list[Leaf]
_EQUAL, _ALIKE, _OF_ONE_TYPE = 8.0, 3.0, 1.0


def pairs_in_order(phase: str, found: Pairs) -> Pairs:
    """Return the pairs of leaves of two calls of a module, in which positional arguments pair by likeness and order,
    where one call has more of them; ``found`` are pairs of leaves by their place in the records."""
    slot = OUTPUT if phase == Phase.BACKWARD.value else INPUT
    sides = [_positional([leaf for pair in found if (leaf := pair[side]) is not None], slot) for side in (0, 1)]
    if len(sides[0]) == len(sides[1]) or not all(sides):
        return found
    moved = {id(leaf) for side in sides for argument in side for leaf in argument}
    return _aligned(*sides) + [pair for pair in found if not any(id(leaf) in moved for leaf in pair if leaf)]


def _positional(leaves: Sequence[Leaf], slot: str) -> list[_Argument]:
    """Return the leaves of each positional argument, in their order."""
    arguments: dict[int, _Argument] = {}
    for leaf in leaves:
        place = leaf.suffix.split(".")[2:3]
        if leaf.slot == slot and place and place[0].isdigit():
            arguments.setdefault(int(place[0]), []).append(leaf)
    return [arguments[place] for place in sorted(arguments)]


def _aligned(target: list[_Argument], golden: list[_Argument]) -> Pairs:
    from msprobe.compare.alignment.sequence_alignment import weighted_subsequence  # loaded where calls differ

    def weights(i: int, start: int, stop: int) -> Any:
        return np.array([_likeness(target[i], other) for other in golden[start:stop]])

    result: Pairs = []
    i = j = 0
    for own, other in [*weighted_subsequence(len(target), len(golden), weights), (len(target), len(golden))]:
        result += [(leaf, None) for argument in target[i:own] for leaf in argument]
        result += [(None, leaf) for argument in golden[j:other] for leaf in argument]
        if own < len(target):
            result += zip(target[own], golden[other], strict=True)
        i, j = own + 1, other + 1
    return result


def _likeness(target: _Argument, golden: _Argument) -> float:
    """Return how much two arguments are alike; 0 for those that cannot be one."""
    if len(target) != len(golden):
        return 0.0
    return min(_of_leaves(*both) for both in zip(target, golden, strict=True))


def _of_leaves(target: Leaf, golden: Leaf) -> float:
    left, right = target.raw, golden.raw
    if not (is_tensor(left) and is_tensor(right)):
        if is_tensor(left) or is_tensor(right):
            return 0.0
        return _EQUAL if left == right else _OF_ONE_TYPE
    if left["shape"] != right["shape"] or left["dtype"] != right["dtype"]:
        return 0.0
    return _EQUAL if same_values(left, right) else _ALIKE
