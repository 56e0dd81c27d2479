"""The policy ``reference``: the published thresholds, row by row and per entry, with the published messages.

Rows that have no partner are warnings with a reason here, where the published rules said pass. Outputs are told from
inputs by their slot, not by their name. See docs/compatibility.md for the list of departures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from msprobe.core.tensors.dtypes import same_dtype
from msprobe.numerics.metrics.checksum import is_digest
from msprobe.numerics.metrics.statistics import Cell

_UNCHECKED = frozenset({
    "empty",
    "empty_like",
    "numpy",
    "to",
    "__setitem__",
    "empty_with_format",
    "new_empty_strided",
    "new_empty",
    "empty_strided",
})
_INPUTS_UNCHECKED = frozenset({"_reduce_scatter_base", "_all_gather_base", "all_to_all_single", "batch_isend_irecv"})
_DTYPES, _SHAPES, _GRADS = (2, 3), (4, 5), (6, 7)
_NORM_ERROR, _COSINE, _ONE_THOUSANDTH = 15, 8, 12
_FIRST_STATISTIC = {"statistics": 16, "tensor": 14}
_NON_FINITE = ("Nan", math.inf, -math.inf)

NON_FINITE = "error: There is nan/inf/-inf in the maximum or minimum value of NPU."
NORM_ERROR = "error: The NormRelativeErr of output is greater than 0.5."
ONE_THOUSANDTH = "error: The input/parameters of One Thousandth Err Ratio > 0.9 while the output < 0.6."
GRAD = "error: The Required_Grad of NPU and Bench are inconsistent"
SCALAR = "error: The scalar parameters of NPU and Bench are inconsistent."
DTYPE = "error: The dtype of NPU and Bench are inconsistent."
SHAPE = "error: The shape of NPU and Bench are inconsistent."
NORM_TENFOLD = "warning: The norm relative error of output is 10 times that of input."
COSINE = "warning: The input/parameters of Cosine > 0.9, and input/parameters - output > 0.1"
CHECKSUM = "error: The CRC-32 value of NPU differs from that of the bench."
UNMATCHED_CHECKSUM = "warning: The parameter of NPU does not match the bench."
UNMATCHED = "warning: No bench data matched."
UNMATCHED_GOLDEN = "warning: No NPU data matched."


@dataclass(frozen=True, slots=True)
class ReferenceRow:
    """A row of the table as far as it is filled: the common head, the metrics, the eight statistics."""

    output: bool
    matched: bool
    cells: Sequence[Cell]


Verdict = tuple[str, list[str]]


def judge_entry(mode: str, entry: str, rows: Sequence[ReferenceRow]) -> list[Verdict]:
    """Level and messages of every row of one entry. ``mode`` is tensor, statistics or md5."""
    parts = entry.split(".", 2)
    api = parts[1] if len(parts) > 1 else ""
    if mode == "md5":
        return [_verdict(_checksum_messages(row)) for row in rows]
    found: list[list[str]] = [[] for _ in rows]
    if api not in _UNCHECKED:
        relaxed = api in _INPUTS_UNCHECKED
        _fill(mode, rows, found, relaxed)
    for row, messages in zip(rows, found, strict=True):
        if not row.matched:
            messages.append(UNMATCHED if row.cells[0] != "N/A" else UNMATCHED_GOLDEN)
    return [_verdict(messages) for messages in found]


def _fill(mode: str, rows: Sequence[ReferenceRow], found: list[list[str]], relaxed: bool) -> None:
    inputs = [row for row in rows if not row.output]
    first_output = next((i for i, row in enumerate(rows) if row.output), None)
    worst_input = _largest_percent(inputs) if mode == "statistics" else 0.0
    for row, messages in zip(rows, found, strict=True):
        if relaxed and not row.output:
            continue
        start = _FIRST_STATISTIC[mode]
        if _odd(row.cells[start : start + 2]) and not _odd(row.cells[start + 4 : start + 6]):
            messages.append(NON_FINITE)
        judged = mode == "statistics" and row.output and not relaxed
        if judged and worst_input < 0.1 and _percent(row.cells[_NORM_ERROR], infinite=True) > 0.5:
            messages.append(NORM_ERROR)
        _own_rules(row, messages, start)
    if not relaxed and first_output is not None:
        outputs = [row for row in rows if row.output]
        joint = _joint_statistics if mode == "statistics" else _joint_tensor
        for message in joint(inputs, outputs):
            messages = found[first_output]
            position = next((k for k, m in enumerate(messages) if m in _AFTER[message]), len(messages))
            messages.insert(position, message)


_AFTER = {ONE_THOUSANDTH: (GRAD, SCALAR, DTYPE, SHAPE), NORM_TENFOLD: (), COSINE: ()}


def _own_rules(row: ReferenceRow, messages: list[str], start: int) -> None:
    cells = row.cells
    if not row.matched:
        return
    if "N/A" not in (cells[6], cells[7]) and cells[6] != cells[7]:
        messages.append(GRAD)
    scalar = "class" in str(cells[2]) and "class" in str(cells[3]) and cells[4] == "[]"
    if scalar and not row.output and cells[start] != cells[start + 4]:
        messages.append(SCALAR)
    if not same_dtype(str(cells[2]), str(cells[3])) and not any(word in str(cells[1]) for word in ("qkv", "gate_up")):
        messages.append(DTYPE)
    if cells[4] != cells[5]:
        messages.append(SHAPE)


def _joint_statistics(inputs: Sequence[ReferenceRow], outputs: Sequence[ReferenceRow]) -> list[str]:
    before, after = _largest_percent(inputs), _largest_percent(outputs)
    tenfold = after > 0.1 if before == 0.0 else after / before > 10
    return [NORM_TENFOLD] if tenfold else []


def _joint_tensor(inputs: Sequence[ReferenceRow], outputs: Sequence[ReferenceRow]) -> list[str]:
    messages = []
    if _smallest(inputs, _ONE_THOUSANDTH) > 0.9 and _smallest(outputs, _ONE_THOUSANDTH) < 0.1:
        messages.append(ONE_THOUSANDTH)
    before = _smallest(inputs, _COSINE)
    if before > 0.9 and before - _smallest(outputs, _COSINE) > 0.1:
        messages.append(COSINE)
    return messages


def _checksum_messages(row: ReferenceRow) -> list[str]:
    ours, theirs = str(row.cells[8]), str(row.cells[9])
    if not is_digest(ours) or not is_digest(theirs):
        both_empty = row.matched and not is_digest(ours) and not is_digest(theirs)
        return [] if both_empty and row.cells[2] == "N/A" else [UNMATCHED_CHECKSUM]
    return [] if ours == theirs else [CHECKSUM]


def _odd(cells: Sequence[Cell]) -> bool:
    return any(cell in _NON_FINITE for cell in cells)


def _percent(cell: Cell, *, infinite: bool = False) -> float:
    """The fraction behind a percent text; -1 for everything else, infinity for ``inf`` when asked for."""
    text = str(cell)
    if text.endswith("%"):
        return float(text[:-1]) / 100
    return math.inf if infinite and text in ("inf", "-inf") else -1.0


def _largest_percent(rows: Sequence[ReferenceRow]) -> float:
    return max((max(_percent(row.cells[_NORM_ERROR]), 0.0) for row in rows), default=0.0)


def _smallest(rows: Sequence[ReferenceRow], column: int) -> float:
    numbers = [row.cells[column] for row in rows]
    return min((float(cell) for cell in numbers if not isinstance(cell, str)), default=1.0)


def _verdict(messages: list[str]) -> Verdict:
    level = "pass"
    for message in messages:
        if message.startswith("error"):
            return "error", messages
        level = "warning"
    return level, messages
