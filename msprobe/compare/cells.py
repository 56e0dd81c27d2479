"""The cells of a row before any verdict: names, dtypes, shapes, and the metrics of the mode."""

from __future__ import annotations

from itertools import chain
from operator import ne
from typing import Any

from msprobe.compare.items import RANK_KEYS, Described, Leaf, describe, row_name
from msprobe.compare.mode import Mode
from msprobe.compare.plain import statistics_cells
from msprobe.compare.table import LeafTable
from msprobe.numerics.metrics.checksum import text_checksum
from msprobe.numerics.metrics.statistics import Cell, differences
from msprobe.numerics.metrics.tensor import UNSUPPORTED, TensorDifference

Tensors = list[TensorDifference | None] | None
Cells = tuple[list[tuple[Cell, ...]], list[list[Cell] | str]]
_NOTHING = Described("N/A", "N/A", "N/A", ("N/A",) * 4)
_EQUAL8: tuple[Cell, ...] = ("0",) * 8
_NA8: tuple[Cell, ...] = ("N/A",) * 8
_GRADS = {True: "True", False: "False"}
_NO_VALUE: dict[str, object] = {"value": "N/A"}
_PLAIN = (int, float, bool, str)
_STATISTICS = ("Max", "Min", "Mean", "Norm")


class CellMaker:
    """Makes the cells of one comparison, for a range of entries at a time."""

    def __init__(self, mode: Mode, table: LeafTable, tensors: Tensors) -> None:
        self._mode, self._table, self._tensors = mode, table, tensors
        self._as_float: tuple[bool, ...] | None = None if mode is not Mode.CHECKSUM else (False,) * 8
        self._known: dict[Any, Described] = {}
        self._lasting = {id(_NOTHING)}
        self._known_middles: dict[Any, list[Cell]] = {}

    def rows(self, first: int, last: int) -> Cells:
        """Heads (eight cells) and middles (metrics and statistics) of the rows of entries ``first`` to ``last``.

        Rows with equal middles may share one list.
        """
        table, heads, middles = self._table, list[tuple[Cell, ...]](), list[list[Cell] | str]()
        starts = table.starts[first : last + 1].tolist()
        plain: dict[int, str] = {}
        if self._mode is Mode.STATISTICS:
            plain = statistics_cells(table.target, table.golden, starts[0], starts[-1])
        for number, pair in enumerate(table.entries[first:last]):
            target, golden = pair.target or "N/A", pair.golden or "N/A"
            for row in range(starts[number], starts[number + 1]):
                middle = plain.get(row)
                if middle is not None:
                    heads.append(_plain_head(target, golden, table.target[row], table.golden[row]))
                    middles.append(middle)
                else:
                    head, cells = self._row(row, target, golden)
                    heads.append(head)
                    middles.append(cells)
        return heads, middles

    def _row(self, row: int, target: str, golden: str) -> tuple[tuple[Cell, ...], list[Cell]]:
        ours, theirs = self._table.target[row], self._table.golden[row]
        left, right = self._described(ours, 0), self._described(theirs, 1)
        names = "N/A" if ours is None else row_name(target, ours), "N/A" if theirs is None else row_name(golden, theirs)
        head = (*names, left[0], right[0], left[1], right[1], left[2], right[2])
        if self._mode is not Mode.STATISTICS:
            return head, self._middle(row, (ours, theirs), left, right)
        pair = id(left), id(right), ours is None or theirs is None
        middle = self._known_middles.get(pair)
        if middle is None:
            middle = self._middle(row, (ours, theirs), left, right)
            if id(left) in self._lasting and id(right) in self._lasting:
                self._known_middles[pair] = middle
        return head, middle

    def _described(self, leaf: Leaf | None, side: int) -> Described:
        """How the leaf reads; plain arguments repeat over and over and are described once."""
        if leaf is None:
            return _NOTHING
        raw = leaf[2]
        plain = type(raw) is dict and len(raw) == 2 and type(raw.get("value")) in _PLAIN
        key = (side, raw["type"], str(raw["value"]), type(raw["value"]), leaf[0].endswith(RANK_KEYS)) if plain else None
        found = self._known.get(key) if key is not None else None
        if found is None:
            found = describe(leaf)
            if self._as_float is None:
                self._as_float = _float_columns(self._table)
            if True in self._as_float:
                flags = self._as_float[4 * side : 4 * side + 4]
                found = found._replace(statistics=_floats(found.statistics, flags))
            if key is not None:
                self._known[key] = found
                self._lasting.add(id(found))
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
            cells = difference.cells if difference is not None else UNSUPPORTED
        elif ours is None or theirs is None:
            cells = _NA8
        elif left.statistics == right.statistics:
            cells = _EQUAL8
        else:
            pairs = [differences(a, b) for a, b in zip(left.statistics, right.statistics, strict=True)]
            cells = (*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
        return [*cells, *left.statistics, *right.statistics]


def _plain_head(target: str, golden: str, ours: Any, theirs: Any) -> tuple[Cell, ...]:
    """The head of a row of two tensors."""
    left, right = ours[2], theirs[2]
    name = target + ours[0] if "data_name" not in left else row_name(target, ours)
    if "data_name" in right:
        other = row_name(golden, theirs)
    else:
        other = name if target == golden and ours[0] == theirs[0] else golden + theirs[0]
    shape, grad, other_grad = left["shape"], left.get("requires_grad"), right.get("requires_grad")
    shape_text = str(shape)
    other_text = shape_text if shape == right["shape"] else str(right["shape"])
    kinds = left["dtype"], right["dtype"], shape_text, other_text
    return (name, other, *kinds, _GRADS.get(grad, "N/A"), _GRADS.get(other_grad, "N/A"))


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


def _floats(values: tuple[Cell, ...], as_float: tuple[bool, ...]) -> tuple[Cell, ...]:
    if int not in map(type, values):
        return values
    return tuple(float(v) if convert and type(v) is int else v for v, convert in zip(values, as_float, strict=True))


def _float_columns(table: LeafTable) -> tuple[bool, ...]:
    """Which of the eight statistics columns hold integers beside floats and no text: those show floats only."""
    return (*_mixed_columns(table.target), *_mixed_columns(table.golden))


def _mixed_columns(leaves: list[Leaf | None]) -> list[bool]:
    raws: list[Any] = [leaf[2] if leaf is not None else None for leaf in leaves]
    if set(map(type, raws)) != {dict}:
        return [False] * 4
    values = [raw.get("value") for raw in raws if "dtype" not in raw]
    types = set(map(type, values))
    if not types <= {int, float} or any(map(ne, values, values)):
        return [False] * 4
    statistics = [tuple(map(raw.get, _STATISTICS)) for raw in raws if "dtype" in raw]
    everything = list(chain.from_iterable(statistics))
    if set(map(type, everything)) <= {float} and not any(map(ne, everything, everything)):
        return [types | {float} == {int, float} and bool(statistics)] * 4
    columns = zip(*statistics, strict=True)
    return [set(map(type, column)) | types == {int, float} and not any(map(ne, column, column)) for column in columns]
