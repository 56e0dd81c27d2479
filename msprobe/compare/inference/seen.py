"""A recorded tensor as inference sees it: shape, statistics, checksum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from msprobe.compare.items import is_shape
from msprobe.compare.recorded_number import as_float

_STATISTICS = ("Max", "Min", "Mean", "Norm")
_DEPTH = 32
CLOSE, APART = 1e-3, 3e-2


class TensorSignature(NamedTuple):
    """Shape, the four statistics (or None where one is missing or not finite) and the checksum (or None)."""

    shape: tuple[int, ...]
    statistics: tuple[float, float, float, float] | None
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
        return self.statistics is not None and self.statistics[0] == self.statistics[1]


def tensor_signatures(node: Any, most: int) -> list[TensorSignature]:
    """The first ``most`` tensors inside a recorded argument, in order; other values are left out."""
    found: list[TensorSignature] = []
    _collect(node, found, most, 0)
    return found


def _collect(node: Any, found: list[TensorSignature], most: int, depth: int) -> None:
    if len(found) >= most or depth > _DEPTH:
        return
    if isinstance(node, Mapping):
        if "type" in node:
            shape = node.get("shape")
            if is_shape(shape):
                found.append(TensorSignature(tuple(shape), _statistics(node), _text(node.get("md5"))))
            return
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            _collect(child, found, most, depth + 1)


def _statistics(raw: Mapping[str, Any]) -> tuple[float, float, float, float] | None:
    largest, smallest, mean, norm = (as_float(raw.get(name)) for name in _STATISTICS)
    return (largest, smallest, mean, norm) if all(map(math.isfinite, (largest, smallest, mean, norm))) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def distance(left: TensorSignature, right: TensorSignature) -> float | None:
    """The largest difference of the statistics relative to the tensor's scale; None when they cannot be compared.

    Largest, smallest and norm are relative to the larger of both sides, the mean to the root mean square.
    """
    if left.statistics is None or right.statistics is None:
        if left.checksum is None or right.checksum is None:
            return None
        return 0.0 if left.checksum == right.checksum else math.inf
    if left.statistics == right.statistics:
        return 0.0
    (high, low, mean, norm), (other_high, other_low, other_mean, other_norm) = left.statistics, right.statistics
    size = max(abs(high), abs(low), abs(other_high), abs(other_low)) or 1e-30
    total = max(abs(norm), abs(other_norm)) or 1e-30
    rms = total / math.sqrt(max(left.numel, 1))
    parts = (abs(high - other_high) / size, abs(low - other_low) / size, abs(mean - other_mean) / rms)
    return max(*parts, abs(norm - other_norm) / total)


def closeness(difference: float) -> float:
    """1 up to a difference of ``CLOSE``, 0 from ``APART`` on, linear in its logarithm between."""
    if difference <= CLOSE:
        return 1.0
    if difference >= APART:
        return 0.0
    return 1.0 - math.log10(difference / CLOSE) / math.log10(APART / CLOSE)
