"""Values drawn so that they have the statistics that a dump recorded of a tensor.

Of float numbers the drawn tensor has Max, Min, Mean and Norm as recorded, within ``CLOSE`` of the size of its elements, where
such a tensor exists: the largest and the smallest element are put in, and the elements between are normal deviates that are
scaled, shifted and cut until mean and norm fit (fixed-point iteration on the two moments of a truncated distribution).
Integers are even between Min and Max; truth values have both where both were recorded. Where Max or Min is NaN or an
infinity, one element is that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.backend.replaying import CannotReplayError
from msprobe.core.tensors.dtypes import DtypeKind, find_dtype
from msprobe.replay.recorded_arguments import RecordedTensor

Array = NDArray[Any]
Floats = NDArray[np.float64]

CLOSE = 0.01
_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Drawn:
    """Drawn values, and whether their statistics are those recorded."""

    values: Array
    fits: bool


def draw(tensor: RecordedTensor, generator: np.random.Generator) -> Drawn:
    """Return values for a tensor.

    Raises:
        CannotReplayError: the dump has no statistics of it.
    """
    dtype = find_dtype(tensor.dtype)
    assert dtype is not None, tensor.dtype
    size = math.prod(tensor.shape)
    if size == 0:
        return Drawn(np.zeros(tensor.shape, np.float32 if not dtype.is_native else dtype.container), True)
    if tensor.largest is None or tensor.smallest is None:
        raise CannotReplayError("the dump has neither values nor Max and Min of an argument")
    if dtype.kind is DtypeKind.BOOL:
        return Drawn(_truth(tensor, generator, size).reshape(tensor.shape), True)
    if dtype.kind is DtypeKind.INT:
        return Drawn(_integers(tensor, generator, size, dtype.container).reshape(tensor.shape), True)
    values, fits = _floats(tensor, generator, size)
    if dtype.kind is DtypeKind.COMPLEX:
        values = values * np.exp(2j * np.pi * generator.random(size))
    kind = np.dtype(dtype.container) if dtype.is_native else np.dtype(np.float32)
    return Drawn(values.reshape(tensor.shape).astype(kind), fits)


def _truth(tensor: RecordedTensor, generator: np.random.Generator, size: int) -> Array:
    if tensor.largest == tensor.smallest:
        return np.full(size, bool(tensor.largest))
    values = generator.random(size) < 0.5
    values[generator.integers(size)] = True
    values[0 if values[0] or size == 1 else 0] = values[0]
    if values.all():
        values[0] = False
    return values


def _integers(tensor: RecordedTensor, generator: np.random.Generator, size: int, container: str) -> Array:
    low, high = int(tensor.smallest or 0), int(tensor.largest or 0)
    values = generator.integers(low, high, size=size, endpoint=True, dtype=np.int64)
    places = generator.permutation(size)[:2]
    values[places[-1]] = low
    values[places[0]] = high
    return values.astype(container)


def _floats(tensor: RecordedTensor, generator: np.random.Generator, size: int) -> tuple[Floats, bool]:
    largest, smallest = float(tensor.largest or 0.0), float(tensor.smallest or 0.0)
    odd = [value for value in (largest, smallest) if not math.isfinite(value)]
    if odd:
        return _with_non_finite(tensor, generator, size), False
    values = np.full(size, largest)
    if size == 1 or largest == smallest:
        return values, True
    places = generator.permutation(size)
    values[places[0]] = smallest
    inner = size - 2
    if inner:
        values[places[2:]] = _between(tensor, generator, inner, (smallest, largest))
    return values, _fits(values, tensor)


def _between(
    tensor: RecordedTensor, generator: np.random.Generator, count: int, ends: tuple[float, float]
) -> Floats:
    """Return the elements between the extremes, so that mean and norm of all come out as recorded."""
    smallest, largest = ends
    size = count + 2
    mean = tensor.mean if tensor.mean is not None and math.isfinite(tensor.mean) else (largest + smallest) / 2
    norm = tensor.norm if tensor.norm is not None and math.isfinite(tensor.norm) else None
    wanted_mean = (mean * size - largest - smallest) / count
    if norm is None:
        wanted_square = wanted_mean**2 + ((largest - smallest) / 4) ** 2
    else:
        wanted_square = max((norm**2 - largest**2 - smallest**2) / count, wanted_mean**2)
    deviation = math.sqrt(max(wanted_square - wanted_mean**2, 0.0))
    noise = generator.standard_normal(count)
    noise = (noise - noise.mean()) / (noise.std() or 1.0)
    centre, width = wanted_mean, deviation
    values = np.clip(centre + width * noise, smallest, largest)
    for _ in range(_ROUNDS):
        centre += wanted_mean - values.mean()
        spread = values.std()
        if spread > 0:
            width = min(width * max(deviation / spread, 0.5) if spread < deviation else width * deviation / spread, 1e300)
        values = np.clip(centre + width * noise, smallest, largest)
    return values


def _fits(values: Floats, tensor: RecordedTensor) -> bool:
    scale = float(np.sqrt(np.mean(np.square(values)))) or 1.0
    mean = tensor.mean is None or abs(float(values.mean()) - tensor.mean) <= CLOSE * scale
    own = float(np.sqrt(np.sum(np.square(values))))
    norm = tensor.norm is None or abs(own - tensor.norm) <= CLOSE * max(abs(tensor.norm), 1e-300)
    return mean and norm


def _with_non_finite(tensor: RecordedTensor, generator: np.random.Generator, size: int) -> Floats:
    ends = [value for value in (tensor.smallest, tensor.largest) if value is not None and math.isfinite(value)]
    low, high = (min(ends), max(ends)) if ends else (-1.0, 1.0)
    values = generator.uniform(min(low, -abs(high)), high if high > low else abs(low) or 1.0, size)
    odd = [value for value in (tensor.largest, tensor.smallest) if value is not None and not math.isfinite(value)]
    for place, value in zip(generator.permutation(size), odd, strict=False):
        values[place] = value
    return values
