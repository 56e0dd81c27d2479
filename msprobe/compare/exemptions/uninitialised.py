"""Values that were never written: the memory that ``empty`` and similar functions return.

Newer dumps say so of each tensor, and have no values for it. In older ones, and for what is computed from such memory:
the content of such a tensor differs from run to run and means nothing; so does what is computed from it until a call
writes it. The tensor is recognised at later uses by its statistics or checksum on both sides. What a call overwrites as
a whole (``copy_``, ``fill_``) needs no such proof. Where both sides agree there is nothing to excuse. A wrong shape,
dtype or argument stays an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any

import numpy as np

from msprobe.compare.exemptions.protocol import Exemption
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import UNINITIALISED, has_no_values, is_tensor
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.verdict import Ints, Measured, Role, RowKind

_MAKERS = frozenset({"empty", "empty_like", "empty_strided", "empty_with_format", "new_empty", "new_empty_strided"})
_WRITERS = frozenset({"copy_", "fill_", "zero_", "ones_", "eye_", "constant_", "normal_", "uniform_", "random_"})
_FINGERPRINT = (*STATISTIC_NAMES, "md5")


class Uninitialised(Exemption):
    """Excuses differences of values that were never written."""

    def meaningless_rows(self, table: LeafTable, measured: Measured) -> Sequence[int]:
        """Return the rows whose values were never written (see ``uninitialised``), and those that say so."""
        differing = np.flatnonzero((measured.kind != RowKind.NONE) | (measured.worst > 0.0)).tolist()
        marked = [row for row in differing if _says_so(table, row)]
        entries = set((np.searchsorted(table.starts, differing, side="right") - 1).tolist())
        readers = {number for number in entries if _reads_unwritten(table, number)}
        return sorted({*marked, *uninitialised(table, measured.role, readers)})


def _says_so(table: LeafTable, row: int) -> bool:
    """Return whether both sides have a tensor in this row, and one of them says that it has no values."""
    sides = [leaf.raw for leaf in (table.target[row], table.golden[row]) if leaf is not None and is_tensor(leaf.raw)]
    return len(sides) == 2 and any(map(has_no_values, sides))


def _reads_unwritten(table: LeafTable, number: int) -> bool:
    """Return whether an input of this entry says on both sides that nobody has written it."""
    for row in table.rows_of(number):
        sides = (table.target[row], table.golden[row])
        if all(leaf is not None and is_tensor(leaf.raw) and UNINITIALISED in leaf.raw for leaf in sides):
            return True
    return False


def uninitialised(table: LeafTable, roles: Ints, readers: Set[int] = frozenset()) -> list[int]:
    """Return the rows whose values differ because they were never written, ascending.

    Args:
        table: the rows.
        roles: a ``Role`` per row.
        readers: the entries that compute with memory which nobody has written, as far as the dumps say so.
    """
    apis = [key.stem.rpartition(".")[2] if key.phase == "forward" else "" for key in table.keys]
    makers = {number for number, api in enumerate(apis) if api in _MAKERS} | readers
    writers = {number for number, api in enumerate(apis) if api in _WRITERS}
    excused: list[int] = []
    unwritten: set[Any] = set()
    for number in range(len(apis)) if makers else sorted(writers):
        rows = table.rows_of(number)
        if number in writers:
            excused.extend(row for row in rows if _is_written(table, row) and _fingerprint(table, row) is not None)
        elif number in makers or unwritten:
            excused.extend(_tainted(table, rows, roles, unwritten, number in makers))
    return excused


def _tainted(table: LeafTable, rows: range, roles: Ints, unwritten: set[Any], tainted: bool) -> Iterator[int]:
    """Yield the rows of one call that hold unwritten memory or are computed from it.

    ``unwritten`` has the fingerprints of such tensors, and grows.
    """
    for row in rows:
        fingerprint = _fingerprint(table, row)
        if fingerprint is not None and (fingerprint in unwritten or (tainted and roles[row] == Role.RESULT)):
            tainted = True
            unwritten.add(fingerprint)
            yield row


def _is_written(table: LeafTable, row: int) -> bool:
    leaf = table.golden[row]
    return leaf is not None and leaf.suffix == ".input.0"


def _fingerprint(table: LeafTable, row: int) -> Any:
    """Return what identifies a pair of tensors that differ; None for any other row."""
    target, golden = table.target[row], table.golden[row]
    if target is None or golden is None or not is_tensor(target.raw) or not is_tensor(golden.raw):
        return None
    left, right = target.raw, golden.raw
    # As texts, because a NaN does not equal itself and so is no key.
    fingerprint = tuple((str(left.get(name)), str(right.get(name))) for name in _FINGERPRINT)
    return None if all(target_text == golden_text for target_text, golden_text in fingerprint) else fingerprint
