"""Forward calls that activation checkpointing repeats, where only one side has them.

The other side has nothing to judge them by, but the call they repeat is there, and has been judged. A repetition with
the same values is as good as that one; one with other values stays unchecked, and the answer says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msprobe.compare.alignment.in_backward import is_module
from msprobe.compare.items import Leaf, is_tensor
from msprobe.compare.table import LeafTable
from msprobe.numerics.tolerance import unit_roundoff

_CLOSE = 1e-5
_FRAME = ("shape", "dtype")
_DIGEST = "md5"
_Leaves = Mapping[str, Any]


def unlike_original(table: LeafTable) -> frozenset[int]:
    """The entries of one side alone that are repeated forward calls, and repeat the values of no call of that side.

    A call repeats another one of its name (a function: in the same module, as far as that is recorded) where all that
    both recorded agrees: a repetition ends as soon as backward has what it needs.
    """
    lone = [number for number, pair in enumerate(table.entries) if _is_lone(table, number) and pair.benign]
    if not lone:
        return frozenset()
    wanted = {table.keys[number].stem for number in lone}
    originals: dict[str, list[int]] = {}
    for number, key in enumerate(table.keys):
        if key.phase == "forward" and not key.recompute and key.stem in wanted:
            originals.setdefault(key.stem, []).append(number)
    return frozenset(
        number
        for number in lone
        if not any(_repeats(table, number, one) for one in originals.get(table.keys[number].stem, ()))
    )


def recompute_notes(table: LeafTable) -> list[str]:
    """A sentence for each side that has calls of ``table.unrepeated``."""
    found = []
    for side, name in enumerate(("target", "golden run")):
        calls = [pair[side] for number in sorted(table.unrepeated) if (pair := table.entries[number])[side] is not None]
        if calls:
            found.append(
                f"recomputed calls of the {name} have other values than the calls they repeat, and the other side "
                f"recomputes nothing to compare them with: {len(calls)} not judged, first {calls[0]}"
            )
    return found


def _is_lone(table: LeafTable, number: int) -> bool:
    pair = table.entries[number]
    return table.keys[number].recompute and (pair.target is None or pair.golden is None)


def _repeats(table: LeafTable, number: int, original: int) -> bool:
    own, key = table.keys[number].parent, table.keys[original]
    if not is_module(key) and own not in ("", key.parent):
        return False
    leaves = table.golden if table.entries[number].target is None else table.target
    ours, theirs = (dict(_by_suffix(table, leaves, entry)) for entry in (number, original))
    both = ours.keys() & theirs.keys()
    return bool(both) and all(_same(ours[suffix], theirs[suffix]) for suffix in both)


def _by_suffix(table: LeafTable, leaves: Sequence[Leaf | None], entry: int) -> Iterator[tuple[str, Any]]:
    for leaf in leaves[int(table.starts[entry]) : int(table.starts[entry + 1])]:
        if leaf is not None:
            yield leaf.suffix, leaf.raw


def _same(ours: Any, theirs: Any) -> bool:
    if not (is_tensor(ours) and is_tensor(theirs)):
        return bool(ours == theirs)
    if any(ours[name] != theirs[name] for name in _FRAME):
        return False
    if ours.get(_DIGEST) is not None and theirs.get(_DIGEST) is not None:
        return bool(ours[_DIGEST] == theirs[_DIGEST])
    left, right = _values(ours), _values(theirs)
    if left is None or right is None:
        return left is right and 0 in ours["shape"]
    size = max((abs(value) for value in (*left[:2], *right[:2]) if math.isfinite(value)), default=0.0)
    scales = (size, size, size, max(left[3], right[3]))
    close = max(_CLOSE, 2.0 * unit_roundoff(str(ours["dtype"])))
    return all(_near(mine, other, close * scale) for mine, other, scale in zip(left, right, scales, strict=True))


def _values(raw: _Leaves) -> tuple[float, ...] | None:
    found = tuple(raw.get(name) for name in ("Max", "Min", "Mean", "Norm"))
    return found if all(isinstance(value, (int, float)) for value in found) else None  # type: ignore[return-value]


def _near(ours: float, theirs: float, allowed: float) -> bool:
    if ours == theirs or (ours != ours and theirs != theirs):
        return True
    return abs(ours - theirs) <= allowed
