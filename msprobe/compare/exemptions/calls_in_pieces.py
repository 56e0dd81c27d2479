"""Exemption for calls that one side makes once with all rows, and the other several times with some of them.

A feed-forward block may be called in chunks, an activation once for each expert or once for all of them, an encoder
once for each half of the batch. Such calls have no partner of their size. But the statistics of the whole follow from
those of the pieces (``numerics.merged_statistics``): where the calls of one operation, directly in one call of a
module, add up to as many elements on both sides, they are put together, and so are the calls inside of them and their
gradients. The whole stands in the entry of the first pair; the other calls are parts of it.

What is put together has lost the order of its elements, and is judged like a tensor of another layout. What does not
add up (a sum over the rows of each piece, its share of the gradient of a weight) is not judged there: what leaves the
module around it, and the gradients of parameters, show it. Functions are put together only where their results agree:
the calls of one function in one module may have nothing in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.exemptions.fused_layers import is_usable
from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.inputs.mode import Policy
from msprobe.compare.inputs.structure import STRUCTURE
from msprobe.compare.records.call_source import in_phase
from msprobe.compare.records.entries import OF_PARAMETERS, Absence, is_module, parent_of, parents_of
from msprobe.compare.table.table import JoinedTensors, LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OF_ONE_PROCESS, OUTPUT, Leaf
from msprobe.core.tensors.projection import KEY
from msprobe.core.tensors.statistics import NORM
from msprobe.numerics.tolerance import rounded_to, unit_roundoff, with_digits
from msprobe.numerics.verdict import Ints, Measured, RowKind
from msprobe.trace.leaves import as_float, element_count
from msprobe.trace.likeness import same_values

_FORWARD, _BACKWARD = Phase.FORWARD.value, Phase.BACKWARD.value
_OF_THE_WHOLE = OF_ONE_PROCESS | {KEY}
_ROUNDED = ("Mean", NORM.name)
"""The statistics that are recorded in the dtype of their tensor."""
_Raw = dict[str, Any]
_Sides = tuple[Sequence[int], Sequence[int]]
_Scope = tuple[str, "int | str | _Scope | None", int]
"""What calls must have in common to be pieces of one whole: their name; what is around them (the entry of a call of
both sides, the scope of calls that are put together themselves, a call of one side in words, or nothing); for functions
the stretch between calls with partners."""
_COPIES: tuple[_Raw, _Raw] = ({}, {})
"""Stands for pieces that are one tensor: a weight that every call gets."""


class CallsInPieces(Exemption):
    """Puts together what one side does in another number of calls."""

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with the calls put together."""
        tasks = dumps.target.task, dumps.golden.task
        if table.loose or table.checksums or dumps.policy is Policy.REFERENCE or STRUCTURE in tasks:
            return table
        calls = zip(table.entries, table.keys, strict=True)
        if all(pair.of_both or key.phase != _FORWARD for pair, key in calls):
            return table
        # Where all pairs have one size, no call is a piece of another one: nearly all pairs of dumps end here.
        if all(element_count(target) == element_count(golden) for target, golden in table.float_pairs.kind_samples):
            return table
        groups = list(_Grouping(table, dumps).groups())
        wholes = _Wholes(table)
        for group in groups:
            wholes.add(group)
        return wholes.table() if groups else table

    def relax(self, table: LeafTable, kinds: Ints) -> None:
        """Mark what was put together as another layout, and its parts as not judged."""
        for row in table.together if table.in_pieces else ():
            if row not in table.in_pieces and kinds[row] == RowKind.NONE:
                kinds[row] = RowKind.OTHER_LAYOUT
        kinds[list(table.in_pieces)] = RowKind.UNCHECKED

    def meaningless_rows(self, table: LeafTable, measured: Measured) -> Sequence[int]:
        """Return the rows of the parts, and those that do not add up."""
        return sorted(table.in_pieces)

    def remarks(self, table: LeafTable) -> list[str]:
        """Return a sentence about how many calls were put together."""
        parts = [pair for pair in table.entries if pair.absence is Absence.IN_PIECES]
        if not parts:
            return []
        return [
            f"calls in pieces: {len(parts)} calls with a part of the rows were put together, compared as one (first: "
            f"{parts[0].sided})"
        ]


class _Group(NamedTuple):
    """The entries of both sides that make one whole, and the entry that stands for it; None where no pair does."""

    target: Sequence[int]
    golden: Sequence[int]
    whole: int | None


class _Grouping:
    """Finds the calls that are pieces of one whole, from outside to inside.

    Args:
        table: both dumps.
        dumps: the dumps with the call around each call.
    """

    def __init__(self, table: LeafTable, dumps: ComparedDumps) -> None:
        self.table, self.dumps = table, dumps
        self._inside: tuple[dict[str, int | _Scope], dict[str, int | _Scope]] = ({}, {})

    def groups(self) -> Iterator[_Group]:
        """Yield the groups of forward calls, each with that of its gradients."""
        for calls in self._by_depth:
            found: dict[_Scope, tuple[list[int], list[int]]] = {}
            for number, side, around in calls:
                scope = self._scope_of(number, side, around)
                if scope is None:
                    self._inside[side][_name(self.table, number, side)] = number
                else:
                    found.setdefault(scope, ([], []))[side].append(number)
            for scope, sides in found.items():
                group = _group(self.table, *sides)
                together = all(sides) if isinstance(scope[1], tuple) else _is_whole(self.table, group)
                self._note(scope if together else None, sides)
                if together:
                    yield group
                    yield from self._gradients(group)

    @cached_property
    def _by_depth(self) -> list[list[tuple[int, int, str | None]]]:
        """The forward calls of each side with the call around them, by the number of calls around them."""
        depths: dict[int, list[tuple[int, int, str | None]]] = {}
        for number, (pair, key) in enumerate(zip(self.table.entries, self.table.keys, strict=True)):
            if key.phase != _FORWARD or key.recompute or pair.absence is not None:
                continue
            for side, name in enumerate(pair[:2]):
                if name is not None:
                    construct = self._construct(side)
                    depth = sum(1 for _ in parents_of(construct, name))
                    depths.setdefault(depth, []).append((number, side, parent_of(construct, name)))
        return [depths[depth] for depth in sorted(depths)]

    def _construct(self, side: int) -> Mapping[str, Any]:
        return (self.dumps.target, self.dumps.golden)[side].construct

    def _scope_of(self, number: int, side: int, around: str | None) -> _Scope | None:
        """Return the scope of a call; None where it has a partner of its own, and is no piece.

        Functions in a module may have nothing in common: those between two calls with partners are looked at.
        """
        key = self.table.keys[number]
        inside = None if around is None else self._inside[side].get(around, f"{side}: {around}")
        if isinstance(inside, tuple):
            return key.stem, inside, 0
        if number in self._settled or key.parent in OF_PARAMETERS:
            return None
        return key.stem, inside, 0 if is_module(key) else int(self._stretch[number])

    @cached_property
    def _settled(self) -> frozenset[int]:
        """The forward calls of both sides whose tensors have the same shapes, and that return the same values."""
        calls = zip(self.table.entries, self.table.keys, strict=True)
        return frozenset(
            number
            for number, (pair, key) in enumerate(calls)
            if pair.of_both and key.phase == _FORWARD and _is_settled(self.table, number)
        )

    @cached_property
    def _stretch(self) -> NDArray[np.int64]:
        """By entry the number of calls before it that have a partner of their own."""
        settled = np.zeros(len(self.table.entries), np.int64)
        settled[list(self._settled)] = 1
        return np.cumsum(settled)

    def _note(self, inside: _Scope | None, sides: _Sides) -> None:
        """Note what the calls inside of these calls have around them: the whole, or the pair."""
        for side, numbers in enumerate(sides):
            for number in numbers:
                if inside is not None:
                    self._inside[side][_name(self.table, number, side)] = inside
                elif self.table.entries[number].of_both:
                    self._inside[side][_name(self.table, number, side)] = number

    def _gradients(self, group: _Group) -> Iterator[_Group]:
        """Yield the group of the gradients of calls that are put together, where both sides have them."""
        sides = [
            [self._backward[side][name] for number in numbers if (name := self._backward_name(number, side))]
            for side, numbers in enumerate((group.target, group.golden))
        ]
        if all(sides):
            yield _group(self.table, *sides)

    def _backward_name(self, number: int, side: int) -> str:
        name = in_phase(_name(self.table, number, side), _BACKWARD)
        return name if name in self._backward[side] else ""

    @cached_property
    def _backward(self) -> tuple[dict[str, int], dict[str, int]]:
        """By side the backward entries by name."""
        found: tuple[dict[str, int], dict[str, int]] = ({}, {})
        for number, (pair, key) in enumerate(zip(self.table.entries, self.table.keys, strict=True)):
            for side, name in enumerate(pair[:2]):
                if name is not None and key.phase == _BACKWARD:
                    found[side][name] = number
        return found


def _group(table: LeafTable, target: Sequence[int], golden: Sequence[int]) -> _Group:
    pairs = sorted(number for number in {*target} & {*golden} if table.entries[number].of_both)
    return _Group(target, golden, pairs[0] if pairs else None)


def _is_settled(table: LeafTable, number: int) -> bool:
    for row in table.rows_of(number):
        if _is_pair_of_tensors(table, row):
            target, golden = (_leaf(table, side, row) for side in (0, 1))
            if target.raw["shape"] != golden.raw["shape"]:
                return False
            if target.slot == OUTPUT and not same_values(target.raw, golden.raw):
                return False
    return True


def _is_whole(table: LeafTable, group: _Group) -> bool:
    """Return whether the calls of both sides have other sizes, and return as many elements together.

    They get as many elements together, or all of them the same tensor: then each makes some of the columns.
    """
    if group.whole is None or len(group.target) == len(group.golden):
        return False
    rows = [row for row in table.rows_of(group.whole) if _is_pair_of_tensors(table, row)]
    inputs, results = ([row for row in rows if _leaf(table, 0, row).slot == slot] for slot in (INPUT, OUTPUT))
    if not inputs or not results:
        return False
    wholes = [_joined(table, group, row) for row in (inputs[0], *results)]
    if None in wholes or all(whole is _COPIES for whole in wholes[1:]):
        return False
    if is_module(table.keys[group.whole]):
        return True
    return all(same_values(*whole) for whole in wholes[1:] if whole is not None and whole is not _COPIES)


def _is_pair_of_tensors(table: LeafTable, row: int) -> bool:
    sides = table.target[row], table.golden[row]
    return all(leaf is not None and is_usable(leaf.raw) for leaf in sides)


def _leaf(table: LeafTable, side: int, row: int) -> Leaf:
    leaf = (table.target, table.golden)[side][row]
    assert leaf is not None  # of a pair
    return leaf


def _joined(table: LeafTable, group: _Group, row: int) -> tuple[_Raw, _Raw] | None:
    """Return the tensors of both sides that the pieces of a row make; ``_COPIES`` where all pieces are the same tensor,
    and None where they do not add up."""
    pieces = [_pieces(table, numbers, side, _leaf(table, side, row)) for side, numbers in enumerate(group[:2])]
    if not all(pieces):
        return None
    sizes = [[int(element_count(raw)) for raw in side] for side in pieces]
    first = pieces[0][0]
    if len({*sizes[0], *sizes[1]}) == 1 and all(same_values(raw, first) for side in pieces for raw in side):
        return _COPIES
    if sum(sizes[0]) != sum(sizes[1]) or not sum(sizes[0]) or len({str(raw["dtype"]) for raw in pieces[0]}) > 1:
        return None
    from msprobe.compare.parallel.by_name.joined_record import joined_record  # loaded where there are pieces

    alone = next((side[0] for side in pieces if len(side) == 1), None)
    shape = [sum(sizes[0])] if alone is None else alone["shape"]
    target, golden = (
        _without_order(_with_digits_of(joined_record(own, numbers, shape), own))
        for own, numbers in zip(pieces, sizes, strict=True)
    )
    return target, golden


def _with_digits_of(whole: _Raw, pieces: Sequence[_Raw]) -> _Raw:
    """Return the record of a whole with as many digits as those of its pieces, where these are rounded to a dtype."""
    norms = np.array([as_float(raw.get(NORM.name)) for raw in pieces])
    roundoff = unit_roundoff(str(whole.get("dtype")))
    if not rounded_to(norms, np.full(len(norms), roundoff)).all():
        return whole
    rounded = {name: with_digits(as_float(whole[name]), roundoff) for name in _ROUNDED if whole.get(name) is not None}
    return {**whole, **rounded}


def _pieces(table: LeafTable, numbers: Sequence[int], side: int, of: Leaf) -> list[_Raw]:
    """Return the tensors at the place of a leaf in all of these entries; nothing where one of them has none."""
    leaves = (table.target, table.golden)[side]
    found = []
    for number in numbers:
        at_place = [
            leaf for row in table.rows_of(number) if (leaf := leaves[row]) is not None and _place(leaf) == _place(of)
        ]
        if len(at_place) != 1 or not is_usable(at_place[0].raw):
            return []
        found.append(at_place[0].raw)
    return found


def _place(leaf: Leaf) -> tuple[str, str]:
    return leaf.slot, leaf.suffix


def _without_order(raw: _Raw) -> _Raw:
    """Return the record of what was put together, whose order nothing tells, and which no file holds."""
    return {name: value for name, value in raw.items() if name not in _OF_THE_WHOLE}


class _Wholes:
    """The columns of a table while calls are put together."""

    def __init__(self, table: LeafTable) -> None:
        self._table, self._entries = table, list(table.entries)
        self._sides = list(table.target), list(table.golden)
        self._in_pieces: set[int] = set()
        self._together = dict(table.together)

    def add(self, group: _Group) -> None:
        """Let one entry stand for a group, and make the others parts of it."""
        for number in {*group.target, *group.golden} - {group.whole}:
            self._entries[number] = self._entries[number]._replace(absence=Absence.IN_PIECES)
            self._in_pieces.update(self._table.rows_of(number))
        if group.whole is None:
            return
        in_golden = len(group.golden) > len(group.target)
        names = tuple(_name(self._table, number, in_golden) for number in (group.golden if in_golden else group.target))
        for row in self._table.rows_of(group.whole):
            whole = _joined(self._table, group, row) if _is_pair_of_tensors(self._table, row) else _COPIES
            if whole is None:
                self._in_pieces.add(row)
            elif whole is not _COPIES:
                self._replace(row, whole)
                piece = _leaf(self._table, in_golden, row)
                text = " + ".join(f"{name}{piece.suffix}" for name in names)
                self._together[row] = JoinedTensors(text, in_golden, piece.raw)

    def _replace(self, row: int, whole: tuple[_Raw, _Raw]) -> None:
        for side, (leaves, raw) in enumerate(zip(self._sides, whole, strict=True)):
            leaves[row] = _leaf(self._table, side, row)._replace(raw=raw)

    def table(self) -> LeafTable:
        """Return the table with what was added."""
        return replace(
            self._table,
            entries=self._entries,
            target=self._sides[0],
            golden=self._sides[1],
            together=self._together,
            in_pieces=frozenset(self._in_pieces),
        )


def _name(table: LeafTable, number: int, side: int) -> str:
    """Return the name that an entry has on a side."""
    pair = table.entries[number]
    return (pair.golden if side else pair.target) or ""
