"""Two dumps as one table: entries in execution order, each with its pairs of leaves.

The table holds plain lists and one array of row ranges; what a row means is read from it by ``measure`` (numbers),
``cells`` and the analyses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.items import OUTPUT, Leaf, is_tensor, leaves
from msprobe.compare.match.protocol import Match
from msprobe.compare.pairs import EntryKey, EntryPair, entry_keys, in_execution_order
from msprobe.compare.plain import FloatPairs, float_pairs
from msprobe.core.store.reader import Dump

_FLOATS = frozenset({"float16", "float32", "bfloat16", "float64"})


@dataclass
class LeafTable:
    """``starts[e]:starts[e + 1]`` are the rows of entry ``e``; a row has a leaf on one side or on both."""

    entries: list[EntryPair] = field(default_factory=list)
    target: list[Leaf | None] = field(default_factory=list)
    golden: list[Leaf | None] = field(default_factory=list)
    starts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    keys: list[EntryKey] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return len(self.target)

    @cached_property
    def float_pairs(self) -> FloatPairs:
        """The statistics of ordinary rows; ask for it when the table is complete."""
        return float_pairs(self.target, self.golden)

    def entry_of_row(self) -> NDArray[np.int64]:
        """The entry number of every row."""
        return np.repeat(np.arange(len(self.entries)), np.diff(self.starts))

    def key(self, entry: int) -> EntryKey:
        """The parsed name of an entry, of the target where it has one."""
        return self.keys[entry]


def build_table(target: Dump, golden: Dump, match: Match, *, dtype_gate: bool = False) -> LeafTable:
    """Pair two dumps. ``dtype_gate`` un-pairs leaves of different dtype classes, as the published rules do."""
    parsed: dict[str, tuple[str, str, int | None]] = {}
    left, right = entry_keys(target.data, target.construct, parsed), entry_keys(golden.data, golden.construct, parsed)
    table = LeafTable()
    ours_by_name, theirs_by_name = {key.name: key for key in left}, {key.name: key for key in right}
    starts = [0]
    for pair in _entry_pairs(match, left, right):
        ours = leaves(pair.target, target.data[pair.target]) if pair.target is not None else []
        theirs = leaves(pair.golden, golden.data[pair.golden]) if pair.golden is not None else []
        if pair.target is not None and pair.golden is not None and ours_by_name[pair.target].recompute:
            ours, theirs = _as_far_as_both(ours, theirs)
        _append(table, ours, theirs, dtype_gate)
        table.entries.append(pair)
        table.keys.append(ours_by_name[pair.target] if pair.target is not None else theirs_by_name[pair.golden or ""])
        starts.append(len(table.target))
    table.starts = np.array(starts, np.int64)
    _excuse_cut_off(table.entries, target.recovered, golden.recovered)
    return table


def _entry_pairs(match: Match, target: list[EntryKey], golden: list[EntryKey]) -> Iterator[EntryPair]:
    if target == golden:  # the same calls in the same order: nothing to match
        return (EntryPair(key.name, key.name) for key in target)
    return in_execution_order(match.pairs(target, golden), target, golden)


def _excuse_cut_off(entries: list[EntryPair], target_ended: bool, golden_ended: bool) -> None:
    """What follows the last entry of a run that died, or still runs, is not missing."""
    for number in range(len(entries) - 1, -1, -1):
        pair = entries[number]
        if not ((target_ended and pair.target is None) or (golden_ended and pair.golden is None)):
            return
        entries[number] = pair._replace(benign=True)


def _as_far_as_both(ours: list[Leaf], theirs: list[Leaf]) -> tuple[list[Leaf], list[Leaf]]:
    """A recomputation may end in the middle of a call, as soon as backward has what it needs."""
    if all(any(leaf.slot == OUTPUT for leaf in side) for side in (ours, theirs)):
        return ours, theirs
    both = {leaf.suffix for leaf in ours} & {leaf.suffix for leaf in theirs}
    return [leaf for leaf in ours if leaf.suffix in both], [leaf for leaf in theirs if leaf.suffix in both]


def _append(table: LeafTable, ours: list[Leaf], theirs: list[Leaf], dtype_gate: bool) -> None:
    if not dtype_gate and [leaf[0] for leaf in ours] == [leaf[0] for leaf in theirs]:
        table.target.extend(ours)
        table.golden.extend(theirs)
        return
    waiting = {leaf.suffix: leaf for leaf in theirs}
    for leaf in ours:
        match = waiting.get(leaf.suffix)
        if match is not None and dtype_gate and not _same_class(leaf.raw, match.raw):
            match = None
        if match is not None:
            del waiting[leaf.suffix]
        table.target.append(leaf)
        table.golden.append(match)
    table.target.extend([None] * len(waiting))
    table.golden.extend(waiting.values())


def _same_class(target: Any, golden: Any) -> bool:
    left, right = _dtype(target), _dtype(golden)
    return left == right or (left.rpartition(".")[2] in _FLOATS and right.rpartition(".")[2] in _FLOATS)


def _dtype(raw: Any) -> str:
    return str(raw["dtype"] if is_tensor(raw) else raw.get("type")) if isinstance(raw, Mapping) else str(type(raw))
