"""What a comparison did not compare, in sentences that stand beside its verdict.

``incomplete`` returns all of them. A value that could not be compared is no error by itself, so the verdict ``same``
would hide it: a tensor whose file is missing or damaged is judged by its recorded statistics alone, and a value that is
null on one side is not judged at all. Further sentences come from the exemptions: what one side lacks as a whole.
"""

from __future__ import annotations

from collections import Counter

from msprobe.compare.comparison import EXEMPTIONS, Comparison
from msprobe.compare.records.leaves import element_count, row_name
from msprobe.core.store.record_walk import is_tensor
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.verdict import RowKind

_NULLS = {  # by: null in the target, null in the golden run
    (True, False): "null in the target and recorded in the golden run",
    (False, True): "recorded in the target and null in the golden run",
    (True, True): "without numbers on both sides",
}


def incomplete(comparison: Comparison) -> list[str]:
    """Return a sentence for each kind of value that was not compared; none where everything was compared.

    These are the notes of ``not_compared`` and of all exemptions.
    """
    notes = [note for exemption in EXEMPTIONS for note in exemption.notes(comparison.table)]
    return not_compared(comparison) + notes


def not_compared(comparison: Comparison) -> list[str]:
    """Return sentences about values of paired calls: one for unread tensors, and one for each kind of null."""
    return _unread_tensors(comparison) + _nulls(comparison)


def _unread_tensors(comparison: Comparison) -> list[str]:
    if comparison.tensors is None:
        return []
    table, tensors, unread = comparison.table, 0, list[int]()
    for row, difference in enumerate(comparison.tensors):
        target, golden = table.target[row], table.golden[row]
        if row in table.together or target is None or golden is None:
            continue
        if not (is_tensor(target.raw) and is_tensor(golden.raw)) or element_count(golden.raw) == 0:
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
    counts: Counter[tuple[bool, bool]] = Counter()
    first: dict[tuple[bool, bool], str] = {}
    for row in (comparison.judged.kind == RowKind.UNCHECKED).nonzero()[0].tolist():
        target, golden = table.target[row], table.golden[row]
        if target is None or golden is None or not (is_tensor(target.raw) or is_tensor(golden.raw)):
            continue
        nulls = _is_null(target.raw), _is_null(golden.raw)
        if nulls in _NULLS:
            counts[nulls] += 1
            first.setdefault(nulls, _name(comparison, row))
    notes = []
    for nulls, count in counts.items():
        values = "1 value is" if count == 1 else f"{count} values are"
        notes.append(f"{values} {_NULLS[nulls]} and cannot be judged (first: {first[nulls]})")
    return notes


def _is_null(raw: object) -> bool:
    """Return whether a value, or every number of a tensor, is null."""
    if not isinstance(raw, dict):
        return raw is None
    return is_tensor(raw) and all(raw.get(name) is None for name in (*STATISTIC_NAMES, "md5"))


def _name(comparison: Comparison, row: int) -> str:
    table = comparison.table
    pair = table.entries[int(table.starts.searchsorted(row, side="right")) - 1]
    leaf = table.target[row]
    return row_name(pair.target or "", leaf) if leaf is not None else ""
