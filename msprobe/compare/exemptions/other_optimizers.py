"""Optimizers of which each side has an implementation of its own: the parameters after the step decide.

An optimizer that the program itself writes makes other calls than that of the framework, or the same functions for
another purpose. So where the optimizers are of different classes, or each makes a kind of call that the other one does
not (``foreach``, ``fused``), or one side has written what the framework computes on the other, their calls are not
paired one by one. The last call that changes a parameter on one side pairs with the last one on the other
(``records.in_place_updates``), and their results are compared. Where no chain of calls shows a parameter, the header
does, if it has the parameters after the step. All other calls of these optimizers are calls of one side. Where no
parameter is known before and after, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.inputs.mode import Mode, Policy
from msprobe.compare.records.entries import OPTIMIZER, EntryKey, EntryPair, entry_keys, parent_of, path_of, stem_of
from msprobe.compare.records.in_place_updates import InPlaceUpdates, Update
from msprobe.compare.records.optimizer_steps import optimizer_steps, paired_steps, parameters_after
from msprobe.compare.records.recorder import side_of_another_tool
from msprobe.compare.records.source_lines import frame_of
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import OUTPUT, PARAMETER, Leaf
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.numerics.tolerance import FLOAT32_ROUNDOFF


@dataclass(frozen=True, slots=True)
class _UpdatedParameter:
    """A parameter, and the last update of it on both sides."""

    name: str
    target: Update
    golden: Update


class OtherOptimizers(Exemption):
    """Pairs the results of two implementations of an optimizer, and none of their other calls."""

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with the last updates of parameters as pairs."""
        judged = dumps.policy is not Policy.REFERENCE and dumps.mode is not Mode.CHECKSUM
        if table.loose or table.other_entry or not judged:
            return table
        other_code = _are_other(dumps.target, dumps.golden)
        if not other_code and not _make_other_calls(dumps.target, dumps.golden):
            return table
        keys = [entry_keys(dump.data, dump.construct) for dump in (dumps.target, dumps.golden)]
        target, golden = (
            InPlaceUpdates(own, dump.data) for own, dump in zip(keys, (dumps.target, dumps.golden), strict=True)
        )
        after = _after_step(dumps.target), _after_step(dumps.golden)
        updated = list(_updated_parameters(table, (target, golden), after))
        if not other_code and any(map(_is_coarse, updated)):
            return table  # implementations round a parameter of 16 bits at other places: its next use decides
        return _Rebuilt(table, updated, {key.name: key for key in keys[1]}).table() if updated else table


def _are_other(target: Dump, golden: Dump) -> bool:
    """Return whether both sides have optimizers of their own kind, or one side has none that is known as one."""
    ours, theirs = list(optimizer_steps(target)), list(optimizer_steps(golden))
    if not ours or not theirs:  # another tool, and an earlier version, may not describe what is one
        plain = golden if ours else target
        described = bool(ours or theirs) and side_of_another_tool(target, golden) is None
        return described and not any(parent_of(plain.construct, name) == OPTIMIZER for name in plain.data)
    if any(own.kind != other.kind for own, other in paired_steps(ours, theirs)):
        return True
    if target.data.keys() == golden.data.keys():  # they pair one by one, whoever makes them
        return False
    return {_of_library(target), _of_library(golden)} == {True, False}


def _make_other_calls(target: Dump, golden: Dump) -> bool:
    """Return whether the optimizers of each side make a kind of call that those of the other side do not."""
    kinds, other_kinds = _kinds_of_calls(target), _kinds_of_calls(golden)
    return bool(kinds - other_kinds and other_kinds - kinds)


def _is_coarse(parameter: _UpdatedParameter) -> bool:
    dtype = find_dtype(str(parameter.golden.leaf.raw.get("dtype")))
    return dtype is not None and dtype.unit_roundoff > FLOAT32_ROUNDOFF


def _kinds_of_calls(dump: Dump) -> set[str]:
    """Return the functions that optimizers call, as ``Torch._foreach_add_``."""
    names = (name for name in dump.data if parent_of(dump.construct, name) == OPTIMIZER)
    return {stem_of(name) for name in names}


def _after_step(dump: Dump) -> dict[str, Update]:
    """Return the parameters that the header has after the step, each as a result of the last call of an optimizer."""
    calls = [name for name in dump.data if parent_of(dump.construct, name) == OPTIMIZER]
    if not calls:
        return {}
    position = len(dump.data)  # behind every call
    return {
        name: Update(calls[-1], Leaf(f".after_step.{name}", OUTPUT, raw), position)
        for name, raw in parameters_after(dump).items()
    }


def _of_library(dump: Dump) -> bool | None:
    """Return whether a library makes the calls of the optimizer; None where that is not recorded."""
    for name in dump.data:
        if parent_of(dump.construct, name) == OPTIMIZER and (stack := dump.stacks.get(name)):
            return frame_of(stack[0]).is_library
    return None


def _updated_parameters(
    table: LeafTable, updates: tuple[InPlaceUpdates, InPlaceUpdates], after: tuple[dict[str, Update], dict[str, Update]]
) -> Iterator[_UpdatedParameter]:
    """Yield the parameters of both sides of which both sides show the last update, or what the step left."""
    seen: set[str] = set()
    for row, (own, other) in enumerate(zip(table.target, table.golden, strict=True)):
        if own is None or other is None or own.slot != PARAMETER:
            continue
        (entry,) = table.entries_of([row])
        name = f"{path_of(table.keys[entry].stem)}.{own.suffix.rpartition('.')[2]}".lstrip(".")
        if name not in seen:
            ours, theirs = _last_updates(*updates, own, other) or (after[0].get(name), after[1].get(name))
            if ours is not None and theirs is not None:
                yield _UpdatedParameter(name, ours, theirs)
        seen.add(name)


def _last_updates(
    target: InPlaceUpdates, golden: InPlaceUpdates, own: Leaf, other: Leaf
) -> tuple[Update, Update] | None:
    """Return the last update of a parameter on both sides; None where one side does not show it."""
    ours, theirs = target.last(own.raw), golden.last(other.raw)
    if theirs is not None:
        ours = target.nearest(theirs, ours)
    if ours is not None:
        theirs = golden.nearest(ours, theirs)
    return (ours, theirs) if ours is not None and theirs is not None else None


@dataclass(slots=True)
class _Rebuilt:
    """The columns of a table while it grows again, with other pairs of optimizer calls.

    Args:
        old: the table.
        parameters: the parameters whose last updates are pairs.
        golden_keys: the entries of the golden run by name.
    """

    old: LeafTable
    parameters: Sequence[_UpdatedParameter]
    golden_keys: dict[str, EntryKey]
    entries: list[EntryPair] = field(default_factory=list)
    keys: list[EntryKey] = field(default_factory=list)
    target: list[Leaf | None] = field(default_factory=list)
    golden: list[Leaf | None] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    alike: list[bool] = field(default_factory=list)
    updated: dict[int, str] = field(default_factory=dict)

    def table(self) -> LeafTable:
        """Return the new table."""
        results = {(one.target.entry, one.target.leaf.suffix) for one in self.parameters}
        others = {(one.golden.entry, one.golden.leaf.suffix) for one in self.parameters}
        names = {name for name, _ in results}, {name for name, _ in others}
        for number, (pair, key) in enumerate(zip(self.old.entries, self.old.keys, strict=True)):
            rows = self.old.rows_of(number)
            sides = self.old.target[rows.start : rows.stop], self.old.golden[rows.start : rows.stop]
            of_golden = None if pair.golden is None else self.golden_keys[pair.golden]
            of_optimizer = OPTIMIZER in (key.parent, of_golden and of_golden.parent)
            if not of_optimizer and pair.target not in names[0] and pair.golden not in names[1]:
                self._add(pair, key, *sides, alike=self.old.alike[number])
                continue
            if pair.target is not None:
                own = [leaf for leaf in sides[0] if leaf is not None and (pair.target, leaf.suffix) not in results]
                self._add(EntryPair(pair.target, None), key, own, [None] * len(own))
                self._add_results(pair.target, key)
            if pair.golden is not None and of_golden is not None:
                own = [leaf for leaf in sides[1] if leaf is not None and (pair.golden, leaf.suffix) not in others]
                self._add(EntryPair(None, pair.golden), of_golden, [None] * len(own), own)
        return replace(
            self.old,
            entries=self.entries,
            keys=self.keys,
            target=self.target,
            golden=self.golden,
            starts=np.array(self.starts, np.int64),
            alike=self.alike,
            updated=self.updated,
            lone_rows=None,
        )

    def _add(
        self,
        pair: EntryPair,
        key: EntryKey,
        target: Sequence[Leaf | None],
        golden: Sequence[Leaf | None],
        *,
        alike: bool = False,
    ) -> None:
        if not target and pair.target in (None, key.name) and not pair.of_both:
            return
        self.entries.append(pair)
        self.keys.append(key)
        self.target.extend(target)
        self.golden.extend(golden)
        self.starts.append(len(self.target))
        self.alike.append(alike)

    def _add_results(self, entry: str, key: EntryKey) -> None:
        """Add the parameters that a call of the target updates last, with each call of the golden run that does."""
        by_partner: dict[str, list[_UpdatedParameter]] = {}
        for parameter in self.parameters:
            if parameter.target.entry == entry:
                by_partner.setdefault(parameter.golden.entry, []).append(parameter)
        for partner, parameters in by_partner.items():
            for offset, parameter in enumerate(parameters):
                self.updated[len(self.target) + offset] = parameter.name
            self._add(
                EntryPair(entry, partner),
                key,
                [parameter.target.leaf for parameter in parameters],
                [parameter.golden.leaf for parameter in parameters],
            )
