"""Operands that two different programs write in another order: ``x + h`` here, ``h + x`` there.

Where the operator does not care for the order, its operands (and in backward their gradients) pair by their values.
"""

from __future__ import annotations

import math

from msprobe.compare.inference.operators import operator
from msprobe.compare.items import INPUT, OUTPUT, Leaf, is_tensor
from msprobe.compare.recorded_number import as_float
from msprobe.compare.table import LeafTable
from msprobe.core.naming.model import Phase
from msprobe.core.tensors.statistics import STATISTIC_NAMES

_COMMUTATIVE = frozenset({"~add", "~mul", "~maximum", "~minimum", "~eq", "~ne", "~and", "~or"})
_CLEARLY = 0.1


def pair_by_value(table: LeafTable) -> None:
    """Exchange the golden operands of each commutative call whose values lie crosswise."""
    known: dict[str, bool] = {}
    for number, pair in enumerate(table.entries):
        if pair.target is None or pair.golden is None:
            continue
        key = table.key(number)
        if key.stem not in known:
            known[key.stem] = operator(key.stem) in _COMMUTATIVE
        if not known[key.stem]:
            continue
        slot = INPUT if key.phase == Phase.FORWARD.value else OUTPUT
        rows = range(int(table.starts[number]), int(table.starts[number + 1]))
        operands = [row for row in rows if _is_of(table.target[row], slot) or _is_of(table.golden[row], slot)]
        if len(operands) == 2 and _lie_crosswise(table, *operands):
            first, second = operands
            table.golden[first], table.golden[second] = table.golden[second], table.golden[first]


def _is_of(leaf: Leaf | None, slot: str) -> bool:
    return leaf is not None and leaf.slot == slot


def _lie_crosswise(table: LeafTable, first: int, second: int) -> bool:
    straight = _distance(table, first, first) + _distance(table, second, second)
    return straight > 0 and _distance(table, first, second) + _distance(table, second, first) < _CLEARLY * straight


def _distance(table: LeafTable, target: int, golden: int) -> float:
    """The largest difference of two operands' statistics relative to their size; infinite where nothing can be said."""
    ours, theirs = table.target[target], table.golden[golden]
    if ours is None or theirs is None or not is_tensor(ours.raw) or not is_tensor(theirs.raw):
        return math.inf
    if ours.raw["shape"] != theirs.raw["shape"]:
        return math.inf
    if "md5" in ours.raw or "md5" in theirs.raw:
        return 0.0 if ours.raw.get("md5") == theirs.raw.get("md5") else math.inf
    left, right = ([as_float(raw.get(name)) for name in STATISTIC_NAMES] for raw in (ours.raw, theirs.raw))
    if not all(map(math.isfinite, (*left, *right))):
        return math.inf
    size = max(map(abs, (*left[:2], *right[:2])))
    off = max(abs(mine - other) for mine, other in zip(left[:3], right[:3], strict=True))
    return max(_share(off, size), _share(abs(left[3] - right[3]), max(left[3], right[3])))


def _share(part: float, whole: float) -> float:
    if part == 0.0:
        return 0.0
    return part / whole if whole > 0.0 else math.inf
