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

from msprobe.compare.columns import middles
from msprobe.compare.mode import Mode
from msprobe.compare.rows import RowBlock
from msprobe.report.new_file import named, unfinished
from msprobe.report.typed import typed

DEVIATION = "Deviation"
_HEAD_COLUMNS = 8
_LEVEL = 1
_DIGITS = 1e-7
_SUFFIX = ".table"
_NO_ROWS = np.zeros(0)


class PageTable:
    """Collects the blocks of one comparison, whose table has columns with these titles."""

    def __init__(self, titles: Sequence[str], mode: Mode) -> None:
        self._titles = titles
        self._texts = mode is Mode.CHECKSUM
        self._tails = len(self._titles) - _HEAD_COLUMNS - middles(mode)
        self._columns: list[_Texts | _Numbers] = []
        for number in range(len(self._titles)):
            middle = _HEAD_COLUMNS <= number < len(self._titles) - self._tails
            self._columns.append(_Numbers() if middle and not self._texts else _Texts())

    def add(self, block: RowBlock) -> None:
        """Append the rows of a block."""
        cells = block.cells
        heads = [cells.targets, cells.goldens, *zip(*cells.kinds, strict=True)]
        middles = self._columns[_HEAD_COLUMNS : len(self._titles) - self._tails]
        if self._texts:
            rows = [middle.split(",") if isinstance(middle, str) else middle for middle in cells.middles]
            parts: Iterable[Sequence[Any]] = zip(*rows, strict=True)
        else:
            parts = ()
            _add_numbers(middles, cells.middles)
        texts = [column for column in self._columns if isinstance(column, _Texts)]
        for column, part in zip(texts, [*heads, *parts, *block.tails], strict=True):
            column.add(part)

    def told(self) -> tuple[list[Any], dict[str, NDArray[Any]]]:
        """All blocks so far, for another process."""
        parts = [column.told() for column in self._columns]
        return [words for words, _ in parts], {str(number): values for number, (_, values) in enumerate(parts)}

    def take(self, words: Sequence[Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Append the blocks that another process told of."""
        for number, (column, own) in enumerate(zip(self._columns, words, strict=True)):
            column.take(own, arrays[str(number)])

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
            return named(temporary, folder, stem, _SUFFIX)

    def _pieces(self, worst: NDArray[np.float64]) -> Iterable[bytes]:
        buffers = _Buffers()
        columns = [{"title": DEVIATION, **buffers.add("values", _shortest(worst))}]
        for title, column in zip(self._titles, self._columns, strict=True):
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

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._index: list[int] = []

    def add(self, cells: Iterable[Any]) -> None:
        known = self._known
        self._index += [known.setdefault(cell, len(known)) for cell in map(str, cells)]

    def told(self) -> tuple[list[str], NDArray[Any]]:
        return list(self._known), np.array(self._index, np.uint32)

    def take(self, words: Sequence[str], index: NDArray[Any]) -> None:
        known = self._known
        places = np.array([known.setdefault(word, len(known)) for word in words], np.uint32)
        self._index += places[index].tolist()

    def described(self, buffers: _Buffers) -> dict[str, Any]:
        values = _smallest(self._index, len(self._known))
        return {"kind": "text", "words": list(self._known), **buffers.add("values", values)}


class _Numbers:
    """A column of numbers, with texts where there is none."""

    def __init__(self) -> None:
        self._values: list[NDArray[np.float64]] = []
        self._odd: dict[int, str] = {}
        self._rows = 0
        self.percent = False

    def add(self, values: NDArray[np.float64], odd: dict[int, str]) -> None:
        """``odd`` are the texts by position in ``values``."""
        self._values.append(values)
        self._odd.update({self._rows + row: text for row, text in odd.items()})
        self._rows += len(values)

    def told(self) -> tuple[list[Any], NDArray[Any]]:
        return [self.percent, list(self._odd), list(self._odd.values())], np.concatenate(self._values or [_NO_ROWS])

    def take(self, words: Sequence[Any], values: NDArray[np.float64]) -> None:
        percent, rows, texts = words
        self.percent = self.percent or percent
        self.add(values, dict(zip(rows, texts, strict=True)))

    def described(self, buffers: _Buffers) -> dict[str, Any]:
        values = np.concatenate(self._values or [_NO_ROWS])
        words = list(dict.fromkeys(self._odd.values()))
        found = {"kind": "number", "percent": self.percent, "words": words}
        found.update(buffers.add("values", _shortest(values)))
        if words:
            number = {word: at + 1 for at, word in enumerate(words)}
            codes = _smallest([0] * len(values), len(words) + 1)
            codes[list(self._odd)] = [number[word] for word in self._odd.values()]
            found.update(buffers.add("codes", codes))
        return found


def _add_numbers(columns: Sequence[Any], middles: Sequence[Any]) -> None:
    """Append the metrics and statistics of some rows: joined texts hold numbers only, lists anything."""
    plain = [row for row, middle in enumerate(middles) if isinstance(middle, str)]
    values = np.zeros((len(middles), len(columns)))
    odd: list[dict[int, str]] = [{} for _ in columns]
    if plain:
        text = ",".join([middles[row] for row in plain])
        numbers = np.array(text.replace("%", "").split(","), np.float64).reshape(len(plain), -1)
        values[plain] = numbers
        for row, column in zip(*(~np.isfinite(numbers)).nonzero(), strict=True):
            odd[column][plain[row]] = str(float(numbers[row, column]))
        _note_percent(columns, middles[plain[0]].split(","))
    for row, middle in enumerate(middles):
        for number, cell in enumerate(() if isinstance(middle, str) else middle):
            value, percent = typed(cell)
            if isinstance(value, str):
                odd[number][row] = value
            else:
                values[row, number] = value * 100 if percent else value
                columns[number].percent = columns[number].percent or percent
    for number, column in enumerate(columns):
        column.add(values[:, number], odd[number])


def _note_percent(columns: Sequence[Any], cells: Sequence[str]) -> None:
    for column, cell in zip(columns, cells, strict=True):
        column.percent = column.percent or cell.endswith("%")


def _smallest(values: Sequence[int], count: int) -> NDArray[Any]:
    dtype = np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else np.uint32
    return np.array(values, dtype)


def _shortest(values: NDArray[np.float64]) -> NDArray[Any]:
    """As float32 where seven digits survive it."""
    with np.errstate(over="ignore", invalid="ignore"):
        small = values.astype(np.float32)
        kept = np.abs(small - values) <= _DIGITS * np.abs(values)
    whole = (np.abs(values) > 9_999_999) & (values == np.trunc(values))
    return small if (kept | (small == values)).all() and not whole.any() else values
