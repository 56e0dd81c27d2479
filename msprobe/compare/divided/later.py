"""Records and leaves of a part that another process reads, for the few that are asked for here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np

from msprobe.compare.items import Leaf
from msprobe.compare.leaf_pairs import LeafPairs
from msprobe.compare.pairs import EntryKey
from msprobe.compare.table import paired_leaves
from msprobe.core.errors import ReadError
from msprobe.core.store.parts import Part, records_in
from msprobe.numerics.verdict import Ints

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
        return {name: record for part, _ in self._parts for name, record in records_in(part.document()).items()}

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
