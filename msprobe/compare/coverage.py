"""What a comparison did not compare, in sentences that stand beside its verdict.

``coverage_of`` sorts them into three lists (see ``Coverage``). What a record says that it holds and what cannot be
compared makes the verdict ``incomplete``: a tensor file that is missing, unreadable or not what was recorded, and
statistics or checksums that a record lacks. What one side lacks as a whole, what is null in one of two different
programs, and what the exemptions leave out stands beside any verdict. Notes are no gaps at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from msprobe.compare.comparison import Comparison
from msprobe.compare.differences.row_remarks import UNJUDGED, Remark, mode_that_differs
from msprobe.compare.exemptions.on_demand import speaking
from msprobe.compare.header_checks import gradients_cleared_by_one_side, steps_of_one_side
from msprobe.compare.inputs.mode import Mode
from msprobe.compare.records.note import Note
from msprobe.compare.table.precisions import other_formats, stored_precision
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import has_no_values, is_tensor, leaves
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.core.tensors.projection import KEY
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.verdict import Level, RowKind
from msprobe.trace.leaves import NO_WHOLE, element_count, row_name

_MEASURES = (*STATISTIC_NAMES, "md5")
_NULLS = {  # by: null in the target, null in the golden run
    (True, False): "null in the target and recorded in the golden run",
    (False, True): "recorded in the target and null in the golden run",
}
_WRITER = "written_by"
_INPUTS = "input_args"


class Coverage(NamedTuple):
    """What was not compared, in sentences.

    Attributes:
        lost: data that a record says it holds and that could not be compared; the verdict is never ``same`` with it.
        left_out: whatever else was not compared; ``--fail-on incomplete`` fails for it.
        notes: what a reader of the verdict should know, although everything was compared.
    """

    lost: list[str]
    left_out: list[str]
    notes: list[str]

    @property
    def incomplete(self) -> list[str]:
        """Return all sentences about what was not compared."""
        return self.lost + self.left_out


def coverage_of(comparison: Comparison) -> Coverage:
    """Return what one pair of dumps says about its own gaps."""
    lost, recorded_otherwise, known_gaps = _lacking_numbers(comparison)
    files, without_file = _files(comparison)
    left_out = without_file + _nulls(comparison) + known_gaps
    left_out += [note for one in speaking(comparison.table) for note in one.notes(comparison.table)]
    if comparison.table.alone:
        from msprobe.compare.regions.notes import not_shown_notes  # only where one side makes calls

        left_out += not_shown_notes(comparison.table)
    if comparison.table.partial is not None:
        from msprobe.compare.exemptions.sliced_tensors import lost_parts  # only where tensors are compared in part

        lost = lost + lost_parts(comparison.table)
    dumps = comparison.target, comparison.golden
    left_out += [] if comparison.shows_updates else steps_of_one_side(*dumps)
    remarks = [remark for one in speaking(comparison.table) for remark in one.remarks(comparison.table)]
    remarks += gradients_cleared_by_one_side(*dumps)
    lost += _without_inputs(comparison)
    return Coverage(files + lost, left_out, recorded_otherwise + remarks + _remarks(comparison))


def any_checked(comparison: Comparison) -> bool:
    """Return whether a value was checked on both sides and agrees."""
    return bool((comparison.judged.level == Level.PASS).any())


class _Found:
    """Rows of one kind: their number, and the name of the first one, or what is said of it."""

    def __init__(self, count: int = 0, first: str = "") -> None:
        self.count, self.first = count, first

    def add(self, comparison: Comparison, row: int) -> None:
        """Count a row."""
        self.count += 1
        self.first = self.first or _name(comparison, row)


def _sentence(found: _Found, one: str, many: str, end: str, after: str = "") -> list[str]:
    """Return ``1 value is ...`` or ``3 values are ...`` with the first name; nothing where none was found. ``many`` has
    braces for the number where it does not begin with it."""
    many = many if "{" in many else f"{{}} {many}"
    return [Note(found.count, f"{one} {end}", f"{many} {end}", found.first, after)] if found.count else []


def _of_all(found: _Found, total: int, end: str) -> list[str]:
    """Return ``3 of 9 tensors ...`` with the first name; nothing where none was found."""
    return [f"{found.count} of {total} {end} (first: {found.first})"] if found.count else []


# Tensor files


def _files(comparison: Comparison) -> tuple[list[str], list[str]]:
    """Return sentences about files that could not be compared, and about tensors of which neither side has a file."""
    if comparison.tensors is None:
        return [], []
    table, tensors = comparison.table, 0
    unread, without, other_files, other_file = _Found(), _Found(), _Found(), ""
    for row, difference in enumerate(comparison.tensors):
        target, golden = table.target[row], table.golden[row]
        if row in table.together or target is None or golden is None:
            continue
        if not (is_tensor(target.raw) and is_tensor(golden.raw)) or _has_nothing(target.raw, golden.raw):
            continue
        tensors += 1
        if difference is None:
            without.add(comparison, row)
        elif difference.unread:
            unread.add(comparison, row)
        elif difference.other_file:
            other_file = other_file or difference.other_file
            other_files.add(comparison, row)
        elif comparison.remarks[row] & Remark.OTHER_FILE:
            other_file = other_file or "the files of both sides are equal, the recorded statistics are not"
            other_files.add(comparison, row)
        elif difference.contradicts and comparison.judged.kind[row] > RowKind.UNCHECKED:
            other_file = other_file or "the recorded statistics of both sides are equal, the files are not"
            other_files.add(comparison, row)
    by_statistics = "tensors were not compared element by element, by their statistics alone"
    lost = _of_all(unread, tensors, f"{by_statistics}: a tensor file is missing or cannot be read")
    others = _of_all(other_files, tensors, "tensor files are not what was recorded")
    lost += [f"{text}: {other_file}" for text in others]
    return lost, _of_all(without, tensors, f"{by_statistics}: neither side has a tensor file")


def _has_nothing(target: Any, golden: Any) -> bool:
    """Return whether there is nothing to compare, as the records say: no elements, or no values on a side."""
    return (element_count(target) == element_count(golden) == 0) or has_no_values(target) or has_no_values(golden)


# Statistics and checksums


def _lacking_numbers(comparison: Comparison) -> tuple[list[str], list[str], list[str]]:
    """Return sentences about values that records lack: those that are lost, those that the recordings leave out in
    their own way, and those that no tool can measure."""
    rows = (comparison.remarks & UNJUDGED).nonzero()[0].tolist()
    if not rows:
        return [], [], []
    own_ways = _OwnWays(comparison)
    in_target, in_golden, nowhere, otherwise, unmeasurable, damaged = (_Found() for _ in range(6))
    for row in rows:
        if _is_settled(comparison, row):
            continue
        target, golden = _raw(comparison.table.target[row]), _raw(comparison.table.golden[row])
        if comparison.remarks[row] & Remark.DAMAGED:
            damaged.add(comparison, row)
        elif comparison.remarks[row] & Remark.NO_NUMBERS:
            known = find_dtype(str(golden.get("dtype"))) is not None
            (nowhere if known else unmeasurable).add(comparison, row)
        elif own_ways.explain(target, golden):
            otherwise.add(comparison, row)
        else:
            lacking = comparison.remarks[row] & Remark.LACKS_IN_TARGET
            (in_target if lacking else in_golden).add(comparison, row)
    lost = _sentence(in_target, "1 tensor lacks", "tensors lack", "values in the target that the golden run has")
    lost += _sentence(in_golden, "1 tensor lacks", "tensors lack", "values in the golden run that the target has")
    end = "without numbers on both sides and cannot be judged"
    lost += _sentence(damaged, "1 tensor is", "tensors are", "damaged in a record and not compared")
    lost += _sentence(nowhere, "1 value is", "values are", end)
    notes = _sentence(otherwise, "1 tensor was", "tensors were", own_ways.text)
    return lost, notes, _sentence(unmeasurable, "1 value is", "values are", f"of a dtype without statistics, {end}")


def _is_settled(comparison: Comparison, row: int) -> bool:
    """Return whether the lacking values of a row are no gap: its whole tensors were compared, the record says that it
    has no values, the row differs anyway, its run had ended, it is a part of a tensor
    (``lost_parts``), or the ranks that were merged hold no whole of it."""
    table, kind = comparison.table, comparison.judged.kind[row]
    if kind != RowKind.UNCHECKED or (table.partial is not None and table.partial.leaves_unjudged(row)):
        return True
    if any(NO_WHOLE in _raw(leaf) for leaf in (table.target[row], table.golden[row])):
        return True
    return table.ended_from is not None and row >= int(table.starts[table.ended_from])


class _OwnWays:
    """Which statistics the recordings leave out in their own way: by configuration, or because another tool wrote them.

    A statistic that no tensor of a side has, beside others that it has, was left out on purpose.
    """

    def __init__(self, comparison: Comparison) -> None:
        dumps = comparison.target, comparison.golden
        self._two_tools = (_WRITER in dumps[0].header) != (_WRITER in dumps[1].header)
        self._measured = [_measured(dump) for dump in dumps]
        if self._two_tools:
            self.text = "recorded with other statistics by another tool; judged by those of both sides"
        else:
            self.text = "recorded with other statistics, as configured; judged by those of both sides"

    def explain(self, target: Any, golden: Any) -> bool:
        """Return whether what a pair of records lacks is left out by its side."""
        if self._two_tools:
            return True
        for own, other, measured in ((target, golden, self._measured[0]), (golden, target, self._measured[1])):
            if any(own.get(name) is None and other.get(name) is not None and name in measured for name in _MEASURES):
                return False
        return all(self._measured)


def _measured(dump: Dump) -> set[str]:
    """Return the statistics and checksums that some tensor of a dump has, null or not."""
    found: set[str] = set()
    for name, body in dump.data.items():
        for leaf in leaves(name, body):
            if is_tensor(leaf.raw):
                found.update(key for key in _MEASURES if key in leaf.raw)
        if len(found) == len(_MEASURES):
            break
    return found


def _without_inputs(comparison: Comparison) -> list[str]:
    """Return sentences about records that lack their inputs, of calls that are no difference: an empty list would say
    that a call has none."""
    found: tuple[list[str], list[str]] = [], []
    for entry in sorted(comparison.table.harmless):
        pair = comparison.table.entries[entry]
        records = comparison.target.data[pair.target or ""], comparison.golden.data[pair.golden or ""]
        has = [_INPUTS in record for record in records]
        if has[0] != has[1]:
            inputs = leaves(pair.name, {_INPUTS: records[has[1]][_INPUTS]})
            found[has[0]].extend([pair.name] if any(is_tensor(leaf.raw) for leaf in inputs) else [])
    return [
        sentence
        for side, names in zip(("target", "golden run"), found, strict=True)
        for sentence in _sentence(
            _Found(len(names), next(iter(names), "")),
            "1 call lacks its",
            "calls lack their",
            f"inputs in the {side}, which the other run has",
        )
    ]


# Other values


def _nulls(comparison: Comparison) -> list[str]:
    """Return sentences about tensors that stand against null."""
    found: dict[tuple[bool, bool], _Found] = defaultdict(_Found)
    for row in (comparison.judged.kind == RowKind.UNCHECKED).nonzero()[0].tolist():
        target, golden = comparison.table.target[row], comparison.table.golden[row]
        if target is None or golden is None or not (is_tensor(target.raw) or is_tensor(golden.raw)):
            continue
        nulls = target.raw is None, golden.raw is None
        if nulls in _NULLS:
            found[nulls].add(comparison, row)
    ends = ((one, f"{_NULLS[nulls]} and cannot be judged") for nulls, one in found.items())
    return [note for one, end in ends for note in _sentence(one, "1 value is", "values are", end)]


def _remarks(comparison: Comparison) -> list[str]:
    """Return sentences about NaN on both sides, flags that differ, and statistics of the order on one side."""
    notes = _counted(comparison, Remark.NAN, "1 tensor holds", "tensors hold", "NaN in both runs")
    notes += _precisions(comparison) + _flags(comparison) + _modes(comparison)
    notes += _dump_levels(comparison)
    if comparison.mode is Mode.STATISTICS:
        end = f"on one side only ({KEY}): elements that changed places would not be seen"
        statistic = "has the statistic of the order of elements", "values have the statistic of the order of elements"
        notes += _counted(comparison, Remark.ORDER_UNSEEN, f"1 value {statistic[0]}", statistic[1], end)
    return notes


def _precisions(comparison: Comparison) -> list[str]:
    if not comparison.measured.other_formats.any():
        return []
    both = other_formats(comparison.table)
    if both is None:
        stored = stored_precision(comparison.target, comparison.golden)
        text = "one run stores weights in bytes: products are judged by that, which hides smaller errors"
        return [text] if stored else []
    return [
        f"the runs compute in two precisions ({both[0]} in the target, {both[1]} in the golden run): values are judged "
        "by the coarser one, which hides what is smaller than its rounding"
    ]


def _flags(comparison: Comparison) -> list[str]:
    found = _with_both(comparison, _marked(comparison, Remark.REQUIRES_GRAD), "requires_grad")
    return _sentence(found, "requires_grad of 1 value", "requires_grad of {} values", "differs")


def _with_both(comparison: Comparison, rows: list[int], key: str) -> _Found:
    """Return rows with what both records of the first one have under a key."""
    if not rows:
        return _Found()
    sides = (_raw(leaves[rows[0]]).get(key) for leaves in (comparison.table.target, comparison.table.golden))
    return _Found(len(rows), f"{_name(comparison, rows[0])}: {_both(*sides)}")


def _modes(comparison: Comparison) -> list[str]:
    rows = _marked(comparison, Remark.MODULE_MODE)
    if not rows:
        return []
    pair = comparison.table.entries[int(comparison.table.starts.searchsorted(rows[0], side="right")) - 1]
    left, right = comparison.target.data[pair.target or ""], comparison.golden.data[pair.golden or ""]
    mode = mode_that_differs(left, right)
    found = _Found(len(rows), f"{pair.name}: {mode} {_both(left[mode], right[mode])}")
    return _sentence(found, "the mode of 1 call", "the mode of {} calls", "differs")


def _dump_levels(comparison: Comparison) -> list[str]:
    """Return a sentence where the headers name other levels, and no call is left out because of it."""
    levels = [comparison.target.level, comparison.golden.level]
    if levels[0] == levels[1] or comparison.table.unrecorded:
        return []
    return [
        f"the dumps say that they were recorded at different levels: {_both(*(level or 'none' for level in levels))}"
    ]


def _both(left: Any, right: Any) -> str:
    return f"{left} in the target, {right} in the golden run"


def _counted(comparison: Comparison, remark: Remark, one: str, many: str, end: str) -> list[str]:
    found = _Found()
    for row in _rows_with(comparison, remark):
        found.add(comparison, row)
    return _sentence(found, one, many, end)


def _rows_with(comparison: Comparison, remark: Remark) -> Iterator[int]:
    """Yield the rows with a remark on both sides of which there is something to compare."""
    for row in _marked(comparison, remark):
        if not _has_nothing(_raw(comparison.table.target[row]), _raw(comparison.table.golden[row])):
            yield row


def _marked(comparison: Comparison, remark: Remark) -> list[int]:
    return (comparison.remarks & int(remark)).nonzero()[0].tolist()  # type: ignore[no-any-return]


def _raw(leaf: Any) -> Any:
    return leaf.raw if leaf is not None else {}


def _name(comparison: Comparison, row: int) -> str:
    table = comparison.table
    pair = table.entries[int(table.starts.searchsorted(row, side="right")) - 1]
    leaf = table.target[row]
    return row_name(pair.target or "", leaf) if leaf is not None else ""
