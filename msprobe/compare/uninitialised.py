"""Values nobody has written: the memory ``empty`` and its kin hand out.

What such a tensor holds differs from run to run and means nothing, nor does what is made of it until something writes
it. The tensor is recognised at its later uses by its statistics or checksum on both sides; what a call overwrites
whole (``copy_``, ``fill_``) needs no such proof. Where both sides agree there is nothing to excuse, and a wrong shape,
dtype or argument stays one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.items import is_tensor
from msprobe.compare.table import LeafTable
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.verdict import Role

_MAKERS = frozenset({"empty", "empty_like", "empty_strided", "empty_with_format", "new_empty", "new_empty_strided"})
_WRITERS = frozenset({"copy_", "fill_", "zero_", "ones_", "eye_", "constant_", "normal_", "uniform_", "random_"})
_PRINTS = (*STATISTIC_NAMES, "md5")


def uninitialised(table: LeafTable, roles: NDArray[np.int64]) -> list[int]:
    """Rows whose values differ because nobody has written them, ascending."""
    apis = [key.stem.rpartition(".")[2] if key.phase == "forward" else "" for key in table.keys]
    makers = {number for number, api in enumerate(apis) if api in _MAKERS}
    writers = {number for number, api in enumerate(apis) if api in _WRITERS}
    found: list[int] = []
    seen: set[Any] = set()
    for number in range(len(apis)) if makers else sorted(writers):
        rows = range(int(table.starts[number]), int(table.starts[number + 1]))
        if number in writers:
            found.extend(row for row in rows if _is_written(table, row) and _prints(table, row) is not None)
        elif number in makers or seen:
            found.extend(_tainted(table, rows, roles, seen, number in makers))
    return found


def _tainted(table: LeafTable, rows: range, roles: NDArray[np.int64], seen: set[Any], tainted: bool) -> Iterator[int]:
    """Rows of one call that hold such memory or are made of it; ``seen`` grows by them."""
    for row in rows:
        prints = _prints(table, row)
        if prints is not None and (prints in seen or (tainted and roles[row] == Role.RESULT)):
            tainted = True
            seen.add(prints)
            yield row


def _is_written(table: LeafTable, row: int) -> bool:
    leaf = table.golden[row]
    return leaf is not None and leaf.suffix == ".input.0"


def _prints(table: LeafTable, row: int) -> Any:
    """What tells a pair of tensors that differ from others; None for anything else."""
    ours, theirs = table.target[row], table.golden[row]
    if ours is None or theirs is None or not is_tensor(ours.raw) or not is_tensor(theirs.raw):
        return None
    left, right = ours.raw, theirs.raw
    prints = tuple((str(left.get(name)), str(right.get(name))) for name in _PRINTS)  # a NaN is no key, its text is
    return None if all(mine == other for mine, other in prints) else prints
