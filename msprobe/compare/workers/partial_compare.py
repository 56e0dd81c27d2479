"""A pair of dumps of the same calls, compared in parts.

Each process reads its own part of both documents (``own_part``) and sends what its rows say, the ``PartSummary``, to
the process that concludes. There ``joined`` makes one table and its verdicts of all parts. Records and leaves of parts
that other processes read (``LaterRecords``, ``LaterPairs``, ``JoinedLeaves``) are read again only when they are asked
for, which is seldom.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain
from typing import Any, cast, overload

import numpy as np

from msprobe.compare.alignment.protocol import SAME, Alignment, Side
from msprobe.compare.comparison import Comparison, StepHistory, has_differences, judged_as
from msprobe.compare.differences.measure import measure
from msprobe.compare.differences.row_facts import RowFacts, joined_facts, row_facts
from msprobe.compare.differences.row_remarks import of_calls
from msprobe.compare.exemptions.on_demand import gradients_begin_otherwise, speaking
from msprobe.compare.exemptions.protocol import ComparedDumps
from msprobe.compare.inputs.mode import Mode, Policy, mode_of
from msprobe.compare.records.entries import EntryKey, EntryPair
from msprobe.compare.rows.cells import ColumnTypes, column_types
from msprobe.compare.rows.levels import row_levels
from msprobe.compare.table.leaf_pairs import LeafPairs
from msprobe.compare.table.precisions import other_formats
from msprobe.compare.table.table import LeafTable, build_table, paired_leaves, same_entries
from msprobe.compare.workers.fork_channel import Arrays, Channel, UndividedError
from msprobe.core.errors import MsprobeException, ReadError
from msprobe.core.host import trim_memory
from msprobe.core.store.partial_reader import Part, records_in
from msprobe.core.store.reader import Dump, check_records
from msprobe.core.store.record_walk import Leaf
from msprobe.numerics.verdict import Ints


@dataclass(slots=True)
class PartSummary:
    """What other processes know of a part. ``starts``, ``lone`` and ``keys`` are those of its table."""

    mode: Mode
    keys: Sequence[EntryKey]
    starts: Any
    lone: Any
    repeated: bool
    facts: RowFacts
    types: ColumnTypes

    def send(self, channel: Channel) -> None:
        """Send the summary to the other process."""
        columns = list(zip(*self.keys, strict=True))
        head = [self.mode.value, columns, self.repeated, self.types]
        arrays = {one.name: getattr(self.facts, one.name) for one in fields(RowFacts)}
        channel.send(head, {**arrays, "starts": self.starts, "lone": self.lone})


def received(head: Any, arrays: Arrays) -> PartSummary:
    """Return the summary that was sent."""
    mode, columns, repeated, types = head
    facts = RowFacts(**{one.name: arrays[one.name] for one in fields(RowFacts)})
    keys = [EntryKey(*one) for one in zip(*columns, strict=True)]
    return PartSummary(Mode(mode), keys, arrays["starts"], arrays["lone"], repeated, facts, types)


@dataclass(slots=True)
class LocalPart:
    """``target`` and ``golden`` hold the records of the part alone."""

    target: Dump
    golden: Dump
    table: LeafTable
    summary: PartSummary


class _Same:
    def align(self, target: Side, golden: Side) -> Alignment:
        return SAME


def own_part(outlines: tuple[Dump, Dump], parts: tuple[Part, Part], *, dtype_gate: bool) -> LocalPart:
    """Read a part of both dumps, of which ``outlines`` has all but the records, and say what its rows say.

    Raises:
        UndividedError: see there.
    """
    try:
        target, golden = (_loaded(outline, part) for outline, part in zip(outlines, parts, strict=True))
        if not same_entries(target, golden):
            raise UndividedError
        mode = mode_of(target, golden)
        table = build_table(target, golden, _Same(), dtype_gate=dtype_gate, checksums=mode is Mode.CHECKSUM)
        if not dtype_gate and _has_factor(table):
            raise UndividedError
        if not dtype_gate and other_formats(table) is not None:
            raise UndividedError
    except MsprobeException as error:  # whatever is wrong is told by who compares the whole
        raise UndividedError from error
    with np.errstate(all="ignore"):
        facts = row_facts(table, checksums=mode is Mode.CHECKSUM)
        of_calls(table, target.data, golden.data, facts.remarks)
    trim_memory()
    found = PartSummary(
        mode, table.keys, table.starts, table.lone, table.repeated, facts, column_types(table) if dtype_gate else []
    )
    return LocalPart(target, golden, table, found)


def _has_factor(table: LeafTable) -> bool:
    """Return whether the gradients of one side may be those of a scaled loss, which the whole decides."""
    if not gradients_begin_otherwise(table):
        return False
    from msprobe.compare.exemptions.gradients.scaled_losses import factor_of_gradients  # where gradients differ

    return factor_of_gradients(table) is not None


def agree(summaries: Sequence[PartSummary]) -> bool:
    """Whether the parts make one comparison: of one mode, no call twice, and recomputation told alike."""
    names = {key.name for part in summaries for key in part.keys}
    if len({part.mode for part in summaries}) > 1 or len(names) < sum(len(one.keys) for one in summaries):
        return False
    # Where construct.json tells of recomputed calls, the records do it for calls beside them (see entry_keys).
    unaware = [one for one in summaries if not one.repeated and any(key.recompute for key in one.keys)]
    return not unaware or not any(one.repeated for one in summaries)


def _loaded(outline: Dump, part: Part) -> Dump:
    data = part.records()
    check_records(outline.place, data)
    return replace(outline, data=data)


Pair = tuple[Sequence[Leaf | None], Sequence[Leaf | None]]


class LaterRecords(Mapping[str, Any]):
    """The records of parts by name, each read when it is asked for."""

    def __init__(self, parts: Sequence[tuple[Part, Sequence[str]]]) -> None:
        self._parts = parts

    @cached_property
    def _texts(self) -> dict[str, bytes]:
        """The record of each name as it stands in the document, behind the quote that begins it."""
        found: dict[str, bytes] = {}
        for part, names in self._parts:
            found.update(zip(names, part.text()[1:].split(part.separator), strict=False))
        return found

    @cached_property
    def _whole(self) -> dict[str, Any]:
        return {name: record for part, _ in self._parts for name, record in part.records().items()}

    def __getitem__(self, name: str) -> Any:
        try:
            return records_in(b'{"' + self._texts[name] + b"}")[name]
        except (KeyError, ReadError):  # a name that stands there twice shifts those behind it
            return self._whole[name]

    def __iter__(self) -> Iterator[str]:
        return (name for _, names in self._parts for name in names)

    def __len__(self) -> int:
        return sum(len(names) for _, names in self._parts)


class LaterPairs:
    """The pairs of leaves of some entries, by number from 0; ``records`` are those of target and golden."""

    def __init__(self, inside: LeafPairs, keys: Sequence[EntryKey], records: tuple[LaterRecords, LaterRecords]) -> None:
        self._inside, self._keys, self._records = inside, keys, records
        self._known: dict[int, Pair] = {}

    def of(self, entry: int) -> Pair:
        """Both sides of an entry."""
        found = self._known.get(entry)
        if found is None:
            key = self._keys[entry]
            made = paired_leaves(self._inside, (key, key), self._records)
            self._known[entry] = found = ((), ()) if made is None else made[:2]
        return found


class JoinedLeaves(Sequence[Leaf | None]):
    """The leaves of one side (0 target, 1 golden) of a table in parts, of which the first is here.

    ``starts`` are those of the whole table; ``later`` has the entries behind the ``entries`` of the first part.
    """

    def __init__(self, own: Sequence[Leaf | None], starts: Ints, entries: int, later: LaterPairs, side: int) -> None:
        self._own, self._starts, self._entries, self._later, self._side = own, starts, entries, later, side

    def __len__(self) -> int:
        return int(self._starts[-1])

    @overload
    def __getitem__(self, row: int) -> Leaf | None: ...
    @overload
    def __getitem__(self, row: slice) -> list[Leaf | None]: ...
    def __getitem__(self, row: int | slice) -> Leaf | list[Leaf | None] | None:
        if isinstance(row, slice):
            return [self[one] for one in range(*row.indices(len(self)))]
        if row < len(self._own):
            return self._own[row]
        entry = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._later.of(entry - self._entries)[self._side][row - int(self._starts[entry])]


_Records = dict[str, Any]


def joined(
    own: LocalPart,
    others: Sequence[PartSummary],
    parts: Sequence[tuple[Part, Part]],
    policy: Policy,
    history: StepHistory,
) -> Comparison:
    """The comparison of all parts: ``own`` is the first one, ``others`` are further ones, whose records lie in
    ``parts``. Those records, and the leaves in them, are read when they are asked for."""
    names = [[key.name for key in part.keys] for part in others]
    ours, theirs = (
        LaterRecords([(pair[side], one) for pair, one in zip(parts, names, strict=True)]) for side in (0, 1)
    )
    target, golden = _whole(own.target, ours), _whole(own.golden, theirs)
    table = _table(own, others, golden, (ours, theirs), dtype_gate=policy is Policy.REFERENCE)
    with np.errstate(all="ignore"):  # what overflows or is no number stays visible in the verdict
        facts = joined_facts([own.summary.facts, *(other.facts for other in others)])
        measured = measure(table, facts, speaking, cancelled_gradients=history.cancelled_gradients)
        trim_memory()
        judged = judged_as(own.summary.mode, measured, history)
        dumps, end = ComparedDumps(target, golden, own.summary.mode, policy), None
        if has_differences(judged):
            from msprobe.compare.regions.without_consequence import ConsequenceRules  # where runs differ

            table, end = ConsequenceRules(table, dumps).judged(measured, judged)
    if not history.last_step:
        history.cancelled_gradients.add_updates(table, target, golden)
    trim_memory()
    levels = row_levels(table, judged, policy)
    mode, remarks = own.summary.mode, facts.remarks
    return Comparison(target, golden, mode, policy, table, measured, judged, levels, None, remarks, end=end)


def _table(
    own: LocalPart,
    others: Sequence[PartSummary],
    golden: Dump,
    records: tuple[LaterRecords, LaterRecords],
    *,
    dtype_gate: bool,
) -> LeafTable:
    later = [key for part in others for key in part.keys]
    keys = [*own.table.keys, *later]
    ends = np.cumsum([0, *(int(one.starts[-1]) for one in (own.summary, *others))])
    parts = [own.table.starts, *(one.starts[1:] + end for one, end in zip(others, ends[1:].tolist(), strict=False))]
    starts = np.concatenate(parts)
    pairs = LaterPairs(LeafPairs(golden, SAME, dtype_gate, across=False), later, records)
    return LeafTable(
        entries=[*own.table.entries, *(EntryPair(key.name, key.name) for key in later)],
        target=JoinedLeaves(own.table.target, starts, len(own.table.keys), pairs, 0),
        golden=JoinedLeaves(own.table.golden, starts, len(own.table.keys), pairs, 1),
        starts=starts,
        keys=keys,
        published=dtype_gate,
        checksums=own.table.checksums,
        lone_rows=np.concatenate([own.table.lone, *(part.lone for part in others)]),
    )


def _whole(dump: Dump, later: LaterRecords) -> Dump:
    return replace(dump, data=cast(dict[str, _Records], _JoinedRecords(dump.data, cast(Any, later))))


class _JoinedRecords(ChainMap[str, Any]):
    """Records of which the names stand in the order of the document."""

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.maps)
