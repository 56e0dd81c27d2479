"""The signature of a recorded tensor: shape, statistics, checksum; and how alike two signatures are.

``distance`` and ``closeness`` compare the tensors of two layers. ``TensorIndex`` answers whether a tensor of one run is
anywhere in the other run. Two programs that compute the same differ by rounding; so statistics may differ by a
thousandth of the largest element, or by some roundings of the number format where that is more.

``sequence_alignment.call_closeness`` is another measure, for telling apart calls that differ by less than this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.core.store.record_walk import values_below
from msprobe.core.tensors.statistics import LARGEST, SMALLEST, STATISTIC_NAMES, STATISTICS, ToleranceOf, columns_of
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.trace.leaves import as_float, is_shape

_EQUAL_UP_TO, _DIFFERENT_FROM = 1e-3, 3e-2
_EXTREMES = STATISTICS.index(LARGEST), STATISTICS.index(SMALLEST)
_ELEMENTS, _MEANS, _NORMS = map(columns_of, (ToleranceOf.ELEMENT, ToleranceOf.MEAN, ToleranceOf.NORM))
"""Positions of the statistics that each tolerance judges."""


class TensorSignature(NamedTuple):
    """What is known of a recorded tensor.

    Args:
        shape: its shape.
        statistics: the statistics in the order of ``STATISTICS``; None where one is missing or not finite.
        checksum: the checksum; None where none was recorded.
    """

    shape: tuple[int, ...]
    statistics: tuple[float, ...] | None
    checksum: str | None

    def shape_only(self) -> TensorSignature:
        """Return the signature without statistics and checksum."""
        return TensorSignature(self.shape, None, None)

    @property
    def numel(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    @property
    def constant(self) -> bool:
        """Return whether all elements are equal, so that the values do not identify the tensor."""
        largest, smallest = _EXTREMES
        return self.statistics is not None and self.statistics[largest] == self.statistics[smallest]


def tensor_signatures(node: Any, most: int) -> list[TensorSignature]:
    """Return the signatures of the first ``most`` tensors inside a recorded argument, in order."""
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
    """Return how alike tensors of this distance are, from 0 to 1.

    It is 1 up to a distance of ``_EQUAL_UP_TO`` and 0 from ``_DIFFERENT_FROM`` on; between them it is linear in the
    logarithm of the distance.
    """
    if difference <= _EQUAL_UP_TO:
        return 1.0
    if difference >= _DIFFERENT_FROM:
        return 0.0
    return 1.0 - math.log10(difference / _EQUAL_UP_TO) / math.log10(_DIFFERENT_FROM / _EQUAL_UP_TO)


_TOLERANCE = 1e-3
_ROUNDINGS = 4.0
_MOST_TENSORS = 1 << 20
_SECTIONS = ("input_args", "input_kwargs", "input", "output")


class TensorIndex:
    """The inputs and outputs of all entries of one dump. A tensor may have another shape, not another size."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._checksums: set[str] = set()
        statistics: dict[int, list[tuple[float, ...]]] = {}
        for body in data.values():
            sections = [body[name] for name in _SECTIONS if name in body] if isinstance(body, dict) else []
            for signature in tensor_signatures(sections, _MOST_TENSORS):
                if signature.checksum is not None:
                    self._checksums.add(signature.checksum)
                if signature.statistics is not None:
                    statistics.setdefault(signature.numel, []).append(signature.statistics)
        self._statistics: dict[int, NDArray[np.float64]] = {
            numel: np.array(list(dict.fromkeys(values))) for numel, values in statistics.items()
        }

    def contains(self, raw: dict[str, Any]) -> bool:
        """Return whether the recorded tensor is in the dump; True for one without statistics and checksum."""
        (signature,) = tensor_signatures(raw, 1) or (None,)
        if signature is None or (signature.checksum is None and signature.statistics is None):
            return True
        if signature.checksum in self._checksums:
            return True
        others = self._statistics.get(signature.numel)
        if signature.statistics is None or others is None:
            return False
        own = np.array(signature.statistics)
        share = max(_TOLERANCE, _ROUNDINGS * unit_roundoff(str(raw["dtype"])))
        scale = np.full(len(own), np.abs(own[_ELEMENTS]).max())
        scale[_NORMS] = own[_NORMS]
        return bool((np.abs(others - own) <= share * scale).all(axis=1).any())
