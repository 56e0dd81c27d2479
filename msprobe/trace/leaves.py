"""How a leaf of a record reads: the name and the cells of its row, its shape, and its numbers for arithmetic.

``core.store.record_walk`` finds the leaves. A damaged dump may hold anything in the place of a number or a shape; all
functions accept it.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard, TypeVar

from msprobe.core.store.record_walk import MOST_ELEMENTS, PARAMETER_GRAD, Leaf
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.metrics.statistics import Cell, shown

NO_WHOLE = "no_whole"
"""Key of a merged tensor without values: the ranks hold parts of it that make no whole, and the merge says so."""
PIECES = "pieces"
"""Key of a merged tensor whose pieces show by themselves that something is wrong; the values are the next two."""
COPIES_DIFFER, NOT_ADDED = "copies differ", "not added"
"""The ranks hold copies which have come apart; they go on with partial sums that were not added."""
UNORDERED = "unordered"
"""Key of a tensor that was put together from several: the order of its elements does not follow from theirs."""
RANK_KEYS = (".src", ".dst", ".group_src", ".group_dst")
NO_STATISTICS: tuple[Cell, ...] = ("None",) * len(STATISTIC_NAMES)


class Described(NamedTuple):
    """How a leaf reads in a table."""

    dtype: str
    shape: str
    requires_grad: str
    statistics: tuple[Cell, ...]


def row_name(entry: str, leaf: Leaf) -> str:
    """Return the name of the row: the tensor file without its extension where there is one, else the name of the entry
    and the suffix of the leaf."""
    raw = leaf.raw
    if type(raw) is dict:
        data_name = raw.get("data_name")
        if data_name and type(data_name) is str and data_name != "-1":
            return os.path.splitext(data_name)[0]
    return entry + leaf.suffix


def slot_of(leaf: Leaf) -> str:
    """Return where a leaf stands in its record, such as ``input.0`` or ``parameters_grad.weight``."""
    return f"{leaf.slot}{leaf.suffix}" if leaf.slot == PARAMETER_GRAD else leaf.suffix.lstrip(".")


def data_name(raw: Any) -> str | None:
    """Return the tensor file of a leaf, or None when it has none."""
    name = raw.get("data_name") if type(raw) is dict else None
    return name if isinstance(name, str) and name not in ("", "-1") else None


def describe(leaf: Leaf) -> Described:
    """Return the cells of one leaf: ``N/A``, or ``None`` for statistics, where the leaf has no such value."""
    raw = leaf.raw
    if raw is None:
        return Described("N/A", "N/A", "N/A", NO_STATISTICS)
    if type(raw) is not dict:
        return Described(f"<class '{type(raw).__name__}'>", "[]", "N/A", (shown(raw),) * len(STATISTIC_NAMES))
    grad_text = flag_text(raw.get("requires_grad"))
    if "dtype" in raw:
        return Described(
            str(raw["dtype"]),
            shape_text(raw.get("shape")),
            grad_text,
            tuple([shown(raw.get(name)) for name in STATISTIC_NAMES]),
        )
    return _describe_argument(leaf, raw, grad_text)


def shape_text(shape: Any) -> str:
    """Return a recorded shape as a cell."""
    return "N/A" if shape is None else str(shape)


def flag_text(flag: Any) -> str:
    """Return a recorded requires_grad as a cell."""
    return "True" if flag is True else "N/A" if flag is None else str(flag)


def _describe_argument(leaf: Leaf, raw: Mapping[str, Any], grad: str) -> Described:
    kind, value = str(raw.get("type")), raw.get("value")
    if kind == "torch.Size":
        return Described(kind, str(value), grad, NO_STATISTICS)
    if kind == "slice":
        length = len(value) if isinstance(value, list) else 0
        return Described(kind, f"({length},)", grad, NO_STATISTICS)
    if kind == "torch.ProcessGroup":
        return Described(kind, "[]", grad, (str(raw.get("group_ranks")),) * len(STATISTIC_NAMES))
    if kind == "ellipsis":
        return Described(kind, "[]", grad, (shown(value),) * len(STATISTIC_NAMES))
    if leaf.suffix.endswith(RANK_KEYS):
        return Described("int", "[]", grad, (shown(value),) * len(STATISTIC_NAMES))
    if kind == "torch.memory_format":
        return Described(f"<class '{kind}'>", "[]", grad, (str(raw.get("format")),) * len(STATISTIC_NAMES))
    return Described(f"<class '{kind}'>", "[]", grad, (shown(value),) * len(STATISTIC_NAMES))


def is_shape(value: Any) -> TypeGuard[list[int]]:
    """Whether a tensor can have this recorded shape: a list of lengths, all known."""
    if type(value) is not list or any(type(length) is not int or length < 0 for length in value):
        return False
    return math.prod(value) < MOST_ELEMENTS


def element_count(raw: Any) -> float:
    """Return the number of elements of a tensor leaf; 1 for anything else. An unknown length counts as 1."""
    shape = raw.get("shape") if type(raw) is dict else None
    try:
        return _measures(tuple(shape))[0] if type(shape) is list else 1.0
    except TypeError:  # a damaged dump may hold anything
        return _measures(_lengths(shape or ()))[0]


def longest_axis(raw: dict[str, Any]) -> float:
    """Return the greatest length in the shape of a tensor leaf; 1 when it has no axis."""
    shape = raw["shape"]
    try:
        return _measures(tuple(shape))[1] if type(shape) is list else 1.0
    except TypeError:
        return _measures(_lengths(shape))[1]


@lru_cache(4096)
def _measures(shape: tuple[Any, ...]) -> tuple[float, float]:
    """Number of elements and greatest length; few shapes serve many tensors."""
    lengths = _lengths(shape)
    try:
        return float(math.prod(lengths)), float(max(lengths, default=1))
    except OverflowError:
        return sys.float_info.max, sys.float_info.max


def _lengths(shape: Iterable[Any]) -> tuple[int, ...]:
    """The lengths that are known: null stands for one that differs between the parts of a nested tensor.

    A damaged dump may hold ``false`` or ``8.0``: equal numbers share a place in the cache, so they mean the same.
    """
    return tuple(int(length) for length in shape if _is_length(length))


def _is_length(value: Any) -> bool:
    return (isinstance(value, int) or (isinstance(value, float) and value.is_integer())) and value >= 0


T = TypeVar("T")


def as_float(value: Any) -> float:
    """Return the number in data units: NaN where there is none, infinity for an integer too large for float64."""
    if not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def bounded(value: T) -> T | float:
    """Return the value as it is, or infinity for an integer too large for float64."""
    return as_float(value) if type(value) is int and math.isinf(as_float(value)) else value
