"""Result tables as CSV: private to the user, never over an existing file, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import to_json

from msprobe.compare.rows.columns import FIRST_WORD, FLOAT, INTEGER, Column, NumberColumn, TextColumn
from msprobe.compare.rows.rows import Chunks, RowBlock
from msprobe.compare.table.float_pairs import float_texts
from msprobe.numerics.metrics.statistics import Cell
from msprobe.numerics.verdict import Floats, Ints
from msprobe.report.result_file import publish, unfinished

_FORMULA = tuple("=+-@%\t\r＝＋－＠％")
_FORMULA_MARKS = frozenset(_FORMULA)
_first_letter = itemgetter(slice(1))
MOST_ROWS = 1_000_000
_AT_ONCE = 2_000


def safe_cell(cell: Cell) -> Cell:
    """The cell with a leading ``'`` where a spreadsheet would run it; infinities get the leading blank readers
    expect.

    Texts that are negative numbers (``-1.5``, ``-inf``) stay as they are.
    """
    if isinstance(cell, str):
        risky = (cell.startswith(_FORMULA) and not _is_negative_number(cell)) or _hidden(cell)
        return "'" + cell if risky else cell
    if isinstance(cell, float) and math.isinf(cell):
        return f" {cell}"
    return cell


def small_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return the text of a table that fits into memory: the titles, then rows of safe cells."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([safe_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def _hidden(text: str) -> bool:
    """True where a separator that some spreadsheets use is followed by a formula."""
    return ";" in text and any(part.lstrip().startswith(("=", "+", "@")) for part in text.split(";")[1:])


def _is_negative_number(text: str) -> bool:
    try:
        float(text[:-1] if text.endswith("%") else text)
    except ValueError:
        return False
    return text.startswith("-")


def write_table(folder: Path, stem: str, columns: Sequence[str], blocks: Iterable[RowBlock]) -> list[Path]:
    """Write rows below a title line and return the files; more than a million rows go to further ``_part_`` files.

    A file is there when it is whole: an interrupted command leaves none.

    Raises:
        OSError: a file cannot be written.
    """
    return write_chunks(folder, stem, columns, chunks(blocks))


def chunks(blocks: Iterable[RowBlock], first: int = 0) -> Chunks:
    """Rows as text, many at a time; ``first`` is the number of the first one in its table. No chunk goes beyond the
    end of a file."""
    lines = chain.from_iterable(map(_lines, blocks))
    while part := list(islice(lines, min(_AT_ONCE, MOST_ROWS - first % MOST_ROWS))):
        first += len(part)
        yield len(part), _encoded(part)


def write_chunks(folder: Path, stem: str, columns: Sequence[str], rows: Chunks) -> list[Path]:
    """Write what ``chunks`` made of consecutive rows; see ``write_table``."""
    title = _encoded([",".join(columns)])
    paths: list[Path] = []
    first = next(rows, (0, b""))
    while first[0] or not paths:
        here = _one_file(first, rows)
        paths.append(_write_file(folder, f"{stem}_part_{len(paths)}" if paths else stem, chain((title,), here)))
        first = next(rows, (0, b""))
    return paths


def _one_file(first: tuple[int, bytes], rows: Chunks) -> Iterator[bytes]:
    """The texts up to the end of a file."""
    count, text = first
    yield text
    while count < MOST_ROWS and (following := next(rows, None)) is not None:
        count += following[0]
        yield following[1]


def _write_file(folder: Path, stem: str, texts: Iterable[bytes]) -> Path:
    with unfinished(folder, stem) as (temporary, descriptor):
        with os.fdopen(descriptor, "wb", 1 << 20) as file:
            file.writelines(texts)
        return publish(temporary, folder, stem, ".csv")


def _encoded(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def _lines(block: RowBlock) -> Iterator[str]:
    """Return one text per row. Neighbouring columns are formatted together where that saves work."""
    parts: list[Sequence[str]] = []
    for group in _groups(block.columns):
        first = group[0]
        if isinstance(first, NumberColumn):
            parts.append(_number_texts([column for column in group if isinstance(column, NumberColumn)]))
        else:
            parts.append(_text_fields([column for column in group if isinstance(column, TextColumn)]))
    return map(",".join, zip(*parts, strict=True))


def _groups(columns: Sequence[Column]) -> Iterator[list[Column]]:
    """Yield neighbouring columns together: texts that share an index, numbers that share their words."""
    group: list[Column] = []
    for column in columns:
        if group and not _alike(group[-1], column):
            yield group
            group = []
        group.append(column)
    if group:
        yield group


def _alike(left: Column, right: Column) -> bool:
    if isinstance(left, NumberColumn) and isinstance(right, NumberColumn):
        return left.words is right.words
    return isinstance(left, TextColumn) and isinstance(right, TextColumn) and left.index is right.index


def _text_fields(group: Sequence[TextColumn]) -> list[str]:
    """Return for each row the fields of text columns that share an index, joined by commas."""
    words = _texts(group[0].words)
    if len(group) > 1:
        words = list(map(",".join, zip(words, *(_texts(column.words) for column in group[1:]), strict=True)))
    if len(words) == 1:
        return list(words) * len(group[0])
    return list(map(words.__getitem__, group[0].index.tolist()))


def _number_texts(group: Sequence[NumberColumn]) -> list[str]:
    """Return for each row the fields of number columns that share their words, joined by commas.

    Most rows hold floats alone and are written many at once. Rows without a float, most of them arguments, repeat: the
    text of equal ones is made once.
    """
    values, codes = (np.stack([getattr(one, name) for one in group], axis=1) for name in ("values", "codes"))
    floats = (codes == FLOAT).sum(axis=1)
    texts = [""] * len(values)
    rows = (floats == len(group)).nonzero()[0]
    if len(rows):
        _put(texts, rows, _float_rows(values[rows], [column.percent for column in group]))
    rows = ((floats > 0) & (floats < len(group))).nonzero()[0]
    if len(rows):
        _put(texts, rows, map(",".join, zip(*_fields(values[rows].T, codes[rows].T, group), strict=True)))
    rows = (floats == 0).nonzero()[0]
    known: dict[bytes, str] = {}
    keys = np.concatenate((values[rows], codes[rows]), axis=1)
    for row, key in zip(rows.tolist(), keys.view(f"V{keys.shape[1] * keys.itemsize}").ravel().tolist(), strict=True):
        if key not in known:
            cells = zip(group, codes[row].tolist(), values[row].tolist(), strict=True)
            known[key] = ",".join([_special_field(column, code, value) for column, code, value in cells])
        texts[row] = known[key]
    return texts


def _put(texts: list[str], rows: Ints, own: Iterable[str]) -> None:
    for row, text in zip(rows.tolist(), own, strict=True):
        texts[row] = text


def _float_rows(values: Floats, percent: Sequence[bool]) -> list[str]:
    """Return the fields of rows that hold floats alone, joined by commas; ``values`` has shape (rows, columns).

    A JSON writer makes the text of all rows at once. Its floats read as those of ``repr`` but for very large and very
    small ones, which stand in the JSON as texts, the quotes of which are removed again.
    """
    size = np.abs(values)
    odd = (size >= 1e15) | ((size < 1.1e-4) & (size > 0.0))
    cells: list[list[Any]] = values.tolist()
    distinct, numbers = np.unique(values[odd], return_inverse=True)
    texts = list(map(repr, distinct.tolist()))
    rows, columns = odd.nonzero()
    for row, column, number in zip(rows.tolist(), columns.tolist(), numbers.tolist(), strict=True):
        cells[row][column] = texts[number]
    if True not in percent:
        return to_json(cells).decode()[2:-2].replace('"', "").split("],[")
    first, last = percent.index(True), len(percent) - percent[::-1].index(True)
    parts = []
    for start, stop in ((0, first), (first, last), (last, len(percent))):
        if start < stop:
            text = to_json([row[start:stop] for row in cells]).decode()[2:-2].replace('"', "")
            signed = percent[start]
            parts.append(((text.replace(",", "%,").replace("]%,[", "%],[") + "%") if signed else text).split("],["))
    return list(map(",".join, zip(*parts, strict=True)))


def _fields(values: Floats, codes: Ints, group: Sequence[NumberColumn]) -> list[list[str]]:
    """Return the fields of some rows by column; ``values`` and ``codes`` have shape (columns, rows)."""
    equal = ((codes == INTEGER) & (values == 0.0)).all(axis=1)
    rows = values.shape[1]
    written = iter(float_texts(values[~equal].ravel()))
    fields: list[list[str]] = []
    for own, own_values, all_equal, column in zip(codes, values, equal.tolist(), group, strict=True):
        if all_equal:
            fields.append(["0"] * rows)
            continue
        texts = list(islice(written, rows))
        if column.percent:
            texts = [f"{text}%" for text in texts]
        special = own.nonzero()[0]
        words: dict[int, str] = {}
        for row, code in zip(special.tolist(), own[special].tolist(), strict=True):
            if code == INTEGER:
                texts[row] = str(int(own_values[row]))
                continue
            if code not in words:
                words[code] = _special_field(column, code, 0.0)
            texts[row] = words[code]
        fields.append(texts)
    return fields


def _special_field(column: NumberColumn, code: int, value: float) -> str:
    """Return the field of a cell that is no float."""
    return str(int(value)) if code == INTEGER else _field(column.words[code - FIRST_WORD])


def _texts(cells: Sequence[str]) -> Sequence[str]:
    """Return the fields of texts."""
    text = "\n".join(cells)
    if _is_plain(text, cells):
        if "," not in text and '"' not in text:
            return cells
        quoted = text.replace('"', '""').split("\n")
        return [f'"{cell}"' if "," in cell or '"' in cell else cell for cell in quoted]
    known = {cell: _field(cell) for cell in set(cells)}
    return [known[cell] for cell in cells]


def _is_plain(text: str, cells: Sequence[str]) -> bool:
    """True where no cell has lines or can look like a formula; False is no verdict. ``text`` has a line per cell."""
    if ";" in text or "\r" in text or text.count("\n") != len(cells) - 1:
        return False
    return _FORMULA_MARKS.isdisjoint(map(_first_letter, cells))


def _field(cell: Cell) -> str:
    """The text of a cell in the file: safe, and quoted where the format needs it."""
    if type(cell) is float:
        return repr(cell) if -math.inf < cell < math.inf else f" {cell}"
    text = str(safe_cell(cell))
    return '"' + text.replace('"', '""') + '"' if _SPECIAL(text) else text


_SPECIAL = re.compile(r'[,"\r\n]').search
