"""A recorded tensor as inference sees it: shape, statistics, checksum.

Whether a tensor of one run is somewhere in the other run: by its checksum, or by its statistics.

Two programs that compute the same differ by rounding, so statistics may differ by a thousandth of the largest element,
or by some roundings of the number format where that is more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.records.leaves import as_float, is_shape
from msprobe.core.store.record_walk import values_below
from msprobe.core.tensors.statistics import LARGEST, SMALLEST, STATISTIC_NAMES, STATISTICS, ToleranceOf, columns_of
from msprobe.numerics.tolerance import unit_roundoff

CLOSE, APART = 1e-3, 3e-2
_ELEMENTS, _MEANS, _NORMS = map(columns_of, (ToleranceOf.ELEMENT, ToleranceOf.MEAN, ToleranceOf.NORM))
_EXTREMES = STATISTICS.index(LARGEST), STATISTICS.index(SMALLEST)
"""Positions of the statistics that each tolerance judges."""


class TensorSignature(NamedTuple):
    """Shape, statistics in table order (or None where one is missing or not finite) and the checksum (or None)."""

    shape: tuple[int, ...]
    statistics: tuple[float, ...] | None
    checksum: str | None

    def shape_only(self) -> TensorSignature:
        """The same tensor without its values."""
        return TensorSignature(self.shape, None, None)

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def constant(self) -> bool:
        """Whether all elements are equal, so that values tell nothing about which tensor this is."""
        largest, smallest = _EXTREMES
        return self.statistics is not None and self.statistics[largest] == self.statistics[smallest]


def tensor_signatures(node: Any, most: int) -> list[TensorSignature]:
    """The first ``most`` tensors inside a recorded argument, in order; other values are left out."""
    tensors = (leaf.raw for leaf in values_below(node) if is_shape(leaf.raw.get("shape")))
    return [
        TensorSignature(tuple(raw["shape"]), _statistics(raw), _text(raw.get("md5"))) for raw in islice(tensors, most)
    ]


def _statistics(raw: Mapping[str, Any]) -> tuple[float, ...] | None:
    values = tuple(as_float(raw.get(name)) for name in STATISTIC_NAMES)
    return values if all(map(math.isfinite, values)) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def distance(left: TensorSignature, right: TensorSignature) -> float | None:
    """Return the largest difference of the statistics relative to the scale of the tensor; None without statistics.

    Statistics of elements and norms are relative to the larger of both sides, means to the root mean square.
    """
    if left.statistics is None or right.statistics is None:
        if left.checksum is None or right.checksum is None:
            return None
        return 0.0 if left.checksum == right.checksum else math.inf
    if left.statistics == right.statistics:
        return 0.0
    target, golden = left.statistics, right.statistics
    size = max(abs(values[index]) for index in _ELEMENTS for values in (target, golden)) or 1e-30
    total = max(abs(values[index]) for index in _NORMS for values in (target, golden)) or 1e-30
    rms = total / math.sqrt(max(left.numel, 1))
    parts = [abs(target[index] - golden[index]) / size for index in _ELEMENTS]
    parts += [abs(target[index] - golden[index]) / rms for index in _MEANS]
    parts += [abs(target[index] - golden[index]) / total for index in _NORMS]
    return max(parts)


def closeness(difference: float) -> float:
    """1 up to a difference of ``CLOSE``, 0 from ``APART`` on, linear in its logarithm between."""
    if difference <= CLOSE:
        return 1.0
    if difference >= APART:
        return 0.0
    return 1.0 - math.log10(difference / CLOSE) / math.log10(APART / CLOSE)


_ALIKE, _ROUNDINGS = 1e-3, 4.0
_ALL = 1 << 20
_SECTIONS = ("input_args", "input_kwargs", "input", "output")


class TensorIndex:
    """The tensors that the entries of one dump take and give. Shapes may differ, the number of elements may not."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._checksums: set[str] = set()
        statistics: dict[int, list[tuple[float, ...]]] = {}
        for body in data.values():
            sections = [body[name] for name in _SECTIONS if name in body] if isinstance(body, dict) else []
            for seen in tensor_signatures(sections, _ALL):
                if seen.checksum is not None:
                    self._checksums.add(seen.checksum)
                if seen.statistics is not None:
                    statistics.setdefault(seen.numel, []).append(seen.statistics)
        self._statistics: dict[int, NDArray[np.float64]] = {
            numel: np.array(list(dict.fromkeys(values))) for numel, values in statistics.items()
        }

    def contains(self, raw: dict[str, Any]) -> bool:
        """Whether the recorded tensor is here; also true for one of which nothing is known."""
        (seen,) = tensor_signatures(raw, 1) or (None,)
        if seen is None or (seen.checksum is None and seen.statistics is None):
            return True
        if seen.checksum in self._checksums:
            return True
        others = self._statistics.get(seen.numel)
        if seen.statistics is None or others is None:
            return False
        own = np.array(seen.statistics)
        share = max(_ALIKE, _ROUNDINGS * unit_roundoff(str(raw["dtype"])))
        scale = np.full(len(own), np.abs(own[_ELEMENTS]).max())
        scale[_NORMS] = own[_NORMS]
        return bool((np.abs(others - own) <= share * scale).all(axis=1).any())
