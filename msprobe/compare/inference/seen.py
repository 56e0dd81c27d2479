"""A recorded tensor as inference sees it: shape, statistics, checksum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from msprobe.compare.items import is_shape
from msprobe.compare.recorded_number import as_float
from msprobe.core.tensors.statistics import STATISTIC_NAMES, STATISTICS, ToleranceOf

_DEPTH = 32
CLOSE, APART = 1e-3, 3e-2
_ELEMENTS, _MEANS, _NORMS = (
    [index for index, spec in enumerate(STATISTICS) if spec.tolerance is tolerance] for tolerance in ToleranceOf
)
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
