"""What counts as a difference between two programs that do the same in different words.

An item that only one of them records cannot be checked, which is no difference. Between two frameworks the same goes
for arguments that are no tensors (an axis, a shape, a flag: their effect shows in the result) and for the width of
integers, which frameworks choose by themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.table import LeafTable
from msprobe.core.tensors.dtypes import Kind as DtypeKind
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.numerics.verdict import Kind


def loosen(table: LeafTable, kinds: NDArray[np.int64]) -> None:
    """Lower the kinds of a loose table, as found before any tolerance."""
    kinds[kinds >= Kind.MISSING_IN_GOLDEN] = Kind.UNCHECKED
    if not table.across:
        return
    kinds[kinds == Kind.ARGUMENT] = Kind.UNCHECKED
    for row in (kinds == Kind.DTYPE).nonzero()[0].tolist():
        ours, theirs = table.target[row], table.golden[row]
        if ours is not None and theirs is not None and _is_integer(ours.raw) and _is_integer(theirs.raw):
            kinds[row] = Kind.NONE


def _is_integer(raw: Any) -> bool:
    known = find_dtype(str(raw["dtype"]))
    return known is not None and known.kind is DtypeKind.INT
