"""Values drawn so that they have the statistics that a dump recorded of a tensor.

Of float numbers the drawn tensor has Max, Min, Mean and Norm as recorded, within ``CLOSE``, where such a tensor exists.
The largest and the smallest element are put in. The others are normal deviates, moved by a centre, stretched by a width
and cut at Min and Max: with the width the variance grows from 0 to the largest that the extremes allow, with the centre
the mean grows from Min to Max, so two nested bisections find both. Integers are even between Min and Max, and truth
values have both values where both were recorded. Where Max or Min is NaN or an infinity, one element is that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.backend.replaying import CannotReplayError
from msprobe.core.tensors.dtypes import DType, DtypeKind, find_dtype
from msprobe.core.tensors.numpy_ops import rounded
from msprobe.replay.recorded_arguments import RecordedTensor

Array = NDArray[Any]
Floats = NDArray[np.float64]

CLOSE = 0.01
_NEAR = 1e-3
_SAMPLE = 4096
"""Deviates by which centre and width are found; a few corrections follow on all of them."""
_HALVINGS = 26
_CORRECTIONS = 6


@dataclass(frozen=True, slots=True)
class Drawn:
    """Drawn values.

    Attributes:
        values: the elements in the shape of the tensor; those of bfloat16 and 8-bit floats as float32.
        fits: whether Mean and Norm are those recorded; where no tensor has the recorded statistics they are not.
    """

    values: Array
    fits: bool = True


def draw(tensor: RecordedTensor, generator: np.random.Generator) -> Drawn:
    """Return values for a tensor.

    Raises:
        CannotReplayError: the dump has no statistics of it.
    """
    dtype = find_dtype(tensor.dtype)
    assert dtype is not None, tensor.dtype
    if not math.prod(tensor.shape):
        return Drawn(np.zeros(tensor.shape, _container(dtype)))
    if tensor.largest is None or tensor.smallest is None:
        raise CannotReplayError("the dump has neither the values nor Max and Min of an argument")
    try:
        return _drawn(tensor, dtype, generator)
    except (ValueError, OverflowError) as error:
        statistics = f"Max {tensor.largest:g}, Min {tensor.smallest:g}"
        raise CannotReplayError(f"no tensor of {dtype.name} has the recorded {statistics}") from error


def _drawn(tensor: RecordedTensor, dtype: DType, generator: np.random.Generator) -> Drawn:
    size, fits = math.prod(tensor.shape), True
    assert tensor.smallest is not None and tensor.largest is not None
    if dtype.kind is DtypeKind.BOOL:
        values: Array = _truth_values(tensor.smallest, tensor.largest, generator, size)
    elif dtype.kind is DtypeKind.INT:
        values = _integers(int(tensor.smallest), int(tensor.largest), generator, size)
    else:
        values, fits = _floats(tensor, generator, size)
        # What the call gets is what the golden call gets, so it must be numbers of the dtype.
        values = np.where(np.isfinite(values), rounded(np.where(np.isfinite(values), values, 0.0), dtype), values)
        if dtype.kind is DtypeKind.COMPLEX:
            values = values * np.exp(2j * np.pi * generator.random(size))
    return Drawn(values.reshape(tensor.shape).astype(_container(dtype)), fits)


def _container(dtype: DType) -> np.dtype[Any]:
    return np.dtype(dtype.container if dtype.is_native else np.float32)


def _truth_values(smallest: float, largest: float, generator: np.random.Generator, size: int) -> Array:
    if smallest == largest or size == 1:
        return np.full(size, bool(largest))
    values = generator.random(size) < 0.5
    first, second = generator.permutation(size)[:2]
    values[first], values[second] = True, False
    return np.asarray(values)


def _integers(smallest: int, largest: int, generator: np.random.Generator, size: int) -> Array:
    values = generator.integers(smallest, largest, size=size, endpoint=True)
    places = generator.permutation(size)[:2]
    values[places[-1]], values[places[0]] = smallest, largest
    return values


def _floats(tensor: RecordedTensor, generator: np.random.Generator, size: int) -> tuple[Floats, bool]:
    largest, smallest = float(tensor.largest or 0.0), float(tensor.smallest or 0.0)
    if not (math.isfinite(largest) and math.isfinite(smallest)):
        return _with_non_finite(smallest, largest, generator, size), False
    values = np.full(size, largest)
    if size > 1:
        places = generator.permutation(size)
        values[places[0]] = smallest
        if size > 2 and largest > smallest:
            values[places[2:]] = _between(tensor, smallest, largest, generator)
    return values, _fits(values, tensor)


def _between(tensor: RecordedTensor, smallest: float, largest: float, generator: np.random.Generator) -> Floats:
    """Return the elements beside the extremes, so that mean and norm of all come out as recorded."""
    size = math.prod(tensor.shape)
    count, reach = size - 2, largest - smallest
    whole_mean = (smallest + largest) / 2 if _unknown(tensor.mean) else float(tensor.mean or 0.0)
    mean = min(max((whole_mean * size - largest - smallest) / count, smallest), largest)
    variance = (reach / 4) ** 2
    if not _unknown(tensor.norm):
        variance = max(((tensor.norm or 0.0) ** 2 - largest**2 - smallest**2) / count - mean**2, 0.0)
    noise, ends, deviation = generator.standard_normal(count), (smallest, largest), math.sqrt(variance)
    values, fits = _corrected(noise, mean, deviation, ends, (mean, deviation))
    if not fits:
        begin = _centre_and_width(noise[:_SAMPLE], mean, deviation, ends)
        values, _ = _corrected(noise, mean, deviation, ends, begin)
    return values


def _corrected(
    noise: Floats, mean: float, deviation: float, ends: tuple[float, float], begin: tuple[float, float]
) -> tuple[Floats, bool]:
    """Return the cut deviates after some corrections of centre and width, and whether their moments are as wanted."""
    centre, width = begin
    for _ in range(_CORRECTIONS):
        values = np.clip(centre + width * noise, *ends)
        own_mean, own = float(values.mean()), float(values.std())
        if abs(own_mean - mean) + abs(own - deviation) <= _NEAR * math.hypot(mean, deviation):
            return values, True
        width *= deviation / own if own > 0.0 else 1.0
        centre += mean - own_mean
    return values, False


def _centre_and_width(noise: Floats, mean: float, deviation: float, ends: tuple[float, float]) -> tuple[float, float]:
    """Return the centre and the width by which cut deviates have this mean and this deviation."""
    reach = ends[1] - ends[0]

    def centre_for(width: float) -> float:
        low, high = ends[0] - 8.0 * width - reach, ends[1] + 8.0 * width + reach
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            below = float(np.clip(middle + width * noise, *ends).mean()) < mean
            low, high = (middle, high) if below else (low, middle)
        return (low + high) / 2

    narrow, wide = 0.0, 1e3 * reach
    for _ in range(_HALVINGS):
        width = math.sqrt(narrow * wide) if narrow else wide / 64
        below = float(np.clip(centre_for(width) + width * noise, *ends).std()) < deviation
        narrow, wide = (width, wide) if below else (narrow, width)
        if wide < 1e-9 * reach:
            break
    return centre_for(wide), wide


def _unknown(statistic: float | None) -> bool:
    return statistic is None or not math.isfinite(statistic)


def _fits(values: Floats, tensor: RecordedTensor) -> bool:
    norm, scale = float(np.linalg.norm(values)), float(np.sqrt(np.mean(np.square(values))))
    mean_fits = _unknown(tensor.mean) or abs(float(values.mean()) - (tensor.mean or 0.0)) <= CLOSE * scale
    return mean_fits and (_unknown(tensor.norm) or abs(norm - (tensor.norm or 0.0)) <= CLOSE * norm)


def _with_non_finite(smallest: float, largest: float, generator: np.random.Generator, size: int) -> Floats:
    ends = [value for value in (smallest, largest) if math.isfinite(value)]
    low, high = (min(*ends, 0.0), max(*ends, 0.0)) if ends else (-1.0, 1.0)
    values = generator.uniform(low, high if high > low else low + 1.0, size)
    odd = [value for value in (largest, smallest) if not math.isfinite(value)]
    places = generator.permutation(size)
    for place, value in zip(places, (*ends, *odd), strict=False):
        values[place] = value
    if size == 1:
        values[0] = odd[0]
    return values
