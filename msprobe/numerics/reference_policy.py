"""The policy ``reference``: the published thresholds, row by row and per entry, with the published messages.

A row without a partner is a warning with a reason here; the published rules say pass. Whether a value is an output
follows from its slot, not from its name. docs/compatibility.md lists the departures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from msprobe.core.tensors.dtypes import same_dtype
from msprobe.core.tensors.statistics import LARGEST, SMALLEST, STATISTICS
from msprobe.numerics.metrics.statistics import Cell, is_digest
from msprobe.numerics.verdict import Bools, Floats, Ints

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
_NON_FINITE = ("Nan", math.inf, -math.inf)
_FIRST_WORD = 2

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


class Numbers(Protocol):
    """A column of numbers, one per row (see ``compare.columns.NumberColumn``): codes from 2 on stand for words."""

    @property
    def values(self) -> Floats: ...
    @property
    def codes(self) -> Ints: ...
    @property
    def words(self) -> Sequence[Cell]: ...


@dataclass(frozen=True, slots=True)
class ReferenceRows:
    """What the published rules look at, one item per row.

    Attributes:
        output: whether the value is an output.
        matched: whether both sides have it.
        targets, goldens: the names in the table.
        kinds: dtype, shape and requires_grad as texts, each of target and golden in turn.
        non_finite: whether the target alone has NaN or infinity as its largest or smallest element.
        other_scalar: whether the largest elements, or the values of arguments, differ.
        norm_error: NormRelativeErr as a fraction, infinite included; -1 where there is none.
        cosine, one_thousandth: the metrics of whole tensors; NaN where there is none.
        digests: checksums of target and golden.
    """

    output: Sequence[bool]
    matched: Sequence[bool]
    targets: Sequence[str]
    goldens: Sequence[str]
    kinds: Sequence[Sequence[str]]
    non_finite: Sequence[bool] = ()
    other_scalar: Sequence[bool] = ()
    norm_error: Sequence[float] = ()
    cosine: Sequence[float] = ()
    one_thousandth: Sequence[float] = ()
    digests: Sequence[tuple[str, str]] = ()


Verdict = tuple[str, list[str]]


def number_rows(rows: ReferenceRows, metrics: Mapping[str, Numbers], statistics: Sequence[Numbers]) -> ReferenceRows:
    """Add the columns of metrics, by title, and of the statistics of target and golden, in table order."""
    count = len(statistics) // 2
    extremes = [statistics[STATISTICS.index(spec) + side * count] for side in (0, 1) for spec in (LARGEST, SMALLEST)]
    target, golden = (_non_finite(extremes[first]) | _non_finite(extremes[first + 1]) for first in (0, 2))
    added: dict[str, Any] = {
        "non_finite": (target & ~golden).tolist(),
        "other_scalar": _differing(extremes[0], extremes[2]).tolist(),
    }
    if "NormRelativeErr" in metrics:
        added["norm_error"] = _fractions(metrics["NormRelativeErr"]).tolist()
    else:
        for field, title in (("cosine", "Cosine"), ("one_thousandth", "One Thousandth Err Ratio")):
            column = metrics[title]
            added[field] = np.where(_words(column), np.nan, column.values).tolist()
    return replace(rows, **added)


def checksum_rows(rows: ReferenceRows, targets: Sequence[str], goldens: Sequence[str]) -> ReferenceRows:
    """Add the checksums of target and golden."""
    return replace(rows, digests=list(zip(targets, goldens, strict=True)))


def judge_entry(mode: str, entry: str, rows: ReferenceRows, own: range) -> list[Verdict]:
    """Return level and messages of every row of one entry.

    Args:
        mode: tensor, statistics or md5.
        entry: the name of the entry.
        own: the numbers in ``rows`` of those of the entry.
    """
    parts = entry.split(".", 2)
    api = parts[1] if len(parts) > 1 else ""
    if mode == "md5":
        return [_verdict(_checksum_messages(rows, row)) for row in own]
    messages: dict[int, list[str]] = {row: [] for row in own}
    if api not in _UNCHECKED:
        _judge_numbers(mode, rows, messages, relaxed=api in _INPUTS_UNCHECKED)
    for row in own:
        if not rows.matched[row]:
            messages[row].append(UNMATCHED if rows.targets[row] != "N/A" else UNMATCHED_GOLDEN)
    return [_verdict(messages[row]) for row in own]


def _judge_numbers(mode: str, rows: ReferenceRows, messages: dict[int, list[str]], *, relaxed: bool) -> None:
    """Append the messages of one entry; ``relaxed`` leaves its inputs alone."""
    inputs = [row for row in messages if not rows.output[row]]
    outputs = [row for row in messages if rows.output[row]]
    worst_input = _largest_error(rows, inputs) if mode == "statistics" else 0.0
    for row, own in messages.items():
        if relaxed and not rows.output[row]:
            continue
        if rows.non_finite[row]:
            own.append(NON_FINITE)
        judged = mode == "statistics" and rows.output[row] and not relaxed
        if judged and worst_input < 0.1 and rows.norm_error[row] > 0.5:
            own.append(NORM_ERROR)
        if rows.matched[row]:
            own += _own_messages(rows, row)
    if not relaxed and outputs:
        joint = _joint_statistics if mode == "statistics" else _joint_tensor
        own = messages[outputs[0]]
        for message in joint(rows, inputs, outputs):
            position = next((k for k, m in enumerate(own) if m in _AFTER[message]), len(own))
            own.insert(position, message)


_AFTER = {ONE_THOUSANDTH: (GRAD, SCALAR, DTYPE, SHAPE), NORM_TENFOLD: (), COSINE: ()}


def _own_messages(rows: ReferenceRows, row: int) -> list[str]:
    """Return what the descriptions of both sides of a row say."""
    dtype, other_dtype, shape, other_shape, grad, other_grad = rows.kinds[row]
    messages = []
    if "N/A" not in (grad, other_grad) and grad != other_grad:
        messages.append(GRAD)
    scalar = "class" in dtype and "class" in other_dtype and shape == "[]"
    if scalar and not rows.output[row] and rows.other_scalar[row]:
        messages.append(SCALAR)
    if not same_dtype(dtype, other_dtype) and not any(word in rows.goldens[row] for word in ("qkv", "gate_up")):
        messages.append(DTYPE)
    if shape != other_shape:
        messages.append(SHAPE)
    return messages


def _joint_statistics(rows: ReferenceRows, inputs: Sequence[int], outputs: Sequence[int]) -> list[str]:
    before, after = _largest_error(rows, inputs), _largest_error(rows, outputs)
    tenfold = after > 0.1 if before == 0.0 else after / before > 10
    return [NORM_TENFOLD] if tenfold else []


def _joint_tensor(rows: ReferenceRows, inputs: Sequence[int], outputs: Sequence[int]) -> list[str]:
    messages = []
    share = rows.one_thousandth
    if _smallest(share, inputs) > 0.9 and _smallest(share, outputs) < 0.1:
        messages.append(ONE_THOUSANDTH)
    before = _smallest(rows.cosine, inputs)
    if before > 0.9 and before - _smallest(rows.cosine, outputs) > 0.1:
        messages.append(COSINE)
    return messages


def _checksum_messages(rows: ReferenceRows, row: int) -> list[str]:
    target, golden = rows.digests[row]
    if not is_digest(target) or not is_digest(golden):
        both_empty = rows.matched[row] and not is_digest(target) and not is_digest(golden)
        return [] if both_empty and rows.kinds[row][0] == "N/A" else [UNMATCHED_CHECKSUM]
    return [] if target == golden else [CHECKSUM]


def _words(column: Numbers) -> Bools:
    """Return which rows of a column hold a word in place of a number."""
    return np.asarray(column.codes >= _FIRST_WORD)


def _non_finite(column: Numbers) -> Bools:
    """Return which rows of a column hold NaN or an infinity."""
    odd = np.array([False] * _FIRST_WORD + [word in _NON_FINITE for word in column.words])
    return np.asarray(odd[column.codes])


def _differing(target: Numbers, golden: Numbers) -> Bools:
    """Return which rows differ; both columns have the same words."""
    words, others = _words(target), _words(golden)
    same = (words == others) & (target.values == golden.values) & (~words | (target.codes == golden.codes))
    return np.asarray(~same)


def _fractions(percentages: Numbers) -> Floats:
    """Return relative differences as fractions; -1 where both sides are equal or one has no number."""
    infinite = np.array([False] * _FIRST_WORD + [word in ("inf", "-inf") for word in percentages.words])
    fractions = np.where(percentages.codes == 0, percentages.values / 100, -1.0)
    return np.where(infinite[percentages.codes], np.inf, fractions)


def _largest_error(rows: ReferenceRows, own: Sequence[int]) -> float:
    """Return the largest finite NormRelativeErr of these rows, at least 0."""
    return max((max(error, 0.0) for row in own if (error := rows.norm_error[row]) < math.inf), default=0.0)


def _smallest(values: Sequence[float], own: Sequence[int]) -> float:
    """Return the smallest number of these rows; 1 where none has one."""
    return min((value for row in own if (value := values[row]) == value), default=1.0)


def _verdict(messages: list[str]) -> Verdict:
    level = "pass"
    for message in messages:
        if message.startswith("error"):
            return "error", messages
        level = "warning"
    return level, messages
