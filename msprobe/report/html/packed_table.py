"""One result table packed for a browser: columns of numbers and of text numbers, compressed.

::

    gzip( length of the head, uint32 | head, JSON | blanks | buffers, each from a multiple of 8 on )

The head has ``rows`` and ``columns``: ``title``; ``type`` of the buffer, one value per row; ``at``, where it begins
behind the head. A text column has ``words`` and numbers into it. In a number column ``words`` are the cells without a
number: where ``codes`` (a second buffer) is not zero, it is the number of the word, counted from one. Numbers are
float32 where that shows the seven digits that a reader sees.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.rows.columns import FIRST_WORD, Column, NumberColumn, TextColumn
from msprobe.compare.rows.rows import RowBlock
from msprobe.report.result_file import publish, unfinished

DEVIATION = "Deviation"
_DIGITS = 1e-7
_SUFFIX = ".table"


class PageTable:
    """Collects the blocks of one comparison, whose table has columns with these titles."""

    def __init__(self, titles: Sequence[str]) -> None:
        self._titles = titles
        self._columns: list[_Texts | _Numbers] = []

    def add(self, block: RowBlock) -> None:
        """Append the rows of a block."""
        if not self._columns:
            self._columns = [_Texts() if isinstance(column, TextColumn) else _Numbers() for column in block.columns]
        for column, added in zip(self._columns, block.columns, strict=True):
            column.add(added)

    def serialize(self) -> tuple[list[Any], dict[str, NDArray[Any]]]:
        """Return all blocks so far, for another process: the heads of the columns, and their arrays."""
        parts = [column.serialize() for column in self._columns]
        arrays = {f"{name}{number}": values for number, (_, own) in enumerate(parts) for name, values in own.items()}
        return [
            [isinstance(column, _Texts), head] for column, (head, _) in zip(self._columns, parts, strict=True)
        ], arrays

    def merge(self, heads: Sequence[Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Append the blocks that another process serialized."""
        if not self._columns:
            self._columns = [_Texts() if texts else _Numbers() for texts, _ in heads]
        for number, (column, (_, head)) in enumerate(zip(self._columns, heads, strict=True)):
            column.merge(head, {name: arrays[f"{name}{number}"] for name in column.ARRAYS})

    def write(self, folder: Path, stem: str, worst: NDArray[np.float64]) -> Path:
        """Write the packed table to a new file in ``folder``; ``worst`` is the deviation of each row.

        Raises:
            OSError: it cannot be written.
        """
        with unfinished(folder, stem) as (temporary, descriptor):
            with open(descriptor, "wb") as file:
                pack = zlib.compressobj(level=3, wbits=31)
                for piece in self._pieces(worst):
                    file.write(pack.compress(piece))
                file.write(pack.flush())
            return publish(temporary, folder, stem, _SUFFIX)

    def _pieces(self, worst: NDArray[np.float64]) -> Iterable[bytes]:
        buffers = _Buffers()
        columns = [{"title": DEVIATION, **buffers.add("values", _shortest(worst))}]
        for title, column in zip(self._titles, self._columns or map(_empty, self._titles), strict=True):
            columns.append({"title": title, **column.described(buffers)})
        head = json.dumps({"rows": len(worst), "columns": columns}).encode()
        yield struct.pack("<I", len(head)) + head + b" " * (-(4 + len(head)) % 8)
        yield from buffers.pieces


@dataclass(slots=True)
class _Buffers:
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, name: str, values: NDArray[Any]) -> dict[str, Any]:
        """Where the values lie: ``type`` and ``at`` for the values of a column, ``{name}_type`` ... for others."""
        raw = values.tobytes()
        at, self.size = self.size, self.size + len(raw) + -len(raw) % 8
        self.pieces.append(raw + b"\0" * (-len(raw) % 8))
        prefix = "" if name == "values" else f"{name}_"
        return {f"{prefix}type": values.dtype.name, f"{prefix}at": at}


class _Texts:
    """A column of texts, most of which repeat."""

    ARRAYS = ("index",)

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._index: list[NDArray[np.uint32]] = []

    def add(self, column: Column) -> None:
        """Append a text column."""
        assert isinstance(column, TextColumn)
        self.merge(column.words, {"index": column.index})

    def serialize(self) -> tuple[list[str], dict[str, NDArray[Any]]]:
        return list(self._numbers), {"index": _joined(self._index, np.uint32)}

    def merge(self, words: Sequence[str], arrays: Mapping[str, NDArray[Any]]) -> None:
        numbers = self._numbers
        own = np.array([numbers.setdefault(word, len(numbers)) for word in words], np.uint32)
        self._index.append(own[arrays["index"]])

    def described(self, buffers: _Buffers) -> dict[str, Any]:
        values = _smallest(_joined(self._index, np.uint32), len(self._numbers))
        return {"kind": "text", "words": list(self._numbers), **buffers.add("values", values)}


class _Numbers:
    """A column of numbers, with words where there is none. Codes are 0 for numbers, else count words from 1."""

    ARRAYS = ("values", "codes")

    def __init__(self) -> None:
        self._values: list[NDArray[np.float64]] = []
        self._codes: list[NDArray[np.uint32]] = []
        self._numbers: dict[str, int] = {}
        self._percent = False

    def add(self, column: Column) -> None:
        """Append a number column."""
        assert isinstance(column, NumberColumn)
        rows = (column.codes >= FIRST_WORD).nonzero()[0]
        numbers: dict[int, int] = {}
        codes = np.zeros(len(column), np.int64)
        codes[rows] = [numbers.setdefault(code, len(numbers) + 1) for code in column.codes[rows].tolist()]
        words = [str(column.words[code - FIRST_WORD]) for code in numbers]
        self.merge([column.percent, words], {"values": column.values, "codes": codes})

    def serialize(self) -> tuple[list[Any], dict[str, NDArray[Any]]]:
        codes = _joined(self._codes, np.uint32)
        return [self._percent, list(self._numbers)], {"values": _joined(self._values, np.float64), "codes": codes}

    def merge(self, head: Sequence[Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        percent, words = head
        self._percent = self._percent or percent
        numbers = self._numbers
        own = np.array([0, *(numbers.setdefault(word, len(numbers) + 1) for word in words)], np.uint32)
        self._values.append(arrays["values"])
        self._codes.append(own[arrays["codes"]])

    def described(self, buffers: _Buffers) -> dict[str, Any]:
        words = list(self._numbers)
        found = {"kind": "number", "percent": self._percent, "words": words}
        found.update(buffers.add("values", _shortest(_joined(self._values, np.float64))))
        if words:
            found.update(buffers.add("codes", _smallest(_joined(self._codes, np.uint32), len(words) + 1)))
        return found


def _empty(_title: str) -> _Texts:
    return _Texts()


def _joined(parts: Sequence[NDArray[Any]], dtype: type) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *parts])


def _smallest(values: NDArray[Any], count: int) -> NDArray[Any]:
    dtype = np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else np.uint32
    return values.astype(dtype)


def _shortest(values: NDArray[np.float64]) -> NDArray[Any]:
    """As float32 where seven digits survive it."""
    with np.errstate(over="ignore", invalid="ignore"):
        small = values.astype(np.float32)
        kept = np.abs(small - values) <= _DIGITS * np.abs(values)
    whole = (np.abs(values) > 9_999_999) & (values == np.trunc(values))
    return small if (kept | (small == values)).all() and not whole.any() else values
