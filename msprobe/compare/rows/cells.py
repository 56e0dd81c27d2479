"""The columns of rows before any verdict: names, dtypes, shapes, and the metrics of the mode.

The statistics columns that show integers as floats under the policy ``reference``.

Readers load the published tables with pandas, which turns a column of integers and floats into floats: ``1`` stands
there as ``1.0``. The policy ``default`` shows integers as integers.

A column shows floats if its cells are integers and floats only, and some row of its side is a tensor. What the cells
are is collected as words, so that the parts of a table can be looked at apart: ``int``, ``float``, ``tensor``, and
``other`` for everything else, NaN included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter, ne
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.inputs.mode import Mode
from msprobe.compare.rows.columns import (
    INTEGER,
    METRICS,
    Column,
    NumberWords,
    TextColumn,
    distinct_column,
    matrix_columns,
    text_column,
)
from msprobe.compare.table.float_pairs import COUNT
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import Leaf, is_tensor
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.metrics.statistics import Cell, difference_cells, text_checksum
from msprobe.numerics.metrics.tensor_cells import UNSUPPORTED
from msprobe.numerics.verdict import Floats, Ints
from msprobe.trace.leaves import RANK_KEYS, Described, as_float, describe, flag_text, row_name, shape_text

if TYPE_CHECKING:
    from msprobe.numerics.metrics.tensor import TensorDifference

ColumnTypes = list[list[str]]
"""For each statistics column, those of the target first, the words for its cells, sorted."""
_TYPE_NAMES = {int: "int", float: "float"}
_FLOATS_ONLY = {"int", "float", "tensor"}
NO_FLOAT_COLUMNS = (False,) * (2 * COUNT)


def float_columns(parts: Iterable[ColumnTypes]) -> tuple[bool, ...]:
    """Return for each statistics column of a table in parts whether it shows integers as floats."""
    return tuple(set().union(*words) == _FLOATS_ONLY for words in zip(*parts, strict=True))


def column_types(table: LeafTable) -> ColumnTypes:
    """Return what the cells of each statistics column are."""
    pairs = table.float_pairs
    others = np.ones(table.row_count, np.bool_)
    others[pairs.rows] = False
    rows = others.nonzero()[0].tolist()
    types: ColumnTypes = []
    for side, leaves in enumerate((table.target, table.golden)):
        types += _side_types([leaves[row] for row in rows], pairs.values[:, side])
    return types


def _side_types(leaves: Sequence[Leaf | None], plain: NDArray[np.float64]) -> ColumnTypes:
    """Return the words of one side. ``plain`` are the statistics of plain rows, shape (rows, statistics),
    ``leaves`` those of all other rows.
    """
    records: list[Any] = [leaf[2] if leaf is not None else None for leaf in leaves]
    if set(map(type, records)) - {dict}:
        return [["other"]] * COUNT
    arguments = _type_names([record.get("value") for record in records if "dtype" not in record])
    tensors = [tuple(map(record.get, STATISTIC_NAMES)) for record in records if "dtype" in record]
    common = {*arguments, *(["tensor"] if tensors or len(plain) else []), *(["float"] if len(plain) else [])}
    types = [common | _type_names(column) for column in zip(*tensors, strict=True)] or [common] * COUNT
    with_nan = np.isnan(plain).any(axis=0).tolist()
    return [sorted(words | {"other"} if nan else words) for words, nan in zip(types, with_nan, strict=True)]


def _type_names(values: Sequence[Any]) -> set[str]:
    names = {_TYPE_NAMES.get(kind, "other") for kind in set(map(type, values))}
    return names | {"other"} if any(map(ne, values, values)) else names


Tensors: TypeAlias = "list[TensorDifference | None] | None"
Kinds = tuple[str, ...]
_Argument = tuple[str, str, type, bool]
_Encoded = tuple[list[float], list[int]]
_NOTHING = Described("N/A", "N/A", "N/A", ("N/A",) * COUNT)
_PLAIN = (int, float, bool, str)
_BLOCK = 2048  # rows whose texts stay in the cache of the processor
_FRAME = itemgetter("dtype", "shape")


def entry_blocks(starts: Ints, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of consecutive entries from ``first`` to ``end``, with few rows each; ``starts`` are the numbers of
    the rows at which entries begin."""
    while first < end:
        last = int(np.searchsorted(starts, starts[first] + _BLOCK, side="right")) - 1
        last = min(max(last, first + 1), end)
        yield first, last
        first = last


class RowCells(NamedTuple):
    """The columns of some rows before any verdict.

    ``names`` are those of target and golden; ``kinds`` dtypes, shapes and requires_grad in turn of target and golden;
    ``consistent`` says whether the flags agree; ``metrics`` are metrics and statistics, or checksums.
    """

    names: tuple[TextColumn, TextColumn]
    kinds: list[TextColumn]
    consistent: TextColumn
    metrics: list[Column]


class CellMaker:
    """Makes the cells of one comparison, for a range of entries at a time."""

    def __init__(
        self, mode: Mode, table: LeafTable, tensors: Tensors, as_floats: Sequence[bool] = NO_FLOAT_COLUMNS
    ) -> None:
        """``as_floats`` says which statistics columns show integers as floats (see ``float_columns``)."""
        self._mode, self._table, self._tensors = mode, table, tensors
        self._as_floats = as_floats
        self.words = NumberWords()
        self._frames: dict[Any, Kinds] = {}
        self._kinds_by_frame: dict[int, Kinds] = {}
        self._arguments: dict[tuple[_Argument, _Argument], tuple[Kinds, _Encoded]] = {}
        self._prepared: dict[tuple[int, int], RowCells] = {}

    def prepare(self, first: int, last: int) -> None:
        """Make the cells of the rows of entries ``first`` to ``last`` now, for the next call of ``cells`` with them."""
        self._prepared[first, last] = self._made(first, last)

    def cells(self, first: int, last: int) -> RowCells:
        """Return the cells of the rows of entries ``first`` to ``last``."""
        return self._prepared.pop((first, last), None) or self._made(first, last)

    def _made(self, first: int, last: int) -> RowCells:
        start, stop = int(self._table.starts[first]), int(self._table.starts[last])
        targets, goldens = item_names(self._table, first, last)
        left = distinct_column(targets)
        names = left, left if goldens == targets else distinct_column(goldens)
        if self._mode is Mode.STATISTICS:
            kinds, metrics = self._statistics(start, stop)
        else:
            kinds, metrics = self._others(start, stop)
        index, distinct = _numbered(kinds)
        texts = list(zip(*distinct, strict=True)) or [()] * len(_NO_KINDS)
        consistent = TextColumn(index, ["True" if ours == theirs else "False" for *_, ours, theirs in distinct])
        return RowCells(names, [TextColumn(index, words) for words in texts], consistent, metrics)

    def _statistics(self, start: int, stop: int) -> tuple[list[Kinds], list[Column]]:
        """Return kinds and columns of rows of statistics: differences, relative ones, and the statistics."""
        pairs = self._table.float_pairs
        where = pairs.within(start, stop)
        usable, values, codes = _differences(pairs.values[where], self.words)
        plain = pairs.rows[where][usable] - start
        all_values, all_codes = np.zeros((stop - start, 4 * COUNT)), np.zeros((stop - start, 4 * COUNT), np.int64)
        all_values[plain], all_codes[plain] = values[usable], codes[usable]
        kinds = [_NO_KINDS] * (stop - start)
        for offset, frame in zip(plain.tolist(), pairs.kinds[where][usable].tolist(), strict=True):
            kinds[offset] = self._kinds_by_frame.get(frame) or self._kinds_of(frame)
        others = np.ones(stop - start, np.bool_)
        others[plain] = False
        offsets = others.nonzero()[0].tolist()
        encoded = []
        for offset in offsets:
            kinds[offset], numbers = self._row(start + offset)
            encoded.append(numbers)
        if encoded:
            all_values[offsets] = [numbers for numbers, _ in encoded]
            all_codes[offsets] = [numbers for _, numbers in encoded]
        return kinds, [*matrix_columns(all_values, all_codes, self.words.words, percent=range(COUNT, 2 * COUNT))]

    def _others(self, start: int, stop: int) -> tuple[list[Kinds], list[Column]]:
        """Return kinds and columns of rows of whole tensors or checksums."""
        kinds: list[Kinds] = []
        cells: list[list[Cell]] = []
        for row in range(start, stop):
            kind, own = self._described_row(row)
            kinds.append(kind)
            cells.append(own)
        titles = METRICS[self._mode]
        if self._mode is Mode.CHECKSUM:
            digests = list(zip(*cells, strict=True)) if cells else [()] * len(titles)
            return kinds, [text_column([str(cell) for cell in column]) for column in digests]
        columns = list(zip(*cells, strict=True)) if cells else [()] * (len(titles) + 2 * COUNT)
        return kinds, [self.words.column(column) for column in columns]

    def _kinds_of(self, frame: int) -> Kinds:
        kinds = self._kinds_by_frame[frame] = _tensor_kinds(*self._table.float_pairs.kind_samples[frame], self._frames)
        return kinds

    def _row(self, row: int) -> tuple[Kinds, _Encoded]:
        """Return kinds and numbers of any row of statistics; plain arguments, which repeat, are made once."""
        left, right = _argument(self._table.target[row]), _argument(self._table.golden[row])
        known = self._arguments.get((left, right)) if left is not None and right is not None else None
        if known is not None:
            return known
        kinds, cells = self._described_row(row)
        values, codes = zip(*map(self.words.encoded, cells), strict=True)
        made = kinds, (list(values), list(codes))
        if left is not None and right is not None:
            self._arguments[left, right] = made
        return made

    def _described_row(self, row: int) -> tuple[Kinds, list[Cell]]:
        ours, theirs = self._table.target[row], self._table.golden[row]
        if self._mode is Mode.CHECKSUM and ours and theirs and is_tensor(ours.raw) and is_tensor(theirs.raw):
            return _tensor_kinds(ours.raw, theirs.raw, self._frames), [_digest(ours), _digest(theirs)]
        left, right = self._described(ours, 0), self._described(theirs, 1)
        kinds = left.dtype, right.dtype, left.shape, right.shape, left.requires_grad, right.requires_grad
        if self._mode is Mode.CHECKSUM:
            return kinds, [_digest(ours), _digest(theirs)]
        return kinds, [*self._metrics(row, left, right), *left.statistics, *right.statistics]

    def _described(self, leaf: Leaf | None, side: int) -> Described:
        if leaf is None:
            return _NOTHING
        described = describe(leaf)
        if True in self._as_floats:
            flags = self._as_floats[COUNT * side : COUNT * (side + 1)]
            described = described._replace(statistics=_floats(described.statistics, flags))
        return described

    def _metrics(self, row: int, left: Described, right: Described) -> Sequence[Cell]:
        """Return the cells of ``METRICS`` for a row."""
        if self._mode is Mode.TENSOR:
            difference = self._tensors[row] if self._tensors is not None else None
            return difference.cells if difference is not None else UNSUPPORTED
        if left is _NOTHING or right is _NOTHING:
            return ("N/A",) * (2 * COUNT)
        pairs = [difference_cells(a, b) for a, b in zip(left.statistics, right.statistics, strict=True)]
        return (*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))


_NO_KINDS: Kinds = ("N/A",) * 6


def _differences(pairs: NDArray[np.float64], words: NumberWords) -> tuple[NDArray[np.bool_], Floats, Ints]:
    """Compute the cells of plain rows from their statistics, shape (rows, 2, statistics).

    Returns:
        Which rows are plain: all numbers and differences are finite. Values and codes, shape (rows, columns):
        differences in data units, relative differences in percent, statistics of the target and of the golden run.
    """
    target, golden = pairs[:, 0], pairs[:, 1]
    with np.errstate(all="ignore"):
        difference = target - golden
        percent = np.abs(difference / golden * 100)
    usable = np.isfinite(pairs).all(axis=(1, 2)) & np.isfinite(difference).all(axis=1)
    # Equal by text, as readers compare: 0.0 and -0.0 are not.
    equal = (difference == 0.0) & (np.signbit(target) == np.signbit(golden))
    codes = np.zeros((len(pairs), 4 * COUNT), np.int64)
    codes[:, :COUNT][equal] = codes[:, COUNT : 2 * COUNT][equal] = INTEGER
    percent[equal] = 0.0
    endless = ~np.isfinite(percent)
    if endless.any():
        percent[endless] = 0.0
        codes[:, COUNT : 2 * COUNT][endless] = words.code("inf")
    return usable, np.concatenate((difference, percent, target, golden), axis=1), codes


def _numbered(kinds: Sequence[Kinds]) -> tuple[Ints, list[Kinds]]:
    """Return the distinct ones in order, and the number of each row's."""
    numbers: dict[Kinds, int] = {}
    index = [numbers.setdefault(kind, len(numbers)) for kind in kinds]
    return np.array(index, np.int64), list(numbers)


def item_names(table: LeafTable, first: int, last: int) -> tuple[list[str], list[str]]:
    """Return the names of target and golden items in the rows of entries ``first`` to ``last``; ``N/A`` for a missing
    one.
    """
    entries, starts = table.entries[first:last], table.starts[first : last + 1].tolist()
    targets = _names([pair.target or "N/A" for pair in entries], table.target, starts)
    goldens = _names([pair.golden or "N/A" for pair in entries], table.golden, starts)
    for row, name in table.other_entry.items():
        if starts[0] <= row < starts[-1]:
            goldens[row - starts[0]] = name
    for row, together in table.together.items():
        if starts[0] <= row < starts[-1]:
            (goldens if together.in_golden else targets)[row - starts[0]] = together.name
    return targets, goldens


def _names(entries: list[str], leaves: Sequence[Leaf | None], starts: list[int]) -> list[str]:
    """Return the names of the rows of these entries, whose ranges begin at ``starts``."""
    found: list[str] = []
    for number, entry in enumerate(entries):
        for leaf in leaves[starts[number] : starts[number + 1]]:
            if leaf is None:
                found.append("N/A")
            elif type(leaf[2]) is dict and "data_name" in leaf[2]:
                found.append(row_name(entry, leaf))
            else:
                found.append(entry + leaf[0])
    return found


def _argument(leaf: Leaf | None) -> _Argument | None:
    """Return what decides the cells of a plain argument; None for any other leaf."""
    raw = leaf[2] if leaf is not None else None
    if leaf is None or type(raw) is not dict or len(raw) != 2 or type(raw.get("value")) not in _PLAIN:
        return None
    return raw["type"], str(raw["value"]), type(raw["value"]), leaf[0].endswith(RANK_KEYS)


def _tensor_kinds(ours: dict[str, Any], theirs: dict[str, Any], known: dict[Any, Kinds]) -> Kinds:
    """Return the kinds of a row of two tensors, in the words of ``describe``; ``known`` caches them."""
    dtype, shape = _FRAME(ours)
    other_dtype, other_shape = _FRAME(theirs)
    grad, other_grad = ours.get("requires_grad"), theirs.get("requires_grad")
    try:
        lengths = tuple(shape)
        other_lengths = lengths if shape == other_shape else tuple(other_shape)
        key = dtype, other_dtype, lengths, other_lengths, grad, other_grad
        found = known.get(key)
    except TypeError:  # a damaged dump may hold anything
        key, found = None, None
    if found is None:
        found = (
            *(str(dtype), str(other_dtype), shape_text(shape), shape_text(other_shape)),
            *(flag_text(grad), flag_text(other_grad)),
        )
        if key is not None:
            known[key] = found
    return found


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


def _floats(values: tuple[Cell, ...], columns: Sequence[bool]) -> tuple[Cell, ...]:
    if int not in map(type, values):
        return values
    return tuple(as_float(v) if convert and type(v) is int else v for v, convert in zip(values, columns, strict=True))
