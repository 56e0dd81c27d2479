"""The cells of a row before any verdict: names, dtypes, shapes, and the metrics of the mode."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msprobe.compare.float_columns import float_columns
from msprobe.compare.items import RANK_KEYS, Described, Leaf, describe, flag_text, is_tensor, row_name, shape_text
from msprobe.compare.mode import Mode
from msprobe.compare.plain import ReadyTexts, statistics_cells
from msprobe.compare.recorded_number import as_float
from msprobe.compare.table import LeafTable
from msprobe.numerics.metrics.checksum import text_checksum
from msprobe.numerics.metrics.statistics import Cell, differences

if TYPE_CHECKING:
    from msprobe.numerics.metrics.tensor import TensorDifference

Tensors: TypeAlias = "list[TensorDifference | None] | None"
Kinds = tuple[str, ...]
_Argument = tuple[str, str, type, bool]
_NOTHING = Described("N/A", "N/A", "N/A", ("N/A",) * 4)
_EQUAL8: tuple[Cell, ...] = ("0",) * 8
_NA8: tuple[Cell, ...] = ("N/A",) * 8
_UNSUPPORTED6: tuple[Cell, ...] = ("unsupported",) * 6
_PLAIN = (int, float, bool, str)
_FRAME = itemgetter("dtype", "shape")


class Cells(NamedTuple):
    """The cells of some rows by part: both names; dtypes, shapes and requires_grad in turn of target and golden;
    metrics and statistics, as one text where they are plain numbers joined by commas.

    Rows with equal parts may share one object.
    """

    targets: list[str]
    goldens: list[str]
    kinds: list[Kinds]
    middles: list[list[Cell] | str]


class CellMaker:
    """Makes the cells of one comparison, for a range of entries at a time."""

    def __init__(
        self,
        mode: Mode,
        table: LeafTable,
        tensors: Tensors,
        as_floats: tuple[bool, ...] | None = None,
        texts: ReadyTexts | None = None,
    ) -> None:
        self._mode, self._table, self._tensors, self._texts = mode, table, tensors, texts
        self._as_float = as_floats if mode is not Mode.CHECKSUM else (False,) * 8
        self._frames: dict[Any, Kinds] = {}
        self._of_frame: dict[int, Kinds] = {}
        self._known: dict[tuple[_Argument, _Argument], tuple[Kinds, list[Cell]]] = {}

    def cells(self, first: int, last: int) -> Cells:
        """The cells of the rows of entries ``first`` to ``last``."""
        table = self._table
        starts = table.starts[first : last + 1].tolist()
        kinds, middles = list[Kinds](), list[list[Cell] | str]()
        plain: dict[int, str] = {}
        frames: dict[int, int] = {}
        if self._mode is Mode.STATISTICS:
            plain = statistics_cells(table.float_pairs, starts[0], starts[-1], self._texts)
            frames = table.float_pairs.frames_of(starts[0], starts[-1])
        for row in range(starts[0], starts[-1]):
            middle = plain.get(row)
            if middle is None:
                kind, cells = self._row(row)
                kinds.append(kind)
                middles.append(cells)
            else:
                kinds.append(self._kinds_of(frames[row]))
                middles.append(middle)
        return Cells(*item_names(table, first, last), kinds, middles)

    def _kinds_of(self, frame: int) -> Kinds:
        known = self._of_frame.get(frame)
        if known is None:
            sample = self._table.float_pairs.samples[frame]
            known = self._of_frame[frame] = _tensor_kinds(*sample, self._frames)
        return known

    def _row(self, row: int) -> tuple[Kinds, list[Cell]]:
        """Kinds and middle of any row; those of plain arguments, which repeat over and over, are made once."""
        ours, theirs = self._table.target[row], self._table.golden[row]
        if self._mode is Mode.TENSOR:
            return self._made(row, ours, theirs)
        left, right = _argument(ours), _argument(theirs)
        if left is None or right is None:
            if self._mode is Mode.CHECKSUM and ours and theirs and is_tensor(ours.raw) and is_tensor(theirs.raw):
                return _tensor_kinds(ours.raw, theirs.raw, self._frames), [_digest(ours), _digest(theirs)]
            return self._made(row, ours, theirs)
        found = self._known.get((left, right))
        if found is None:
            found = self._known[left, right] = self._made(row, ours, theirs)
        return found

    def _made(self, row: int, ours: Leaf | None, theirs: Leaf | None) -> tuple[Kinds, list[Cell]]:
        left, right = self._described(ours, 0), self._described(theirs, 1)
        kinds = left.dtype, right.dtype, left.shape, right.shape, left.requires_grad, right.requires_grad
        return kinds, self._middle(row, (ours, theirs), left, right)

    def _described(self, leaf: Leaf | None, side: int) -> Described:
        if leaf is None:
            return _NOTHING
        found = describe(leaf)
        if self._as_float is None:
            self._as_float = float_columns(self._table)
        if True in self._as_float:
            flags = self._as_float[4 * side : 4 * side + 4]
            found = found._replace(statistics=_floats(found.statistics, flags))
        return found

    def _middle(
        self, row: int, leaves: tuple[Leaf | None, Leaf | None], left: Described, right: Described
    ) -> list[Cell]:
        ours, theirs = leaves
        if self._mode is Mode.CHECKSUM:
            return [_digest(ours), _digest(theirs)]
        cells: tuple[Cell, ...]
        if self._mode is Mode.TENSOR:
            difference = self._tensors[row] if self._tensors is not None else None
            cells = difference.cells if difference is not None else _UNSUPPORTED6
        elif ours is None or theirs is None:
            cells = _NA8
        elif left.statistics == right.statistics:
            cells = _EQUAL8
        else:
            pairs = [differences(a, b) for a, b in zip(left.statistics, right.statistics, strict=True)]
            cells = (*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
        return [*cells, *left.statistics, *right.statistics]


def item_names(table: LeafTable, first: int, last: int) -> tuple[list[str], list[str]]:
    """The names of target and golden items in the rows of entries ``first`` to ``last``; ``N/A`` for a missing one."""
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
    """The names of the rows of these entries, whose ranges begin at ``starts``."""
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
    """What decides the cells of a plain argument; None for any other leaf."""
    raw = leaf[2] if leaf is not None else None
    if leaf is None or type(raw) is not dict or len(raw) != 2 or type(raw.get("value")) not in _PLAIN:
        return None
    return raw["type"], str(raw["value"]), type(raw["value"]), leaf[0].endswith(RANK_KEYS)


def _tensor_kinds(ours: dict[str, Any], theirs: dict[str, Any], known: dict[Any, Kinds]) -> Kinds:
    """Kinds of a row of two tensors, in the words of ``describe``; ``known`` remembers them, few serve many rows."""
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


def data_name(raw: Any) -> str | None:
    """The tensor file of a leaf, or None when it has none."""
    name = raw.get("data_name") if type(raw) is dict else None
    return name if isinstance(name, str) and name not in ("", "-1") else None


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


def _floats(values: tuple[Cell, ...], columns: tuple[bool, ...]) -> tuple[Cell, ...]:
    if int not in map(type, values):
        return values
    return tuple(as_float(v) if convert and type(v) is int else v for v, convert in zip(values, columns, strict=True))
