"""Operands that two different programs write in another order: ``x + h`` and ``h + x``.

The operands of an operator that does not depend on their order pair by their values; in backward their gradients do.
"""

from __future__ import annotations

import math
from dataclasses import replace

from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.inference.operators import operator
from msprobe.compare.items import INPUT, OUTPUT, Leaf, is_tensor
from msprobe.compare.mode import Policy
from msprobe.compare.recorded_number import as_float
from msprobe.compare.table import LeafTable
from msprobe.core.naming.model import Phase

_COMMUTATIVE = frozenset({"~add", "~mul", "~maximum", "~minimum", "~eq", "~ne", "~and", "~or"})
_COMPARED_STATISTICS = ("Max", "Min", "Mean", "Norm")
_CLEARLY_LESS = 0.1


class CommutedOperands(Exemption):
    """Pairs the operands of commutative calls by their values."""

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with operands in the order of the target, where the programs differ and a mapping does not
        pair single leaves."""
        if not table.loose or dumps.policy is Policy.REFERENCE or table.other_entry:
            return table
        return pair_commuted_operands(table)


def pair_commuted_operands(table: LeafTable) -> LeafTable:
    """Return the table with the golden operands of each commutative call exchanged where the values lie crosswise."""
    golden = list(table.golden)
    commutative: dict[str, bool] = {}
    for number, pair in enumerate(table.entries):
        if pair.target is None or pair.golden is None:
            continue
        key = table.key(number)
        if key.stem not in commutative:
            commutative[key.stem] = operator(key.stem) in _COMMUTATIVE
        if not commutative[key.stem]:
            continue
        slot = INPUT if key.phase == Phase.FORWARD.value else OUTPUT
        rows = [row for row in table.rows_of(number) if _is_of(table.target[row], slot) or _is_of(golden[row], slot)]
        if len(rows) == 2 and _lie_crosswise(table, *rows):
            first, second = rows
            golden[first], golden[second] = golden[second], golden[first]
    return replace(table, golden=golden)


def _is_of(leaf: Leaf | None, slot: str) -> bool:
    return leaf is not None and leaf.slot == slot


def _lie_crosswise(table: LeafTable, first: int, second: int) -> bool:
    straight = _distance(table, first, first) + _distance(table, second, second)
    return straight > 0 and _distance(table, first, second) + _distance(table, second, first) < _CLEARLY_LESS * straight


def _distance(table: LeafTable, target_row: int, golden_row: int) -> float:
    """Return the largest difference of the statistics of two operands relative to their size (dimensionless); infinite
    where they cannot be compared."""
    target, golden = table.target[target_row], table.golden[golden_row]
    if target is None or golden is None or not is_tensor(target.raw) or not is_tensor(golden.raw):
        return math.inf
    if target.raw["shape"] != golden.raw["shape"]:
        return math.inf
    if "md5" in target.raw or "md5" in golden.raw:
        return 0.0 if target.raw.get("md5") == golden.raw.get("md5") else math.inf
    left, right = ([as_float(raw.get(name)) for name in _COMPARED_STATISTICS] for raw in (target.raw, golden.raw))
    if not all(map(math.isfinite, (*left, *right))):
        return math.inf
    largest = max(map(abs, (*left[:2], *right[:2])))
    difference = max(abs(ours - theirs) for ours, theirs in zip(left[:3], right[:3], strict=True))
    return max(
        _ratio_or_infinite(difference, largest), _ratio_or_infinite(abs(left[3] - right[3]), max(left[3], right[3]))
    )


def _ratio_or_infinite(part: float, whole: float) -> float:
    if part == 0.0:
        return 0.0
    return part / whole if whole > 0.0 else math.inf
