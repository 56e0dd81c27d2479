"""What of each pair of tensors belongs to the request that is compared, and what need not agree.

A server holds more than one request: a cache has the keys of all of them, and numbers say where a request lies (slots
of the cache, offsets in the batch). These differ between two batches that answer alike. So a tensor without an axis of
tokens that differs is not judged, and an integer tensor that differs is judged by what its calls make of it: where all
they return agrees, it chose the same values from another place. Parameters and everything with tokens are judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe.compare.records.entries import is_module
from msprobe.compare.requests.padding import is_index, padded_axes, shape_of
from msprobe.compare.requests.part_choice import chosen_part
from msprobe.compare.requests.token_axes import Part, TokenAxes, TokenAxis
from msprobe.compare.requests.token_pairs import token_range
from msprobe.compare.table.table import LeafTable, RowRanges
from msprobe.core.store.record_walk import INPUT, OUTPUT, Leaf, is_tensor
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.verdict import Measured, RowKind, beyond_rounding
from msprobe.trace.leaves import row_name


@dataclass(frozen=True, slots=True)
class RequestTensors:
    """The tensors of a pair of dumps, of which the part of one request is compared.

    Attributes:
        axes: where the request is.
        tokens: the axis of tokens, by row.
        ranges: the parts of both sides, by row.
        unclear: rows of which several parts fit, and no file tells which.
        apart: rows that hold the request, but no common token.
        others: rows of tensors without an axis of tokens.
        excused: rows that differ and are not judged; they are known when the differences are.
    """

    axes: TokenAxes
    tokens: Mapping[int, TokenAxis]
    ranges: Mapping[int, RowRanges]
    unclear: frozenset[int]
    apart: frozenset[int]
    others: frozenset[int]
    excused: set[int] = field(default_factory=set)

    @property
    def id(self) -> str:
        """The request, as the target names it."""
        return self.axes.target.id

    @property
    def positions(self) -> str:
        """The positions of the compared tokens, such as ``4-7``."""
        return token_range(*self.axes.span)

    @property
    def text(self) -> str:
        """The request and its compared tokens in words."""
        plural = "s" if "-" in self.positions else ""
        return f"token{plural} {self.positions} of request {self.id}"

    @property
    def lengths(self) -> set[tuple[int, int]]:
        """Numbers that describe the batches of both sides, and may stand among the arguments."""
        return set(zip(self.axes.target.numbers, self.axes.golden.numbers, strict=True))

    def excuse(self, table: LeafTable, measured: Measured) -> None:
        """Note the rows that differ and are not judged."""
        differs = beyond_rounding(measured) | (measured.kind > RowKind.UNCHECKED)
        self.excused.update(row for row in self.others if differs[row])
        indices = {row for row in self.tokens if differs[row] and is_index(table.golden[row])}
        indices -= _results(table, indices)
        self.excused.update(_slots(table, indices, self.excused))
        self.excused.update(row for row in indices if self._is_beside_floats(table, row))
        self.excused.update(_without_consequence(table, indices, self.excused | self.unclear | self.apart, differs))

    def _is_beside_floats(self, table: LeafTable, row: int) -> bool:
        """Return whether a module is given these integers beside tokens: they say where the tokens belong.

        What the module makes of them is judged. Given alone, to an embedding, they are its data.
        """
        entry = table.entries_of([row])[0]
        if _slot(table, row) != INPUT or not is_module(table.keys[entry]):
            return False
        inputs = (other for other in table.rows_of(entry) if other in self.tokens and _slot(table, other) == INPUT)
        return any(not is_index(table.golden[other]) for other in inputs)

    def remarks(self, table: LeafTable, unknown: frozenset[int]) -> list[str]:
        """Return sentences about what was not judged, with reason; ``unknown`` are the rows without numbers."""
        count = len(self.tokens.keys() - unknown)
        notes = [f"{self.text}: {count} tensors were compared in their rows"]
        if self.excused:
            notes.append(
                f"{len(self.excused)} values that differ hold other requests, or say where this one is "
                f"(first: {_name(table, min(self.excused))}); what this request got from them is compared"
            )
        return notes

    def lost(self, table: LeafTable) -> list[str]:
        """Return sentences about what should have been judged and was not."""
        notes = []
        if self.unclear:
            notes.append(
                f"{len(self.unclear)} tensors were not compared: several of their axes are as long as the batch "
                f"(first: {_name(table, min(self.unclear))}); collect with task tensor"
            )
        last = max((row for row in self.excused if row in self.others), default=-1)
        if last > max(self.tokens, default=-1):
            notes.append(f"what follows from {_name(table, last)} was not compared: no later tensor has tokens")
        return notes


def request_part(table: LeafTable, axes: TokenAxes, whole: set[int], folders: tuple[Path, Path]) -> RequestTensors:
    """Return what of the tensors of a table belongs to a request.

    Args:
        table: both dumps.
        axes: where the request is.
        whole: the rows of parameters.
        folders: the tensor files of both sides.
    """
    axes = padded_axes(table, axes, whole, folders)
    found: dict[int, Part] = {}
    unclear, apart, others = set(), set(), set()
    for row in range(table.row_count):
        target, golden = shape_of(table.target[row]), shape_of(table.golden[row])
        if target is None or golden is None or row in whole or row in table.together:
            continue
        match = axes.match(target, golden)
        if match is None:
            others.add(row)
        elif match.apart:
            apart.add(row)
        elif (part := chosen_part(match.choices, (table.target[row], table.golden[row]), folders)) is not None:
            found[row] = part
        else:
            unclear.add(row)
    tokens = {row: part.tokens for row, part in found.items() if part.tokens is not None}
    ranges = {row: part.ranges for row, part in found.items()}
    return RequestTensors(axes, tokens, ranges, frozenset(unclear), frozenset(apart), frozenset(others))


def _slots(table: LeafTable, indices: set[int], others: set[int]) -> set[int]:
    """Return the integers that say where something lies in a tensor that holds other requests, such as a cache.

    They mean nothing on the other side, wherever they are recorded.
    """
    entry_of = table.entry_of_row()
    holding = {int(entry_of[row]) for row in others if _slot(table, row) == INPUT}
    holding = {entry for entry in holding if not is_module(table.keys[entry])}
    slots = {_identity(table.target[row]) for row in indices if int(entry_of[row]) in holding}
    return {row for row in indices if _identity(table.target[row]) in slots}


def _results(table: LeafTable, indices: set[int]) -> set[int]:
    """Return the integers that calls have made from floating-point numbers: they are results, such as chosen tokens."""
    entry_of = table.entry_of_row()
    return {
        row
        for row in indices
        if _slot(table, row) == OUTPUT
        and any(
            _slot(table, other) == INPUT
            and shape_of(table.golden[other]) is not None
            and not is_index(table.golden[other])
            for other in table.rows_of(int(entry_of[row]))
        )
    }


def _without_consequence(table: LeafTable, indices: set[int], excused: set[int], differs: Any) -> set[int]:
    """Return the integer tensors of which no call makes anything that differs.

    A tensor is followed to the innermost calls that take it. What such a call returns in integers may differ, where
    that has no consequence either.
    """
    uses = _uses(table)
    open_rows = set(indices)
    while True:
        kept = {row for row in open_rows if _is_harmless(table, row, uses, excused | open_rows, differs)}
        if kept == open_rows:
            return kept
        open_rows = kept


def _is_harmless(
    table: LeafTable, row: int, uses: Mapping[str, Sequence[int]], excused: set[int], differs: Any
) -> bool:
    results = (
        result
        for entry in uses.get(_identity(table.target[row]), ())
        for result in table.rows_of(entry)
        if _slot(table, result) == OUTPUT
    )
    return all(not differs[result] or result in excused for result in results)


def _uses(table: LeafTable) -> dict[str, list[int]]:
    """Return the innermost calls that take a tensor of integers, by what tells it from others."""
    uses: dict[str, list[int]] = {}
    for row, leaf in enumerate(table.target):
        if leaf is not None and leaf.slot == INPUT and is_tensor(leaf.raw) and is_index(leaf):
            uses.setdefault(_identity(leaf), []).append(row)
    entry_of = table.entry_of_row()
    return {key: _innermost(table, [int(entry_of[row]) for row in rows]) for key, rows in uses.items()}


def _innermost(table: LeafTable, entries: list[int]) -> list[int]:
    """Return the calls that are no modules, or the modules of which none contains another one."""
    functions = [entry for entry in entries if not is_module(table.keys[entry])]
    if functions:
        return functions
    paths = {entry: ".".join(table.keys[entry].stem.split(".")[1:-1]) for entry in entries}  # without kind and class
    return [
        entry
        for entry in entries
        if not any(other != paths[entry] and other.startswith(f"{paths[entry]}.") for other in paths.values())
    ]


def _identity(leaf: Leaf | None) -> str:
    """Return what tells a recorded tensor from others: its number of elements and its statistics."""
    if leaf is None:
        return ""
    lengths = sorted(length for length in shape_of(leaf) or () if length != 1)
    return str((lengths, [leaf.raw.get(name) for name in STATISTIC_NAMES]))


def _slot(table: LeafTable, row: int) -> str:
    leaf = table.target[row] or table.golden[row]
    return "" if leaf is None else leaf.slot


def _name(table: LeafTable, row: int) -> str:
    leaf, entry = table.target[row], table.entries[table.entries_of([row])[0]]
    return entry.name if leaf is None else row_name(entry.target or "", leaf)
