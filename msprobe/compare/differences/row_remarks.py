"""What the records of a pair of tensors say beside their differences: missing values, NaN on both sides, flags.

A remark changes no level by itself. ``coverage`` makes sentences of them, and the verdict ``incomplete`` where a record
says that it holds data which cannot be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import damage_of, has_no_values, is_tensor
from msprobe.core.tensors.statistics import LARGEST
from msprobe.numerics.verdict import Floats, Ints

_TRAINING, _AUTOGRAD = "training", "autograd"


class Remark(IntFlag):
    """What is to be said of a row; several may hold."""

    LACKS_IN_TARGET = 1
    """A statistic or the checksum that only the golden run has."""
    LACKS_IN_GOLDEN = 2
    """A statistic or the checksum that only the target has."""
    NO_NUMBERS = 4
    """Neither side has any statistic or checksum, although the tensor has elements."""
    NAN = 8
    """Statistics are NaN on both sides."""
    REQUIRES_GRAD = 16
    """The recorded flags differ."""
    MODULE_MODE = 128
    """Of the first row of a call: it ran in training mode, or with gradients, on one side only."""
    ORDER_UNSEEN = 32
    """One side alone has the statistic that depends on the order of the elements."""
    WITHOUT_VALUES = 256
    """A side says that its tensor has no values, and why."""
    OTHER_FILE = 64
    """Both tensor files are equal, and the statistics in the records are not: one file is not what was recorded."""
    DAMAGED = 512
    """A field of a record is not what it should be, such as a statistic that is no number."""


UNJUDGED = int(Remark.LACKS_IN_TARGET | Remark.LACKS_IN_GOLDEN | Remark.NO_NUMBERS | Remark.DAMAGED)
"""What a row is not compared for, as far as nothing else is known of it."""


def of_plain_rows(table: LeafTable, remarks: Ints) -> None:
    """Add what the plain rows of a table (see ``FloatPairs``) say to ``remarks``, one number per row."""
    pairs = table.float_pairs
    if not len(pairs.rows):
        return
    with_nan = np.isnan(pairs.values).any(axis=2).all(axis=1)
    remarks[pairs.rows[with_nan]] |= int(Remark.NAN)
    flags = np.array([_flags_differ(target, golden) for target, golden in pairs.kind_samples], np.bool_)
    if flags.any():
        remarks[pairs.rows[flags[pairs.kinds]]] |= int(Remark.REQUIRES_GRAD)
    without = np.array([any(map(has_no_values, both)) for both in pairs.kind_samples], np.bool_)
    if without.any():
        remarks[pairs.rows[without[pairs.kinds]]] |= int(Remark.WITHOUT_VALUES)


def of_calls(table: LeafTable, target: Mapping[str, Any], golden: Mapping[str, Any], remarks: Ints) -> None:
    """Add what the records of paired calls say about their modes; ``target`` and ``golden`` are the records by name."""
    if not any(type(body) is dict and (_TRAINING in body or _AUTOGRAD in body) for body in target.values()):
        return  # as in most dumps
    starts = table.starts.tolist()
    for number, (name, partner, _) in enumerate(table.entries):
        if name is None or partner is None or starts[number] == starts[number + 1]:
            continue
        left = target.get(name)
        if type(left) is not dict or not (_TRAINING in left or _AUTOGRAD in left):
            continue
        right = golden.get(partner)
        if type(right) is dict and mode_that_differs(left, right):
            remarks[starts[number]] |= int(Remark.MODULE_MODE)


def mode_that_differs(left: Mapping[str, Any], right: Mapping[str, Any]) -> str:
    """Return the first mode that the records of two calls tell differently; "" where there is none."""
    for mode in (_TRAINING, _AUTOGRAD):
        own = left.get(mode)
        if own is not None and own != right.get(mode, own):
            return mode
    return ""


def of_statistics(
    values: tuple[Floats, Floats], absent: tuple[NDArray[np.bool_], NDArray[np.bool_]], numel: Floats
) -> Ints:
    """Return the remarks of rows by their statistics.

    Args:
        values: of target and golden, each of shape (rows, statistics); NaN where absent or not a number.
        absent: which of them are absent.
        numel: the number of elements of the golden tensor, one per row.
    """
    (left, right), (left_absent, right_absent) = values, absent
    has_elements = numel > 0
    lacks = (left_absent & ~right_absent).any(axis=1)
    extra = (right_absent & ~left_absent).any(axis=1)
    nothing = left_absent.all(axis=1) & right_absent.all(axis=1) & has_elements
    nan = (np.isnan(left) & ~left_absent).any(axis=1) & (np.isnan(right) & ~right_absent).any(axis=1)
    parts = (
        (lacks, Remark.LACKS_IN_TARGET),
        (extra, Remark.LACKS_IN_GOLDEN),
        (nothing, Remark.NO_NUMBERS),
        (nan, Remark.NAN),
    )
    result = np.zeros(len(numel), np.int64)
    for rows, remark in parts:
        result[rows] |= int(remark)
    return result


def of_records(target: Any, golden: Any) -> int:
    """Return the remarks of two described tensors that do not follow from statistics."""
    result = int(Remark.REQUIRES_GRAD) if _flags_differ(target, golden) else 0
    if _is_nan(target.get(LARGEST.name)) and _is_nan(golden.get(LARGEST.name)):
        result |= int(Remark.NAN)
    if has_no_values(target) or has_no_values(golden):
        result |= int(Remark.WITHOUT_VALUES)
    if damage_of(target) or damage_of(golden):
        result |= int(Remark.DAMAGED)
    return result


def _is_nan(value: Any) -> bool:
    return type(value) is float and value != value


def of_checksums(target: Any, golden: Any, elements: float) -> int:
    """Return the remark of two tensors of which a side lacks the checksum; 0 where both have one."""
    left, right = target.get("md5"), golden.get("md5")
    if not elements or (left is not None and right is not None):
        return 0
    if left is None and right is None:
        return int(Remark.NO_NUMBERS)
    return int(Remark.LACKS_IN_TARGET if left is None else Remark.LACKS_IN_GOLDEN)


def _flags_differ(target: Any, golden: Any) -> bool:
    """Return whether both sides recorded the flag, and it differs."""
    if not (is_tensor(target) and is_tensor(golden)):
        return False
    left, right = target.get("requires_grad"), golden.get("requires_grad")
    return left is not None and right is not None and left != right
