"""Rows of a table as the XML of a worksheet (ECMA-376 part 1, 18.3.1.73 ``row`` and 18.3.1.4 ``c``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msprobe.compare.rows import RowBlock
from msprobe.numerics.metrics.statistics import Cell
from msprobe.report.typed import typed

_LONGEST = 32_767
_FIRST_ROW = 2
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_ESCAPE = re.compile("_(x[0-9A-Fa-f]{4}_)")
_NOT_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")
_MOST_KNOWN = 100_000
_NO_NUMBERS = frozenset({"inf", "-inf", "nan", "NaN", "Infinity", "-Infinity"})


class SheetRows:
    """Makes the rows of one sheet after the other; ``percent`` is the number of the style of percentages."""

    def __init__(self, percent: str) -> None:
        self._begins: list[str] = []
        self._percent = percent
        self._known: dict[Any, str] = {}
        self._row = _FIRST_ROW

    def start(self, row: int) -> None:
        """Say which row of its sheet is next; 0 stands below the titles."""
        self._row = _FIRST_ROW + row

    def row(self, cells: Sequence[str]) -> str:
        """A row of cells that ``cells`` made."""
        number = self._row
        self._row += 1
        if not self._begins:
            self._begins = [f'<c r="{_letters(column)}' for column in range(len(cells))]
        placed = [f'{begin}{number}"{cell}' for begin, cell in zip(self._begins, cells, strict=True)]
        return f'<row r="{number}">{"".join(placed)}</row>'

    def cells(self, block: RowBlock) -> Iterator[list[str]]:
        """The cells of each row of a block, without their places."""
        parts = zip(*block.cells, zip(*block.tails, strict=True), strict=True)
        for target, golden, kinds, middle, tail in parts:
            middles = self.numbers(middle) if isinstance(middle, str) else [self.cell(one) for one in middle]
            heads = [self.cell(one) for one in (target, golden, *kinds)]
            yield [*heads, *middles, *(self.cell(one) for one in tail)]

    def numbers(self, text: str) -> list[str]:
        """The cells of a text of numbers, joined by commas."""
        found = []
        for cell in text.split(","):
            if cell[-1] == "%":
                found.append(f' s="{self._percent}"><v>{float(cell[:-1]) / 100.0!r}</v></c>')
            else:
                found.append(_text(cell) if cell in _NO_NUMBERS else f"><v>{cell}</v></c>")
        return found

    def cell(self, cell: Cell) -> str:
        """What follows the place of a cell; texts repeat, so they are made once."""
        if not isinstance(cell, str):
            return self._typed(cell)
        found = self._known.get(cell)
        if found is None:
            found = self._typed(cell)
            if len(self._known) < _MOST_KNOWN:
                self._known[cell] = found
        return found

    def _typed(self, cell: Cell) -> str:
        value, percent = typed(cell)
        if isinstance(value, str):
            return _text(value)
        return f' s="{self._percent}"><v>{value!r}</v></c>' if percent else f"><v>{value!r}</v></c>"


def _text(text: str) -> str:
    """A text cell, cut to what the format holds; the format's own escapes stand for control characters."""
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 3] + "..."
    text = _CONTROL.sub(lambda found: f"_x{ord(found[0]):04X}_", _ESCAPE.sub(r"_x005F_\1", text))
    text = _NOT_XML.sub("\ufffd", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    space = ' xml:space="preserve"' if text != text.strip() else ""
    return f' t="inlineStr"><is><t{space}>{text}</t></is></c>'


def _letters(column: int) -> str:
    """A, B, ... Z, AA, ..."""
    name = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        name = chr(65 + rest) + name
    return name
