"""What a comparison left out, in sentences beside its verdict: what one side lacks as a whole, and values that could
not be compared.

Values of paired calls that could not be compared, in sentences to stand beside the verdict.

Such a row is no error by itself, so a verdict ``same`` would hide it: a tensor whose file is missing or damaged is
judged by its recorded statistics alone, and a value that is null on a side is not judged at all.
"""

from __future__ import annotations

from collections import Counter

from msprobe.compare.comparison import EXEMPTIONS, Comparison
from msprobe.compare.records.leaves import element_count, is_tensor, row_name
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.verdict import RowKind

_NULLS = {
    (True, False): "null in the target and recorded in the golden run",
    (False, True): "recorded in the target and null in the golden run",
    (True, True): "without numbers on both sides",
}


def not_compared(comparison: Comparison) -> list[str]:
    """One sentence for unread tensors and one per side that has nulls; empty where everything was compared."""
    return _unread(comparison) + _nulls(comparison)


def _unread(comparison: Comparison) -> list[str]:
    if comparison.tensors is None:
        return []
    table, tensors, unread = comparison.table, 0, list[int]()
    for row, difference in enumerate(comparison.tensors):
        ours, theirs = table.target[row], table.golden[row]
        if row in table.together or ours is None or theirs is None:
            continue
        if not (is_tensor(ours.raw) and is_tensor(theirs.raw)):
            continue
        if element_count(theirs.raw) == 0:
            continue
        tensors += 1
        if difference is None or difference.unread:
            unread.append(row)
    if not unread:
        return []
    first = _name(comparison, unread[0])
    return [
        f"{len(unread)} of {tensors} tensors were not compared element by element, by their statistics alone: a tensor "
        f"file is missing or cannot be read (first: {first})"
    ]


def _nulls(comparison: Comparison) -> list[str]:
    table = comparison.table
    found: Counter[tuple[bool, bool]] = Counter()
    first: dict[tuple[bool, bool], str] = {}
    for row in (comparison.judged.kind == RowKind.UNCHECKED).nonzero()[0].tolist():
        ours, theirs = table.target[row], table.golden[row]
        if ours is None or theirs is None or not (is_tensor(ours.raw) or is_tensor(theirs.raw)):
            continue
        lacking = _is_null(ours.raw), _is_null(theirs.raw)
        if lacking in _NULLS:
            found[lacking] += 1
            first.setdefault(lacking, _name(comparison, row))
    told = []
    for lacking, count in found.items():
        values = "1 value is" if count == 1 else f"{count} values are"
        told.append(f"{values} {_NULLS[lacking]} and cannot be judged (first: {first[lacking]})")
    return told


def _is_null(raw: object) -> bool:
    """Whether a value, or every number of a tensor, is null."""
    if not isinstance(raw, dict):
        return raw is None
    return is_tensor(raw) and all(raw.get(name) is None for name in (*STATISTIC_NAMES, "md5"))


def _name(comparison: Comparison, row: int) -> str:
    table = comparison.table
    pair = table.entries[int(table.starts.searchsorted(row, side="right")) - 1]
    leaf = table.target[row]
    return row_name(pair.target or "", leaf) if leaf is not None else ""


def incomplete(comparison: Comparison) -> list[str]:
    """Return the sentences; none where everything was compared."""
    notes = [note for exemption in EXEMPTIONS for note in exemption.notes(comparison.table)]
    return not_compared(comparison) + notes
