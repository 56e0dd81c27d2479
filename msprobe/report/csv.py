"""Result tables as CSV: private to the user, never over an existing file, safe to open in a spreadsheet."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path

from msprobe.compare.rows import RowBlock
from msprobe.numerics.metrics.statistics import Cell
from msprobe.report.new_file import named, unfinished

_FORMULA = tuple("=+-@%\t\r＝＋－＠％")
_FORMULA_MARKS = frozenset(_FORMULA)
_first_letter = itemgetter(slice(1))
MOST_ROWS = 1_000_000
_AT_ONCE = 2_000
Chunks = Iterator[tuple[int, bytes]]


def safe_cell(cell: Cell) -> Cell:
    """The cell with a leading ``'`` where a spreadsheet would run it; infinities get the leading blank readers
    expect.

    Texts that are numbers (``-1.5``, ``-inf``) stay as they are.
    """
    if isinstance(cell, str):
        risky = (cell.startswith(_FORMULA) and not _is_number(cell)) or _hidden(cell)
        return "'" + cell if risky else cell
    if isinstance(cell, float) and math.isinf(cell):
        return f" {cell}"
    return cell


def _hidden(text: str) -> bool:
    """True where a separator that some spreadsheets use is followed by a formula."""
    return ";" in text and any(part.lstrip().startswith(("=", "+", "@")) for part in text.split(";")[1:])


def _is_number(text: str) -> bool:
    try:
        float(text[:-1] if text.endswith("%") else text)
    except ValueError:
        return False
    return True


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
        return named(temporary, folder, stem, ".csv")


def _encoded(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def _lines(block: RowBlock) -> Iterator[str]:
    """One text per row, made by column: most cells of a column are the same few texts."""
    cells = block.cells
    known_kinds = {kinds: ",".join(map(_field, kinds)) for kinds in set(cells.kinds)}
    known: dict[int, str] = {}  # rows share lists
    targets = _texts(cells.targets)
    return map(
        ",".join,
        zip(
            targets,
            targets if cells.goldens == cells.targets else _texts(cells.goldens),
            [known_kinds[kinds] for kinds in cells.kinds],
            [middle if isinstance(middle, str) else _joined(middle, known) for middle in cells.middles],
            *map(_texts, block.tails),
            strict=True,
        ),
    )


def _joined(cells: list[Cell], known: dict[int, str]) -> str:
    text = known.get(id(cells))
    if text is None:
        text = known[id(cells)] = ",".join([_field(cell) for cell in cells])
    return text


def _texts(cells: Sequence[Cell]) -> Sequence[str]:
    """The texts of the cells in the file."""
    try:
        text = "\n".join(cells)  # type: ignore[arg-type]
    except TypeError:
        return [_field(cell) for cell in cells]
    if _is_plain(text, cells):  # type: ignore[arg-type]
        if "," not in text and '"' not in text:
            return cells  # type: ignore[return-value]
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
