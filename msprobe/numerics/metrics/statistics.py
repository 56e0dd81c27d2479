"""Differences of two recorded statistics, as numbers and symbols for a table cell.

A statistic is shown as a number, ``Nan``, ``None`` or other text. Equal texts differ by 0. For two other numbers the
difference is signed, target minus golden, and the relative difference is ``abs(difference / golden) * 100`` percent,
unrounded. Everything else gives a symbol that names the class of the disagreement (see ``_symbol``).

For checksums there are the cells of the digest columns, and the rule when two digests agree.
"""

from __future__ import annotations

import math
import sys
import zlib

Cell = float | int | str
_DEVICES = ("npu", "cpu", "cuda")
_NUMBER_TEXTS: dict[str, Cell] = {
    "nan": "Nan",
    "inf": math.inf,
    "-inf": -math.inf,
    "infinity": math.inf,
    "-infinity": -math.inf,
}
_LARGEST = int(sys.float_info.max)


def shown(value: object) -> Cell:
    """Return the statistic as it stands in a cell: infinities stay numbers, NaN becomes ``Nan``, null ``None``."""
    if isinstance(value, float):
        return value if value == value else "Nan"
    if value is None:
        return "None"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        number: Cell = _NUMBER_TEXTS.get(value.lower(), value)
        return number
    if isinstance(value, int):
        return value if abs(value) <= _LARGEST else hex(value)  # of damaged documents; no float can be as large
    return str(value)


def difference_cells(target: Cell, golden: Cell) -> tuple[Cell, Cell]:
    """Return the difference of two shown statistics, in data units, and the relative difference in percent.

    Both are the integer 0 where the two read the same, floats for other finite numbers, and words for everything else.
    """
    if str(target) == str(golden):
        return 0, 0
    if (
        not isinstance(target, str)
        and not isinstance(golden, str)
        and target - target == 0.0
        and golden - golden == 0.0
    ):
        difference = float(target - golden)  # of integers exactly
        percent = abs(difference / golden * 100) if golden else math.inf
        return difference, percent if percent < math.inf else "inf"
    symbol = _symbol(_kind(target), _kind(golden))
    return symbol, symbol


def _kind(cell: Cell) -> str:
    if isinstance(cell, str):
        if cell in ("Nan", "N/A"):
            return cell
        return "device" if any(device in cell for device in _DEVICES) else "other"
    if math.isinf(cell):
        return "inf" if cell > 0 else "-inf"
    return "number"


def _symbol(target: str, golden: str) -> str:
    if "N/A" in (target, golden) or target == golden == "device":
        return "N/A"
    if {"device", "other"} & {target, golden}:
        return "Diff"
    if "Nan" in (target, golden):
        return "Nan"
    if target == "number":
        return "-inf" if golden == "inf" else "inf"
    return target


ABSENT = ("N/A", "Nan", "None", "")


def text_checksum(text: str) -> str:
    """CRC-32 of ``text`` in UTF-8 as 8 hex digits: the digest of an argument that is no tensor."""
    return f"{zlib.crc32(text.encode('utf-8', 'backslashreplace')):08x}"


def is_digest(cell: str) -> bool:
    """False for the texts that say a digest is missing."""
    return cell not in ABSENT
