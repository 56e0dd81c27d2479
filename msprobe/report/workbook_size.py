"""How much memory a workbook takes when it is read, told from its XML before it is read.

A reader makes a table that reaches from the first cell to the last one, puts a shared text in the place of each cell
that refers to it, and reads a table for each sheet that names it. A file of a few megabytes can stand for terabytes in
all three ways.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from functools import partial
from xml.parsers import expat

from msprobe.core.store.zip_bombs import is_swollen, read_member

_CELL_BYTES = 40
"""What one cell takes, also an empty one: in the table of the reader, and in the list that is made of it."""
_STRINGS = "xl/sharedstrings.xml"
_TABLE = b"sheetData"


def swollen_tables(archive: zipfile.ZipFile, sheets: int) -> str:
    """Return how much more the tables of a workbook take than its file can stand for; "" for an honest workbook.

    Args:
        archive: the workbook, of which no member is swollen.
        sheets: how many sheets the reader finds in it. Each may be the largest of the tables.

    Raises:
        ValueError: a sheet is no well-formed XML.
        zipfile.BadZipFile, OSError, zlib.error: the archive is damaged.
    """
    members = archive.infolist()
    packed, size = sum(one.compress_size for one in members), sum(one.file_size for one in members)
    if not is_swollen(size, packed):
        texts = [
            length
            for one in members
            if one.filename.lower() == _STRINGS
            for length in _lengths(read_member(archive, one))
        ]
        tables = (_Table(texts).size(data) for data in map(partial(read_member, archive), members) if _TABLE in data)
        size += sheets * max(tables, default=0)
    return f"its tables take {size >> 20} MB" if is_swollen(size, packed) else ""


def _lengths(strings: bytes) -> list[int]:
    """Return the length of each shared text."""
    lengths: list[int] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda name, _: lengths.append(0) if _local(name) == "si" else None
    parser.CharacterDataHandler = partial(_add, lengths)
    _parse(parser, strings)
    return lengths


def _add(lengths: list[int], text: str) -> None:
    if lengths:
        lengths[-1] += len(text)


class _Table:
    """Follows the cells of one sheet, with the numbers that the reader gives to those without an address."""

    def __init__(self, texts: Sequence[int]) -> None:
        self._texts = texts
        self._row = self._column = self._rows = self._columns = self._shared = 0
        self._index = ""
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start

    def size(self, sheet: bytes) -> int:
        """Return how many bytes the table takes."""
        _parse(self._parser, sheet)
        self._end_text()
        return _CELL_BYTES * self._rows * self._columns + self._shared

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        kind = _local(name)
        if kind == "row":
            self._row, self._column = _number(attributes.get("r", ""), self._row + 1), 0
        elif kind == "c":
            self._end_text()
            address = attributes.get("r", "")
            letters = address.rstrip("0123456789")
            self._column = _column(letters) if letters else self._column + 1
            self._rows = max(self._rows, self._row, _number(address[len(letters) :], 0))
            self._columns = max(self._columns, self._column)
            if attributes.get("t") == "s":
                self._parser.CharacterDataHandler = self._read_index

    def _read_index(self, text: str) -> None:
        self._index += text

    def _end_text(self) -> None:
        """Count the shared text of the cell that has ended."""
        if self._parser.CharacterDataHandler is not None:
            number = _number(self._index.strip(), 0)
            self._shared += self._texts[number] if number < len(self._texts) else 0
            self._index, self._parser.CharacterDataHandler = "", None


def _parse(parser: expat.XMLParserType, data: bytes) -> None:
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ValueError(f"XML that is not well-formed: {error}") from error


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _number(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else otherwise


def _column(letters: str) -> int:
    """Return the number of a column: 1 for A, 27 for AA; no sheet has a column of more than three letters."""
    number = 0
    for letter in letters[:8].upper():
        number = number * 26 + max(ord(letter) - 64, 0)
    return number
