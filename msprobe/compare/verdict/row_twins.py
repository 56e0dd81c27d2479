"""Rows of tensors that the other run has too, whatever tensors they lie in there: known where both runs have files.

Statistics say what a tensor holds as a whole. A batch, a sequence or a cache that comes in other portions (packed,
padded, in chunks, token by token) has the same rows in other tensors, beside rows that the other run does not have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import file_inside, read_tensor
from msprobe.core.tensors.projection import position_weights
from msprobe.trace.leaves import data_name, element_count, is_shape
from msprobe.trace.likeness import is_float

_NARROWEST = 4
"""The fewest elements of a row that say which one it is."""
_MOST_ELEMENTS = 1 << 27
"""How many elements of rows of one width a side may have for them to be looked at."""
_NEIGHBOURS = range(-2, 3)
_Raw = Mapping[str, Any]
_Floats = NDArray[np.float64]
_Rows = NDArray[np.float32]


class _Index(NamedTuple):
    """The rows of one width of a side, in the order of their projections."""

    projections: _Floats
    rows: _Rows


class RowTwins:
    """Finds rows in the tensors of the other side.

    Args:
        sides: the recorded tensors of target and golden run, each once.
        folders: where their files lie.
        allowed: returns how far twins of a tensor may be apart, relative to their scale.
    """

    def __init__(
        self, sides: Sequence[Sequence[_Raw]], folders: Sequence[Path], allowed: Callable[[_Raw], float]
    ) -> None:
        self._sides, self._folders, self._allowed = sides, folders, allowed
        self._indexes: dict[tuple[int, int], _Index | None] = {}
        self._distances: dict[tuple[int, str], _Floats] = {}

    def apart(self, side: int, raw: _Raw) -> float:
        """Return how far the rows of a tensor are from those of the other side, relative to its largest element;
        infinite where one has no twin there, or nothing is known."""
        return float(self._row_distances(side, raw).max(initial=-math.inf)) if self._has_rows(raw) else math.inf

    def has_any(self, side: int, raw: _Raw) -> bool:
        """Return whether the other side has a row of a tensor."""
        return self._has_rows(raw) and bool(np.isfinite(self._row_distances(side, raw)).any())

    def _has_rows(self, raw: _Raw) -> bool:
        return data_name(raw) is not None and is_float(raw) and _width(raw) >= _NARROWEST and element_count(raw) > 0

    def _row_distances(self, side: int, raw: _Raw) -> _Floats:
        key = side, str(data_name(raw))
        if key not in self._distances:
            self._distances[key] = self._find_distances(side, raw)
        return self._distances[key]

    def _find_distances(self, side: int, raw: _Raw) -> _Floats:
        rows = self._rows(side, raw)
        index = self._index(1 - side, _width(raw))
        if rows is None or index is None or not np.isfinite(rows).all():
            return np.full(1, math.inf)
        scale = max(float(np.abs(rows).max()), 1e-300)
        places = np.searchsorted(index.projections, _projections(rows))
        nearest = np.full(len(rows), math.inf)
        for step in _NEIGHBOURS:
            near = np.clip(places + step, 0, len(index.rows) - 1)
            nearest = np.minimum(nearest, np.abs(index.rows[near] - rows).max(axis=1) / scale)
        nearest[nearest > self._allowed(raw)] = math.inf
        return nearest

    def _index(self, side: int, width: int) -> _Index | None:
        """Return the rows of a side of one width; None where there are none, or too many."""
        if (side, width) not in self._indexes:
            raws = [raw for raw in self._sides[side] if self._has_rows(raw) and _width(raw) == width]
            small = sum(map(element_count, raws)) <= _MOST_ELEMENTS
            rows = [found for raw in raws if (found := self._rows(side, raw)) is not None] if small else []
            self._indexes[side, width] = _index_of(rows) if rows else None
        return self._indexes[side, width]

    def _rows(self, side: int, raw: _Raw) -> _Rows | None:
        try:
            tensor = read_tensor(file_inside(self._folders[side], str(data_name(raw))))
        except ReadError:
            return None  # the row of the table says so
        whole = tensor.size == element_count(raw) and tensor.dtype.kind == "f"
        return tensor.astype(np.float32).reshape(-1, _width(raw)) if whole else None


def _index_of(parts: Sequence[_Rows]) -> _Index:
    finite = [rows[np.isfinite(rows).all(axis=1)] for rows in parts]
    projections = np.concatenate([_projections(rows) for rows in finite])
    order = np.argsort(projections)
    return _Index(projections[order], np.concatenate(finite)[order])


def _projections(rows: _Rows) -> _Floats:
    weights: _Floats = np.resize(position_weights(), rows.shape[1])
    return rows @ weights


def _width(raw: _Raw) -> int:
    shape: Any = raw.get("shape")
    return shape[-1] if shape and is_shape(shape) else 0
