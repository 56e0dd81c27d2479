"""How far a result may be from the same call in a higher precision: its own rounding, and what its inputs do.

With u the unit round-off of the dtype of the result, g the value in the higher precision (the golden one) and s how far
g moves when every input moves by one unit round-off of its dtype:

    allowed of element i    F * (u * |g_i| + s_i) + t_i + the smallest normal number of the dtype   beyond it: a warning
    of the whole tensor     F * (u * |g_i| + s_i) + t_i + G * u * the largest |g|                   beyond it: an error

t is the rounding of terms inside of the formula of a function that cancel (``Movement.inside``), in the precision that
is computed in, float32 or better. F and G are small for 16 bits, where kernels round once and add up in float32, and
larger for float32, where sums of any length are added up in float32 itself (``_FACTORS``). So a warning says that small
elements beside large ones have lost digits, as they do where a function computes them from something large.

s is measured, not computed: the golden call runs again with inputs whose elements are moved by one round-off up or down
(N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., section 1.6: the forward error of a backward
stable function is its condition times the round-off; W. Kahan and stochastic arithmetic measure it in the same way).
A random choice of signs can cancel in one element, so s_i is at least a share (``SMOOTHED``) of the root mean square
over the tensor. For a function of single elements, where that would hide an error in a small element beside large
ones, the signs do not cancel and no mean is taken.

Rounding has no preference for larger numbers. So a result of ``ENOUGH`` elements and more is also wrong where it is, on
the average, larger or smaller than the golden one by more than one round-off (and more than chance and the movement of
the inputs explain): a factor of 1.01 in bfloat16 shows in no single element.

Results that are no floating-point numbers are equal, except where moved inputs change them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.tensors.dtypes import DType
from msprobe.numerics.kinds import Level
from msprobe.numerics.tolerance import FLOAT32_ROUNDOFF

Array = NDArray[Any]
Floats = NDArray[np.float64]

SMOOTHED = 0.5
GROWTH = 0.25
"""Sums in the precision of their result round after every term: by the terms of the sum, the partial sums carry up to
half of the root of their number as much as the inputs do; kernels that add in blocks carry less."""
ENOUGH = 64
_CHANCE = 5.0
"""Standard errors of the mean factor that chance may make."""
_ORDINARY = 4.0
"""Up to so many round-offs inputs carry the results of ordinary calls, of whose factor that explains nothing."""
LOCAL = 0.05
"""Share of the elements of a result that do not move with half of the inputs, from which on a function counts as one of
single elements."""
_FACTORS = ((FLOAT32_ROUNDOFF, 8.0, 16.0), (1.0, 2.5, 1.0))
"""Up to this unit round-off: F and G."""


@dataclass(frozen=True, slots=True)
class Conditioned:
    """The judgement of one result.

    Attributes:
        level: whether it passes.
        times: the largest error in units of what an element is allowed; infinite for another shape, for NaN or infinity
            on one side alone, and for integers that differ.
        worst: the flat position of that element; -1 where nothing differs.
        error: the largest error relative to the largest golden element.
        condition: the largest movement of the golden result, in units of the movement of the inputs, relative to the
            largest golden element; NaN where it was not measured.
        moved: whether the golden call was run with moved inputs.
    """

    level: Level
    times: float = 0.0
    worst: int = -1
    error: float = 0.0
    condition: float = float("nan")
    moved: bool = False

    @property
    def passes(self) -> bool:
        """Return whether every element is as near as it is allowed to be."""
        return self.level == Level.PASS


SAME = Conditioned(Level.PASS)
OTHER = Conditioned(Level.ERROR, float("inf"), 0, float("inf"))


def by_rounding(result: Array, golden: Array, dtype: DType) -> Conditioned:
    """Judge a result by its own rounding alone.

    Args:
        result: the elements, of any shape.
        golden: the elements in the higher precision, of the same shape.
        dtype: the dtype of the result.
    """
    return _judged(result, golden, dtype, np.zeros(golden.shape), None)


@dataclass(frozen=True, slots=True)
class Movement:
    """What moved inputs do to a golden result.

    Attributes:
        moved: golden results of moved inputs; those of another shape say nothing.
        half: the golden result where only about half of the elements of the inputs were moved; None where unknown.
        terms: how many terms its sums may have.
        stages: by how much more a function carries that rounds what it computes on the way.
        inside: how far each element may be off because terms of its formula, which are rounded, cancel; in units of the
            round-off of the precision that is computed in, which is float32 or better.
    """

    moved: Sequence[Array]
    half: Array | None = None
    terms: float = 1.0
    stages: float = 1.0
    inside: Array | float = 0.0


def by_condition(result: Array, golden: Array, movement: Movement, dtype: DType) -> Conditioned:
    """Judge a result by its rounding and by what one round-off of each input does.

    Args:
        result, golden, dtype: as in ``by_rounding``.
        movement: what moved inputs do to the golden result.
    """
    moved, half = movement.moved, movement.half
    alike = [values for values in moved if values.shape == golden.shape]
    if golden.dtype.kind not in "fc":
        return _judged(result, golden, dtype, _changed(golden, alike), None)
    spread, growth = np.zeros(golden.shape), 1.0
    with np.errstate(all="ignore"):
        for values in alike:
            spread = np.fmax(spread, np.abs(values - golden))
        spread = np.where(np.isnan(spread), np.inf, spread)
        local = half is not None and half.shape == golden.shape and _is_local(half, golden, spread)
        finite = spread[np.isfinite(spread)]
        if not local and finite.size:
            spread = np.maximum(spread, SMOOTHED * np.sqrt(np.mean(np.square(finite))))
            if dtype.unit_roundoff <= FLOAT32_ROUNDOFF:
                growth = max(1.0, float(np.sqrt(movement.terms)) * GROWTH)
    inside = (movement.inside if np.shape(movement.inside) == golden.shape else 0.0) * min(
        dtype.unit_roundoff, FLOAT32_ROUNDOFF
    )
    return _judged(result, golden, dtype, growth * movement.stages * spread, alike, inside)


def _is_local(half: Array, golden: Array, spread: Floats) -> bool:
    moving = spread > 0
    return bool(moving.any()) and float(np.mean(half[moving] == golden[moving])) >= LOCAL


def _changed(golden: Array, moved: Sequence[Array]) -> Floats:
    """Return infinity for each element that some moved input changes, else 0."""
    changed = np.zeros(golden.shape, np.bool_)
    for values in moved:
        changed |= values != golden
    return np.where(changed, np.inf, 0.0)


def _judged(
    result: Array,
    golden: Array,
    dtype: DType,
    spread: Floats,
    moved: Sequence[Array] | None,
    inside: Floats | float = 0.0,
) -> Conditioned:
    if result.shape != golden.shape:
        return OTHER
    if not golden.size:
        return SAME
    result, golden, spread = (np.ravel(values) for values in (result, golden, spread))
    if golden.dtype.kind not in "fc":
        different = (result != golden) & ~np.isinf(spread)
        return replace(OTHER, worst=int(different.argmax())) if different.any() else SAME
    with np.errstate(all="ignore"):
        roundoff, size, error = dtype.unit_roundoff, np.abs(golden), np.abs(result - golden)
        scale = float(np.max(size[np.isfinite(size)], initial=0.0))
        share, of_largest = next((own, whole) for largest, own, whole in _FACTORS if roundoff <= largest)
        allowed = share * (roundoff * size + spread) + np.ravel(inside) + _smallest_normal(dtype)
        times, gross = error / allowed, error / (allowed + of_largest * roundoff * scale)
        fits = _equal(result, golden, dtype) | np.isinf(spread)
        for each in (times, gross):
            each[fits] = 0.0
            each[np.isnan(each)] = np.inf
        factor = _factor_beyond_rounding(result, golden, moved or (), dtype, spread)
    worst = int(times.argmax())
    if factor > 1.0 and times[worst] < np.inf:
        times[worst], gross[worst] = max(times[worst], factor), max(gross[worst], factor)
    level = Level.PASS if times[worst] <= 1.0 else Level.WARNING if gross.max() <= 1.0 else Level.ERROR
    largest = float(np.max(error[np.isfinite(error)], initial=0.0))
    unit = roundoff * scale  # 0 also where the largest element is as small as float64 can tell
    condition = float(np.max(spread[np.isfinite(spread)], initial=0.0)) / unit if unit else float("nan")
    return Conditioned(
        level,
        float(times[worst]),
        worst if times[worst] > 0.0 else -1,
        largest / scale if scale else float(largest > 0.0),
        condition if moved else float("nan"),
        bool(moved),
    )


def _factor_beyond_rounding(
    result: Array, golden: Array, moved: Sequence[Array], dtype: DType, spread: Floats
) -> float:
    """Return the mean factor between result and golden one, less 1, in units of what is allowed; 0 where few elements
    show none. It is the slope of the errors over the golden elements, by least squares."""
    known = np.isfinite(result) & np.isfinite(golden) & (np.abs(golden) >= _smallest_normal(dtype))
    known &= np.abs(golden) >= spread  # of smaller elements the inputs decide everything, also a factor
    if golden.dtype.kind == "c" or int(known.sum()) < ENOUGH:
        return 0.0
    golden, error, spread = golden[known], result[known] - golden[known], spread[known]
    squares = float(np.sum(np.square(golden)))
    if squares == 0.0:
        return 0.0
    slopes = [abs(float(np.sum((np.ravel(each)[known] - golden) * golden))) / squares for each in moved]
    slope = float(np.sum(error * golden)) / squares
    chance = float(np.sqrt(np.sum(np.square((error - slope * golden) * golden)))) / squares
    carried = float(np.sqrt(np.sum(np.square(spread)) / squares))  # may be one factor of a whole row
    allowed = (
        dtype.unit_roundoff
        + max(0.0, carried - _ORDINARY * dtype.unit_roundoff)
        + _CHANCE * chance
        + 2.0 * max((slope for slope in slopes if np.isfinite(slope)), default=0.0)
    )
    return abs(slope) / allowed


def _equal(result: Array, golden: Array, dtype: DType) -> NDArray[np.bool_]:
    """Return where both are equal, both NaN, or the golden one is too large for the dtype and the other infinite."""
    same = (result == golden) | (np.isnan(result) & np.isnan(golden))
    if golden.dtype.kind == "c":
        return np.asarray(same | (~np.isfinite(result) & ~np.isfinite(golden)))
    beyond = np.abs(golden) >= dtype.largest * (1.0 + dtype.unit_roundoff)
    return np.asarray(same | (beyond & np.isinf(result) & (np.sign(result) == np.sign(golden))))


def _smallest_normal(dtype: DType) -> float:
    """Return the smallest number with all digits, below which a device may return 0."""
    return dtype.finest * 2.0 ** (dtype.digits - 1) if dtype.digits else 0.0
