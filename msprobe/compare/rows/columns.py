"""The columns of the result table: their titles by mode, and their content for some consecutive rows.

A column holds numbers or texts. Numbers stay numbers until a writer formats them; where a cell of a number column shows
something else ("N/A", "Nan", infinity, an integer that float64 cannot hold), it has a code for that word.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.inputs.mode import Mode
from msprobe.core.tensors.statistics import STATISTICS
from msprobe.numerics.metrics.statistics import Cell
from msprobe.numerics.metrics.tensor_cells import TENSOR_METRICS
from msprobe.numerics.verdict import Floats, Ints

_HEAD = (
    "NPU Name",
    "Bench Name",
    "NPU Dtype",
    "Bench Dtype",
    "NPU Tensor Shape",
    "Bench Tensor Shape",
    "NPU Requires_grad",
    "Bench Requires_grad",
)
_STATISTIC_TITLES = tuple(f"{side} {spec.title}" for side in ("NPU", "Bench") for spec in STATISTICS)
METRICS = {
    Mode.TENSOR: TENSOR_METRICS,
    Mode.STATISTICS: (
        *(f"{spec.title.capitalize()} diff" for spec in STATISTICS),
        *(f"{spec.name}RelativeErr" for spec in STATISTICS),
    ),
    Mode.CHECKSUM: ("NPU MD5", "BENCH MD5"),
}
_TAIL = ("Requires_grad Consistent", "Result", "Err_message")


def columns(mode: Mode, with_stack: bool) -> tuple[str, ...]:
    """Return the column titles in table order; ``with_stack`` when the target has call stacks."""
    stack = ("NPU_Stack_Info",) if with_stack else ()
    files = ("Data_name",) if mode is Mode.TENSOR else ()
    statistics = () if mode is Mode.CHECKSUM else _STATISTIC_TITLES
    return (*_HEAD, *METRICS[mode], *statistics, *_TAIL, *stack, *files)


# Codes of the cells of a number column. A greater code means the word ``words[code - FIRST_WORD]``.
FLOAT, INTEGER, FIRST_WORD = 0, 1, 2
_LARGEST_EXACT = 2**53


@dataclass(frozen=True, slots=True)
class TextColumn:
    """Texts of consecutive rows: row ``i`` shows ``words[index[i]]``. Columns may share ``index`` or ``words``."""

    index: Ints
    words: Sequence[str]

    def __len__(self) -> int:
        return len(self.index)

    def cells(self) -> list[Cell]:
        """Return the text of every row."""
        return list(map(self.words.__getitem__, self.index.tolist()))


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """Numbers of consecutive rows, with words where there is no number.

    Attributes:
        values: one float per row; 0 where the cell is a word.
        codes: one per row: ``FLOAT``, ``INTEGER`` (shown without a decimal point), or the number of a word.
        words: what cells show instead of numbers: texts, infinities, integers that float64 cannot hold.
        percent: whether the values are percentages: 12.5 is shown as ``12.5%``. Integers are shown without the sign.
    """

    values: Floats
    codes: Ints
    words: Sequence[Cell]
    percent: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def cells(self) -> list[Cell]:
        """Return the cell of every row: a number, a percentage as text, or a word."""
        cells: list[Any] = self.values.tolist()
        if self.percent:
            cells = [f"{value}%" for value in cells]
        for row in self.codes.nonzero()[0].tolist():
            code = int(self.codes[row])
            cells[row] = int(self.values[row]) if code == INTEGER else self.words[code - FIRST_WORD]
        return cells


Column = TextColumn | NumberColumn


class NumberWords:
    """The words of the number columns of one table, each with its code."""

    def __init__(self) -> None:
        self.words: list[Cell] = []
        self._codes: dict[Any, int] = {}

    def code(self, word: Cell) -> int:
        """Return the code of a word, which is new or known."""
        key = type(word), word
        code = self._codes.get(key)
        if code is None:
            code = self._codes[key] = FIRST_WORD + len(self.words)
            self.words.append(word)
        return code

    def encoded(self, cell: Cell) -> tuple[float, int]:
        """Return the value and the code of any cell."""
        if type(cell) is float and math.isfinite(cell):
            return cell, FLOAT
        if type(cell) is int and abs(cell) <= _LARGEST_EXACT:
            return float(cell), INTEGER
        return 0.0, self.code(cell)

    def column(self, cells: Iterable[Cell]) -> NumberColumn:
        """Return the cells, one per row, as a column."""
        pairs = list(map(self.encoded, cells))
        values, codes = zip(*pairs, strict=True) if pairs else ((), ())
        return NumberColumn(np.array(values, np.float64), np.array(codes, np.int64), self.words)


def text_column(cells: Sequence[str]) -> TextColumn:
    """Return texts, most of which repeat, as a column."""
    known: dict[str, int] = {}
    index = [known.setdefault(cell, len(known)) for cell in cells]
    return TextColumn(np.array(index, np.int64), list(known))


def distinct_column(cells: Sequence[str]) -> TextColumn:
    """Return texts that seldom repeat as a column."""
    return TextColumn(np.arange(len(cells)), cells)


def matrix_columns(values: Floats, codes: NDArray[Any], words: Sequence[Cell], percent: range) -> list[NumberColumn]:
    """Return the columns of a table of numbers.

    Args:
        values, codes: shape (rows, columns); see ``NumberColumn``.
        percent: the numbers of the columns whose values are percentages.
    """
    return [
        NumberColumn(values[:, number], codes[:, number], words, number in percent) for number in range(values.shape[1])
    ]
