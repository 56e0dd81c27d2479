"""Rows of the result table, one per pair of leaves, with cells in the text forms that existing readers know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from msprobe.compare.items import Described, Leaf, describe, row_name
from msprobe.compare.mode import Mode
from msprobe.compare.plain import statistics_cells
from msprobe.compare.reasons import Reasons
from msprobe.compare.table import LeafTable
from msprobe.compare.tensors import data_name
from msprobe.core.store.reader import Dump
from msprobe.numerics.metrics.checksum import text_checksum
from msprobe.numerics.metrics.statistics import Cell, differences
from msprobe.numerics.metrics.tensor import UNSUPPORTED, TensorDifference
from msprobe.numerics.reference_policy import ReferenceRow, judge_entry
from msprobe.numerics.verdict import Judged, Level, Measured

Tensors = list[TensorDifference | None] | None
_NOTHING = Described("N/A", "N/A", "N/A", ("N/A",) * 4)
_EQUAL8: tuple[Cell, ...] = ("0",) * 8
_NA8: tuple[Cell, ...] = ("N/A",) * 8
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
_BLOCK = 4096
_GRADS = {True: "True", False: "False"}
_TEXT: dict[str, object] = {"value": "N/A"}
_LEVELS = [level.name.lower() for level in Level]


@dataclass(slots=True)
class CompareRow:
    """One row: ``head`` (eight cells), ``middle`` (metrics and statistics), ``tail``; ``cells`` are all of them.

    Infinities are floats, everything else is as shown. A ``middle`` that is one text holds plain numbers joined by
    commas.
    """

    target: str
    golden: str
    head: list[Cell]
    middle: list[Cell] | str
    tail: list[Cell]
    level: str
    messages: list[str]

    @property
    def cells(self) -> list[Cell]:
        """One cell per column."""
        middle = self.middle.split(",") if isinstance(self.middle, str) else self.middle
        return [*self.head, *middle, *self.tail]


class RowMaker:
    """Makes the rows of one comparison; holds what all rows share."""

    def __init__(
        self, dump: Dump, mode: Mode, table: LeafTable, judged: Judged, measured: Measured, tensors: Tensors
    ) -> None:
        self._dump, self._mode, self._table = dump, mode, table
        self._tensors = tensors
        self._reasons = Reasons(measured)
        self._as_float = _float_columns(table) if mode is not Mode.CHECKSUM else (False,) * 8
        self._any_float = True in self._as_float
        self._plain: dict[int, str] = {}
        self._ready = 0
        self._levels = judged.level.tolist()
        self._kinds = judged.kind.tolist()

    def rows(self, *, reference: bool) -> Iterator[CompareRow]:
        """All rows; ``reference`` judges them by the published rules."""
        starts = self._table.starts.tolist()
        for number, pair in enumerate(self._table.entries):
            self._prepare(starts[number], starts[number + 1])
            group = [self._row(row, pair.target, pair.golden) for row in range(starts[number], starts[number + 1])]
            if reference and not pair.benign:
                _apply_reference(self._mode, pair.target or pair.golden or "", group)
            else:
                self._apply_default(group, starts[number], pair.benign)
            self._finish(group, starts[number], pair.target)
            for row, _, _ in group:
                yield row

    def _prepare(self, start: int, stop: int) -> None:
        """Make the cells of ordinary rows ahead, a block at a time."""
        if self._mode is Mode.STATISTICS and stop > self._ready:
            self._ready = min(max(start + _BLOCK, stop), self._table.rows)
            self._plain = statistics_cells(self._table.target, self._table.golden, start, self._ready)

    def _plain_row(self, row: int, target: str, golden: str, middle: str) -> CompareRow:
        ours, theirs = self._table.target[row], self._table.golden[row]
        assert ours is not None and theirs is not None
        left, right = ours.raw, theirs.raw
        shape = str(left["shape"])
        other = shape if left["shape"] == right["shape"] else str(right["shape"])
        grads = _GRADS.get(left.get("requires_grad"), "N/A"), _GRADS.get(right.get("requires_grad"), "N/A")
        names = row_name(target, ours), row_name(golden, theirs)
        head: list[Cell] = [*names, left["dtype"], right["dtype"], shape, other, *grads]
        return CompareRow(*names, head, middle, ["True" if grads[0] == grads[1] else "False"], "pass", [])

    def _row(self, row: int, target: str | None, golden: str | None) -> tuple[CompareRow, Leaf | None, Leaf | None]:
        ours, theirs = self._table.target[row], self._table.golden[row]
        ready = self._plain.get(row)
        if ready is not None and target is not None and golden is not None:
            return self._plain_row(row, target, golden, ready), ours, theirs
        left = describe(ours) if ours is not None else _NOTHING
        right = left if theirs is not None and ours is not None and ours.raw is theirs.raw else _described(theirs)
        if self._any_float:
            left = left._replace(statistics=_floats(left.statistics, self._as_float[:4]))
            right = right._replace(statistics=_floats(right.statistics, self._as_float[4:]))
        names = (
            row_name(target, ours) if ours is not None and target else "N/A",
            row_name(golden, theirs) if theirs is not None and golden else "N/A",
        )
        head: list[Cell] = [
            names[0],
            names[1],
            left.dtype,
            right.dtype,
            left.shape,
            right.shape,
            left.requires_grad,
            right.requires_grad,
        ]
        middle: list[Cell] = []
        self._fill(middle, row, (ours, theirs), left, right)
        same_grad = "True" if left.requires_grad == right.requires_grad else "False"
        return CompareRow(*names, head, middle, [same_grad], "pass", []), ours, theirs

    def _fill(
        self, cells: list[Cell], row: int, leaves: tuple[Leaf | None, Leaf | None], left: Described, right: Described
    ) -> None:
        ours, theirs = leaves
        if self._mode is Mode.CHECKSUM:
            cells.append(_digest(ours))
            cells.append(_digest(theirs))
            return
        if self._mode is Mode.TENSOR:
            difference = self._tensors[row] if self._tensors is not None else None
            cells.extend(difference.cells if difference is not None else UNSUPPORTED)
        elif ours is None or theirs is None:
            cells.extend(_NA8)
        elif left.statistics == right.statistics:
            cells.extend(_EQUAL8)
        else:
            pairs = [differences(a, b) for a, b in zip(left.statistics, right.statistics, strict=True)]
            cells.extend([pair[0] for pair in pairs])
            cells.extend([pair[1] for pair in pairs])
        cells.extend(left.statistics)
        cells.extend(right.statistics)

    def _apply_default(
        self, group: list[tuple[CompareRow, Leaf | None, Leaf | None]], start: int, benign: bool
    ) -> None:
        for offset, (row, ours, theirs) in enumerate(group):
            if benign:
                row.messages = ["recomputed forward call, on one side only; nothing is missing"]
                continue
            index = start + offset
            if ours is None or theirs is None:
                row.level = "warning"
            else:
                row.level = _LEVELS[self._levels[index]]
            if row.level != "pass":
                tensor = self._tensors[index] if self._tensors is not None else None
                text = self._reasons.text(self._kinds[index], index, ours, theirs)
                row.messages = [f"{row.level}: {tensor.problem if tensor and tensor.problem else text}"]

    def _finish(self, group: list[tuple[CompareRow, Leaf | None, Leaf | None]], start: int, target: str | None) -> None:
        frames = self._dump.stacks.get(target) if target is not None else None
        for offset, (row, ours, theirs) in enumerate(group):
            row.tail.append(row.level)
            row.tail.append(_ENCODE(row.messages) if row.messages else "[]")
            if self._dump.has_stacks:
                row.tail.append(str(frames) if frames and offset == 0 else "N/A")
            if self._mode is Mode.TENSOR:
                row.tail.append(str([_file(ours), _file(theirs)]))


def _described(leaf: Leaf | None) -> Described:
    return _NOTHING if leaf is None else describe(leaf)


def _file(leaf: Leaf | None) -> str:
    return "N/A" if leaf is None else data_name(leaf.raw) or "-1"


def _digest(leaf: Leaf | None) -> Cell:
    if leaf is None:
        return "N/A"
    raw = leaf.raw
    if type(raw) is dict:
        if raw.get("md5") is not None:
            return str(raw["md5"])
        if "dtype" in raw:
            return ""
        value = raw.get("group_ranks") if raw.get("type") == "torch.ProcessGroup" else raw.get("value")
        return text_checksum(str(value))
    return "N/A" if raw is None else text_checksum(str(raw))


def _floats(values: tuple[Cell, ...], as_float: tuple[bool, ...]) -> tuple[Cell, ...]:
    if int not in map(type, values):
        return values
    return tuple(float(v) if convert and type(v) is int else v for v, convert in zip(values, as_float, strict=True))


def _float_columns(table: LeafTable) -> tuple[bool, ...]:
    """Which of the eight statistics columns hold integers beside floats and no text: those show floats only."""
    flags: list[bool] = []
    for leaves in (table.target, table.golden):
        raws = [leaf.raw if leaf is not None and type(leaf.raw) is dict else _TEXT for leaf in leaves]
        for name in ("Max", "Min", "Mean", "Norm"):
            values = [raw.get(name) if "dtype" in raw else raw.get("value") for raw in raws]
            flags.append(set(map(type, values)) == {int, float} and not any(v != v for v in values))
    return tuple(flags)


def _apply_reference(mode: Mode, entry: str, group: list[tuple[CompareRow, Leaf | None, Leaf | None]]) -> None:
    described = [
        ReferenceRow(
            output=(ours or theirs or Leaf("", "", None)).slot == "output",
            matched=ours is not None and theirs is not None,
            cells=row.cells,
        )
        for row, ours, theirs in group
    ]
    for (row, _, _), (level, messages) in zip(group, judge_entry(mode.value, entry, described), strict=True):
        row.level, row.messages = level, messages
