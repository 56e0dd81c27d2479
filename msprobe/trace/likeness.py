"""How alike two recorded tensors are, by their statistics: one tensor up to rounding, or another one.

Callers find a tensor again by it: as the result of an earlier call, in another order of operands, in a repeated call,
among the gradients that another tool recorded. Verdicts never come from here; ``msprobe.numerics`` gives them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.store.record_walk import MEMORY, PART
from msprobe.core.tensors.dtypes import DtypeKind, find_dtype
from msprobe.core.tensors.projection import KEY
from msprobe.core.tensors.statistics import (
    LARGEST,
    NORM,
    NORM_COLUMN,
    SMALLEST,
    STATISTIC_NAMES,
    STATISTICS,
    ToleranceOf,
    columns_of,
)
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.trace.leaves import as_float, element_count

Raw = Mapping[str, Any]
UNMOVED = (LARGEST.name, SMALLEST.name, NORM.name)
"""The statistics that no view changes, and that do not depend on the sign of rounding as a mean around zero does."""
MASKED = -1e3
"""Scores below it are hidden: a softmax makes 0 of them."""
NEAR = 1e-4
EXACT = 2e-6
"""How far statistics of one parameter in two runs may be apart in float32, relative to its scale."""
_ROUNDINGS = 4.0
_DIGEST = "md5"
_NOWHERE = {MEMORY: None, PART: None}
_EXTREMES = columns_of(ToleranceOf.ELEMENT)


def distance(left: Raw, right: Raw, names: Collection[str] = STATISTIC_NAMES) -> float:
    """Return the largest difference of the statistics ``names`` of two tensors, relative to the size of the tensors.

    The size is that of the largest element (finite, of both sides), for norms that of the larger norm; so the result
    has no unit. It is 0 where all statistics are equal (two NaN are), and infinite where only one side has a number.
    """
    extremes = (abs(as_float(raw.get(spec.name))) for raw in (left, right) for spec in (LARGEST, SMALLEST))
    largest = max(filter(math.isfinite, extremes), default=0.0)
    worst = 0.0
    for spec in STATISTICS:
        if spec.name not in names:
            continue
        one, two = as_float(left.get(spec.name)), as_float(right.get(spec.name))
        if one == two or (one != one and two != two):
            continue
        scale = max(one, two) if spec.tolerance is ToleranceOf.NORM else largest
        difference = abs(one - two)
        worst = max(worst, difference / scale if scale > 0.0 and math.isfinite(difference) else math.inf)
    return worst


def distances(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what ``distance`` returns, for many tensors at once.

    Both arguments have the statistics in table order along their last axis, which the result lacks.
    """
    with np.errstate(all="ignore"):
        sizes = np.maximum(*(np.where(np.isfinite(side), np.abs(side), 0.0) for side in (left, right)))
        scale = np.repeat(sizes[..., _EXTREMES].max(axis=-1, keepdims=True), len(STATISTICS), axis=-1)
        scale[..., NORM_COLUMN] = np.maximum(left, right)[..., NORM_COLUMN]
        apart = np.abs(left - right)
        apart = np.where((scale > 0.0) & np.isfinite(apart), apart / scale, math.inf)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
    return np.asarray(np.where(same, 0.0, apart).max(axis=-1))


def same_record(left: Any, right: Any) -> bool:
    """Return whether two leaves say the same, wherever the memory of their tensors lies."""
    if left == right:
        return True
    if type(left) is not dict or type(right) is not dict:
        return False
    return {**left, **_NOWHERE} == {**right, **_NOWHERE}


def recorded_alike(left: Raw, right: Raw) -> bool:
    """Return whether two tensors have one value of each statistic, that of the order of elements included: tensors of
    one shape whose elements differ by more than rounding never do."""
    if left.get(KEY) is None or left.get("shape") != right.get("shape"):
        return False
    return all(left.get(name) == right.get(name) for name in (*STATISTIC_NAMES, KEY))


def same_checksums(left: Raw, right: Raw) -> bool | None:
    """Return whether two tensors have one checksum; None where none of them has a place for it."""
    if _DIGEST not in left and _DIGEST not in right:
        return None
    return left.get(_DIGEST) is not None and left.get(_DIGEST) == right.get(_DIGEST)


def same_values(left: Raw, right: Raw, near: float = NEAR) -> bool:
    """Return whether two tensors have the same elements up to rounding, as far as statistics that no view changes tell.

    ``near`` is how far the statistics may be apart, relative to their scale (see ``distance``); a few units of
    round-off of the coarser dtype are allowed in any case.
    """
    if recorded_count(left) != recorded_count(right):
        return False
    by_checksum = same_checksums(left, right)
    if by_checksum is not None:
        return by_checksum
    bound = bound_of(left, right, near=near)
    norms = as_float(left.get(NORM.name)), as_float(right.get(NORM.name))
    if abs(norms[0] - norms[1]) > bound * max(norms):
        return False  # what ``distance`` would say; most tensors are told apart by it
    return distance(left, right, UNMOVED) <= bound


def bound_of(*raws: Raw, near: float = NEAR) -> float:
    """Return how far the statistics of the same elements in these dtypes may be apart: ``near``, or a few roundings."""
    return max(near, *(_roundoff(str(raw.get("dtype"))) for raw in raws))


def recorded_count(raw: Raw) -> float:
    """Return how many elements the statistics of a tensor describe: those of one rank where it is spread over ranks in
    equal parts (DTensor)."""
    count = element_count(raw)
    mesh, placements = raw.get("device_mesh"), raw.get("placements")
    for placement in placements if isinstance(placements, list) else ():
        if not isinstance(mesh, list) or not mesh:
            break
        count /= len(mesh) if isinstance(placement, dict) and "Shard" in placement else 1
        mesh = mesh[0]
    return count


def may_be_part(shape: Any, whole: Any) -> bool:
    """Return whether a tensor of ``shape`` is one of the matrices that a parameter of three dimensions holds."""
    if not isinstance(shape, list) or not isinstance(whole, list) or len(whole) != len(shape) + 1 or len(shape) < 2:
        return False
    return shape in (whole[1:], whole[1:][::-1])


@lru_cache
def _roundoff(name: str) -> float:
    dtype = find_dtype(name)
    return _ROUNDINGS * dtype.unit_roundoff if dtype is not None else 0.0


def is_part(raw: Raw, whole: Raw, allowed: float = 0.0) -> bool:
    """Return whether a tensor may hold some elements of a larger one of its dtype, as statistics tell; each may be
    rounded by ``allowed`` of the largest one."""
    if raw.get("dtype") != whole.get("dtype") or not 1 < element_count(raw) < element_count(whole):
        return False
    ends = [(as_float(one.get(SMALLEST.name)), as_float(one.get(LARGEST.name))) for one in (raw, whole)]
    rounding = allowed * max(map(abs, ends[1])) if allowed else 0.0
    return ends[1][0] - rounding <= ends[0][0] < ends[0][1] <= ends[1][1] + rounding


def is_telling(number: float) -> bool:
    """Return whether a number hardly occurs twice by chance: those that 16 bits hold (0, 1) are made of many inputs."""
    return math.isfinite(number) and not (math.frexp(number)[0] / unit_roundoff("torch.float16")).is_integer()


def is_boolean(raw: Raw) -> bool:
    """Return whether a tensor holds truth values."""
    dtype = find_dtype(str(raw.get("dtype", "")))
    return dtype is not None and dtype.kind is DtypeKind.BOOL


def is_masked(raw: Raw) -> bool:
    """Return whether some numbers are so far below that a softmax makes 0 of them: beside them others are rounding."""
    return as_float(raw.get(SMALLEST.name)) < MASKED


def is_mask(raw: Raw) -> bool:
    """Return whether numbers that are added mask others: they are 0 or far below."""
    return as_float(raw.get(LARGEST.name)) == 0.0 and is_masked(raw)


def is_complex(raw: Raw) -> bool:
    """Return whether a recorded tensor has complex numbers; its statistics are those of their magnitudes."""
    dtype = find_dtype(str(raw.get("dtype")))
    return dtype is not None and dtype.kind is DtypeKind.COMPLEX


def is_float(raw: Raw) -> bool:
    """Return whether a tensor holds floating-point numbers."""
    dtype = find_dtype(str(raw.get("dtype")))
    return dtype is not None and dtype.kind is DtypeKind.FLOAT
