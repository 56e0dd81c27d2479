"""Forward calls that activation checkpointing repeats, where only one side has them.

The other side has nothing to judge them by, but the call they repeat is there, and has been judged. A repetition with
the same values is as good as that one; one with other values makes other gradients, and is a difference. One whose
first run is not recorded, or has no values, stays unchecked, and the answer says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msprobe.compare.alignment.in_backward import is_module
from msprobe.compare.items import Leaf, is_tensor
from msprobe.compare.recorded_number import as_float
from msprobe.compare.table import Changed, LeafTable
from msprobe.core.tensors.statistics import STATISTIC_NAMES, STATISTICS, ToleranceOf
from msprobe.numerics.tolerance import unit_roundoff

_CLOSE = 1e-5
_FRAME = ("shape", "dtype")
_DIGEST = "md5"
_Leaves = Mapping[str, Any]
_Suffixes = list[str]


def judge_repeated(table: LeafTable) -> None:
    """Hold the repeated forward calls of one side alone against the calls they repeat: fills ``table.changed``, whose
    entries are benign no longer, and ``table.unrepeated``.

    A call repeats another one of its name (a function: in the same module, as far as that is recorded) where all that
    both recorded agrees: a repetition ends as soon as backward has what it needs.
    """
    lone = [number for number, pair in enumerate(table.entries) if _is_lone(table, number) and pair.benign]
    if not lone:
        return
    wanted = {table.keys[number].stem for number in lone}
    originals: dict[str, list[int]] = {}
    for number, key in enumerate(table.keys):
        if key.phase == "forward" and not key.recompute and key.stem in wanted:
            originals.setdefault(key.stem, []).append(number)
    unknown = set()
    for number in lone:
        may = [one for one in originals.get(table.keys[number].stem, ()) if _may_repeat(table, number, one)]
        found = {one: _unlike(table, number, one) for one in may}
        differing = {one: suffixes for one, suffixes in found.items() if suffixes}
        if [] in found.values():
            continue
        if not differing or None in found.values():
            unknown.add(number)
            continue
        nearest = min(differing, key=lambda one: len(differing[one]))
        table.changed[number] = Changed(differing[nearest][0], table.keys[nearest].name)
        table.entries[number] = table.entries[number]._replace(benign=False)
    table.unrepeated = frozenset(unknown)


def recompute_notes(table: LeafTable) -> list[str]:
    """A sentence for each side that has calls of ``table.unrepeated``."""
    found = []
    for side, name in enumerate(("target", "golden run")):
        calls = [pair[side] for number in sorted(table.unrepeated) if (pair := table.entries[number])[side] is not None]
        if calls:
            found.append(
                f"recomputed calls of the {name} could not be held against the calls they repeat, and the other side "
                f"recomputes nothing to compare them with: {len(calls)} not judged, first {calls[0]}"
            )
    return found


def _is_lone(table: LeafTable, number: int) -> bool:
    pair = table.entries[number]
    return table.keys[number].recompute and (pair.target is None or pair.golden is None)


def _may_repeat(table: LeafTable, number: int, original: int) -> bool:
    own, key = table.keys[number].parent, table.keys[original]
    return is_module(key) or own in ("", key.parent)


def _unlike(table: LeafTable, number: int, original: int) -> _Suffixes | None:
    """The values in which a call and the one it may repeat differ; None where nothing can be said."""
    leaves = table.golden if table.entries[number].target is None else table.target
    ours, theirs = (dict(_by_suffix(table, leaves, entry)) for entry in (number, original))
    verdicts = {suffix: _same(mine, theirs[suffix]) for suffix, mine in ours.items() if suffix in theirs}
    differing = [suffix for suffix, same in verdicts.items() if same is False]
    return differing if differing or (verdicts and None not in verdicts.values()) else None


def _by_suffix(table: LeafTable, leaves: Sequence[Leaf | None], entry: int) -> Iterator[tuple[str, Any]]:
    for leaf in leaves[int(table.starts[entry]) : int(table.starts[entry + 1])]:
        if leaf is not None:
            yield leaf.suffix, leaf.raw


def _same(ours: Any, theirs: Any) -> bool | None:
    """None where a side has no values."""
    if not (is_tensor(ours) and is_tensor(theirs)):
        return bool(ours == theirs)
    if any(ours[name] != theirs[name] for name in _FRAME):
        return False
    if ours.get(_DIGEST) is not None and theirs.get(_DIGEST) is not None:
        return bool(ours[_DIGEST] == theirs[_DIGEST])
    left, right = _values(ours), _values(theirs)
    if left is None or right is None:
        return True if 0 in ours["shape"] else None
    size = max((abs(value) for value in (*left[:2], *right[:2]) if math.isfinite(value)), default=0.0)
    scales = [
        max(left[index], right[index]) if spec.tolerance is ToleranceOf.NORM else size
        for index, spec in enumerate(STATISTICS)
    ]
    close = max(_CLOSE, 2.0 * unit_roundoff(str(ours["dtype"])))
    return all(_near(mine, other, close * scale) for mine, other, scale in zip(left, right, scales, strict=True))


def _values(raw: _Leaves) -> tuple[float, ...] | None:
    found = tuple(raw.get(name) for name in STATISTIC_NAMES)
    return tuple(map(as_float, found)) if all(isinstance(value, (int, float)) for value in found) else None


def _near(ours: float, theirs: float, allowed: float) -> bool:
    if ours == theirs or (ours != ours and theirs != theirs):
        return True
    return abs(ours - theirs) <= allowed < math.inf
