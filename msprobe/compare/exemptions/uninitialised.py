"""Values that were never written: the memory that ``empty`` and similar functions return.

Newer dumps say so of each tensor, and have no values for it. In older ones, and for what is computed from such memory:
the content of such a tensor differs from run to run and means nothing; so does what is computed from it until a call
writes it. The tensor is recognised at later uses by its statistics or checksum on both sides. What a call overwrites as
a whole (``copy_``, ``fill_``) needs no such proof. A call that writes a part of such memory, or makes a view of a part,
computes nothing from it: its results are judged as those of any other call. Where both sides agree there is nothing to
excuse. A wrong shape, dtype or argument stays an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

import numpy as np

from msprobe.compare.exemptions.protocol import Exemption
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import NOT_READ, UNINITIALISED, has_no_values
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.verdict import Ints, Measured, Role, RowKind

_MAKERS = frozenset({"empty", "empty_like", "empty_strided", "empty_with_format", "new_empty", "new_empty_strided"})
_WRITERS = frozenset({"copy_", "fill_", "zero_", "ones_", "eye_", "constant_", "normal_", "uniform_", "random_"})
_PART_WRITERS = frozenset({
    "__setitem__", "index_put_", "index_copy_", "index_fill_", "masked_fill_", "masked_scatter_", "scatter_",
})  # fmt: skip
_VIEWS = frozenset({
    "__getitem__", "as_strided", "chunk", "diagonal", "expand", "expand_as", "movedim", "narrow", "permute", "select",
    "split", "split_with_sizes", "squeeze", "t", "tensor_split", "transpose", "unbind", "unflatten", "unfold",
    "unsqueeze", "view", "view_as",
})  # fmt: skip
"""Functions that compute nothing: a part of memory has values after them if it had them before, and then says so."""
_FINGERPRINT = (*STATISTIC_NAMES, "md5", "shape", "dtype")
_NO_READERS = _PART_WRITERS | _VIEWS
_Fingerprint = tuple[tuple[str, ...], tuple[str, ...]]


class Uninitialised(Exemption):
    """Excuses differences of values that were never written."""

    def meaningless_rows(self, table: LeafTable, measured: Measured) -> Sequence[int]:
        """Return the rows whose values were never written (see ``_Unwritten``), and those that say so."""
        differs = (measured.kind != RowKind.NONE) | (measured.worst > 0.0)
        if not differs.any():
            return ()
        entry, called = table.entry_of_row(), np.zeros(len(table.entries), np.bool_)
        called[entry[differs]] = True
        without = measured.without_values[called[entry[measured.without_values]]].tolist()
        marked = [row for row in without if differs[row] and _says_so(table, row)]
        readers = {int(entry[row]) for row in without if _is_unwritten(table, row)}
        readers = {number for number in readers if table.keys[number].stem.rpartition(".")[2] not in _NO_READERS}
        differing = frozenset(np.flatnonzero(differs).tolist())
        return sorted({*marked, *_Unwritten(table, measured.role, differing).rows(readers)})


def _says_so(table: LeafTable, row: int) -> bool:
    """Return whether both sides have a tensor in this row, and one of them says that its values mean nothing, or both
    say that they have none."""
    sides = table.tensors(row)
    return len(sides) == 2 and (
        all(map(has_no_values, sides)) or any(UNINITIALISED in raw or NOT_READ in raw for raw in sides)
    )


def _is_unwritten(table: LeafTable, row: int) -> bool:
    """Return whether both sides have a tensor in this row that says that nobody has written it."""
    sides = table.tensors(row)
    return len(sides) == 2 and all(UNINITIALISED in raw for raw in sides)


class _Unwritten:
    """Follows what nobody has written through the calls of both runs.

    Args:
        table: the rows.
        roles: a ``Role`` per row.
        differing: the rows that differ. The statistics of both sides may read the same nevertheless, where files have
            the values: leftovers with a NaN have no other statistics than NaN.
    """

    def __init__(self, table: LeafTable, roles: Ints, differing: Set[int]) -> None:
        self._table, self._roles, self._differing = table, roles, differing
        self._known: set[_Fingerprint] = set()

    def rows(self, readers: Set[int]) -> list[int]:
        """Return the rows whose values differ because they were never written, ascending.

        Args:
            readers: the entries that compute with memory which nobody has written, as far as the dumps say so.
        """
        stems = {key.stem for key in self._table.keys}
        if not readers and not any(stem.rpartition(".")[2] in _MAKERS | _WRITERS for stem in stems):
            return []
        apis = [key.stem.rpartition(".")[2] if key.phase == "forward" else "" for key in self._table.keys]
        makers = {number for number, api in enumerate(apis) if api in _MAKERS} | readers
        writers = {number for number, api in enumerate(apis) if api in _WRITERS}
        excused: list[int] = []
        for number in range(len(apis)) if makers else sorted(writers):
            rows = self._table.rows_of(number)
            if number in writers:
                excused.extend(row for row in rows if self._is_overwritten(row))
            elif number in makers or self._known:
                excused.extend(self._tainted(rows, number in makers))
        return excused

    def _tainted(self, rows: range, tainted: bool) -> Iterator[int]:
        """Yield the rows of one call that hold unwritten memory or are computed from it, and remember their values."""
        for row in rows:
            fingerprint = self._fingerprint(row)
            if fingerprint is None:
                continue
            if fingerprint in self._known or (tainted and self._roles[row] == Role.RESULT):
                tainted = True
                self._known.add(fingerprint)
                yield row

    def _is_overwritten(self, row: int) -> bool:
        leaf = self._table.golden[row]
        return leaf is not None and leaf.suffix == ".input.0" and self._fingerprint(row) is not None

    def _fingerprint(self, row: int) -> _Fingerprint | None:
        """Return what identifies a pair of tensors that differ; None for any other row."""
        tensors = self._table.tensors(row)
        if len(tensors) < 2:
            return None
        # As texts, because a NaN does not equal itself and so is no key.
        sides = [tuple(str(raw.get(name)) for name in _FINGERPRINT) for raw in tensors]
        return None if sides[0] == sides[1] and row not in self._differing else (sides[0], sides[1])
