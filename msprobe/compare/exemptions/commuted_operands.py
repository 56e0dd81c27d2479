"""Exemption for operands that two programs, or two versions of one, write in another order: ``x + h`` and ``h + x``.

The operands of an operator that does not depend on their order pair by their values; in backward their gradients do.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.inputs.mode import Policy
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, Leaf, is_tensor
from msprobe.trace.likeness import distance, distances, same_checksums, same_record

_COMMUTATIVE = frozenset({"~add", "~mul", "~maximum", "~minimum", "~eq", "~ne", "~and", "~or"})
_CLEARLY_LESS = 0.1
_NO_LEAF = Leaf("", "", None)


class CommutedOperands(Exemption):
    """Pairs the operands of commutative calls by their values."""

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with the golden operands in the order of the target.

        It stays as it is where no operands are exchanged, or where a mapping pairs single leaves.
        """
        if dumps.policy is Policy.REFERENCE or table.other_entry:
            return table
        return pair_commuted_operands(table)


def pair_commuted_operands(table: LeafTable) -> LeafTable:
    """Return the table with the golden operands of each commutative call exchanged where the values lie crosswise; the
    same table where none do."""
    exchanged = [rows for rows in _perhaps_crosswise(table, _operands(table)) if _lie_crosswise(table, *rows)]
    if not exchanged:
        return table
    golden = list(table.golden)
    for first, second in exchanged:
        golden[first], golden[second] = golden[second], golden[first]
    return replace(table, golden=golden)


def _operands(table: LeafTable) -> list[tuple[int, int]]:
    """Return the rows of both operands of each commutative call of both sides; in backward those of their gradients."""
    found: list[tuple[int, int]] = []
    commutative: dict[str, bool] = {}
    starts, forward, targets, goldens = table.starts.tolist(), Phase.FORWARD.value, table.target, table.golden
    for number in _perhaps_differing(table):
        pair, key = table.entries[number], table.keys[number]
        is_commutative = commutative.get(key.stem)
        if is_commutative is None:
            is_commutative = commutative[key.stem] = _is_commutative(key.stem, across=table.across)
        if not is_commutative or pair.target is None or pair.golden is None:
            continue
        slot, rows = INPUT if key.phase == forward else OUTPUT, range(starts[number], starts[number + 1])
        operands = [row for row in rows if slot in ((targets[row] or _NO_LEAF)[1], (goldens[row] or _NO_LEAF)[1])]
        if len(operands) == 2:
            found.append((operands[0], operands[1]))
    return found


def _perhaps_differing(table: LeafTable) -> list[int]:
    """Return the entries without those whose statistics are all the same on both sides, as arrays tell."""
    plain, unequal = table.float_pairs, np.ones(table.row_count, np.bool_)
    unequal[plain.rows] = (plain.values[:, 0] != plain.values[:, 1]).any(axis=1)
    differing = np.zeros(len(table.entries), np.bool_)
    differing[table.entry_of_row()[unequal]] = True
    return differing.nonzero()[0].tolist()  # type: ignore[no-any-return]


def _perhaps_crosswise(table: LeafTable, operands: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the operands without those that do not lie crosswise as arrays of their statistics tell: nearly all."""
    plain = table.float_pairs
    if not operands or not len(plain.rows):
        return operands
    rows = np.array(operands, np.int64)
    places = np.minimum(plain.rows.searchsorted(rows), len(plain.rows) - 1)
    comparable = np.array([_are_comparable(*pair) for pair in plain.kind_samples], np.bool_)
    known = ((plain.rows[places] == rows) & comparable[plain.kinds[places]]).all(axis=1)
    target, golden = plain.values[places, 0], plain.values[places, 1]
    straight, crosswise = (distances(target, side).sum(axis=1) for side in (golden, golden[:, ::-1]))
    return rows[~known | (crosswise < _CLEARLY_LESS * straight)].tolist()  # type: ignore[no-any-return]


def _are_comparable(target: Any, golden: Any) -> bool:
    """Return whether the statistics of two tensors say how far they are apart: they have one shape, and no checksum."""
    return bool(target["shape"] == golden["shape"] and same_checksums(target, golden) is None)


def _is_commutative(stem: str, *, across: bool) -> bool:
    if not across:  # folding the names of other frameworks takes long to load
        return f"~{stem.rpartition('.')[2].strip('_').lower()}" in _COMMUTATIVE  # nodes of ONNX are Add, Mul
    from msprobe.compare.layer_inference.name_folding import operator

    return operator(stem) in _COMMUTATIVE


def _lie_crosswise(table: LeafTable, first: int, second: int) -> bool:
    target, golden = table.target[first], table.golden[first]
    if target is not None and golden is not None and same_record(target.raw, golden.raw):
        return False
    straight = _distance(table, first, first) + _distance(table, second, second)
    return straight > 0 and _distance(table, first, second) + _distance(table, second, first) < _CLEARLY_LESS * straight


def _distance(table: LeafTable, target_row: int, golden_row: int) -> float:
    """Return how far the statistics of two operands are apart (see ``likeness.distance``); infinite where they cannot
    be compared."""
    target, golden = table.target[target_row], table.golden[golden_row]
    if target is None or golden is None or not is_tensor(target.raw) or not is_tensor(golden.raw):
        return math.inf
    if target.raw["shape"] != golden.raw["shape"]:
        return math.inf
    by_checksum = same_checksums(target.raw, golden.raw)
    if by_checksum is not None:
        return 0.0 if by_checksum else math.inf
    return distance(target.raw, golden.raw)
