"""A part of two dumps of the same calls, as the process sees it that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from msprobe.compare.alignment.protocol import SAME, Alignment, Side
from msprobe.compare.divided.channel import Arrays, Channel
from msprobe.compare.float_columns import ColumnTypes, column_types
from msprobe.compare.mode import Mode, mode_of
from msprobe.compare.pairs import EntryKey
from msprobe.compare.row_facts import RowFacts, row_facts
from msprobe.compare.table import LeafTable, build_table, same_entries
from msprobe.core.errors import MsprobeException
from msprobe.core.free_memory import trim_memory
from msprobe.core.store.parts import Part, records_in
from msprobe.core.store.reader import Dump, check_records


class UndividedError(Exception):
    """The dumps are not to be compared in parts: their calls differ, or something is wrong with them."""


@dataclass(slots=True)
class Account:
    """What is known of a part outside of its process. ``lone`` is that of its table, ``keys`` its entries."""

    mode: Mode
    keys: Sequence[EntryKey]
    starts: Any
    lone: Any
    repeated: bool
    facts: RowFacts
    types: ColumnTypes

    def send(self, channel: Channel) -> None:
        """Send the account to the other process."""
        columns = list(zip(*self.keys, strict=True))
        head = [self.mode.value, columns, self.repeated, self.types]
        arrays = {one.name: getattr(self.facts, one.name) for one in fields(RowFacts)}
        channel.send(head, {**arrays, "starts": self.starts, "lone": self.lone})


def received(head: Any, arrays: Arrays) -> Account:
    """Return the account that was sent."""
    mode, columns, repeated, types = head
    facts = RowFacts(**{one.name: arrays[one.name] for one in fields(RowFacts)})
    keys = [EntryKey(*one) for one in zip(*columns, strict=True)]
    return Account(Mode(mode), keys, arrays["starts"], arrays["lone"], repeated, facts, types)


@dataclass(slots=True)
class OwnPart:
    """``target`` and ``golden`` hold the records of the part alone."""

    target: Dump
    golden: Dump
    table: LeafTable
    account: Account


class _Same:
    def align(self, target: Side, golden: Side) -> Alignment:
        return SAME


def own_part(outlines: tuple[Dump, Dump], parts: tuple[Part, Part], *, dtype_gate: bool) -> OwnPart:
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
    except MsprobeException as error:  # whatever is wrong is told by who compares the whole
        raise UndividedError from error
    with np.errstate(all="ignore"):
        facts = row_facts(table, checksums=mode is Mode.CHECKSUM)
    trim_memory()
    found = Account(
        mode, table.keys, table.starts, table.lone, table.repeated, facts, column_types(table) if dtype_gate else []
    )
    return OwnPart(target, golden, table, found)


def agree(accounts: Sequence[Account]) -> bool:
    """Whether the parts make one comparison: of one mode, no call twice, and recomputation told alike."""
    names = {key.name for account in accounts for key in account.keys}
    if len({account.mode for account in accounts}) > 1 or len(names) < sum(len(one.keys) for one in accounts):
        return False
    # Where construct.json tells of recomputed calls, the records do it for calls beside them (see entry_keys).
    unaware = [one for one in accounts if not one.repeated and any(key.recompute for key in one.keys)]
    return not unaware or not any(one.repeated for one in accounts)


def _loaded(outline: Dump, part: Part) -> Dump:
    data = records_in(part.document())
    check_records(outline.place, data)
    return replace(outline, data=data)
