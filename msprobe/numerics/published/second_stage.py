"""The second stage of the published standards: the metrics of one result on two devices, judged by its function.

Each device was compared with the golden result before. By most standards the device under test may be worse than the
other one by a factor; the absolute, the binary and the thousandth standard look at the device under test alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from msprobe.numerics.kinds import Level
from msprobe.numerics.published.categories import Standard, is_eight_bit, limits_of, standard_of
from msprobe.numerics.published.metrics import PublishedMetrics

FLOOR: Mapping[str, float] = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
"""The least metric of the other device that a ratio is taken to."""
FLOOR_OF_OTHERS = 2.0**-14
UNSUPPORTED = frozenset({"float64", "complex64", "complex128"})
"""Dtypes that the second stage does not judge."""
_MEAN_ULPS, _ULP_SHARE, _ULP_SHARE_OF_HALF = 64.0, 0.05, 0.001
_THOUSANDTH = 0.999
_RATIOS = ("small_value_error_share", "rmse", "max_relative_error", "mean_relative_error", "error_balance")
"""The metrics of the standard ``BENCHMARK``, in the order of its limits; the last one is reported only."""


@dataclass(slots=True)
class SecondStage:
    """The judgement of one result.

    Attributes:
        standard: by what it was judged.
        level: None where it cannot be judged.
        metrics: by the name of the metric, its value or its ratio to that of the other device.
        levels: by the name of the metric, its own status.
        message: why it is not ``pass``, or cannot be judged.
    """

    standard: Standard | None
    level: Level | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    levels: dict[str, Level] = field(default_factory=dict)
    message: str = ""

    def conclude(self) -> SecondStage:
        """Take the worst status of the metrics as that of the result."""
        self.level = max(self.levels.values(), default=Level.PASS)
        wrong = [name for name, level in self.levels.items() if level is not Level.PASS]
        self.message = "; ".join(f"{name} is {self.metrics[name]:.6g}" for name in wrong)
        return self


def second_stage(function: str, dtype: str, target: PublishedMetrics, other: PublishedMetrics | None) -> SecondStage:
    """Judge one result.

    Args:
        function: the last part of the name of the function, ``matmul``.
        dtype: the neutral dtype of the result.
        target: its metrics on the device under test.
        other: its metrics on the other device; None where that device has no such result.
    """
    if dtype in UNSUPPORTED:
        return SecondStage(None, message=f"results of {dtype} are not judged by two devices")
    standard = standard_of(function, dtype)
    alone = standard in (Standard.ABSOLUTE, Standard.BINARY, Standard.THOUSANDTH) or is_eight_bit(dtype)
    if other is None and not alone:
        return SecondStage(standard, message="the other device has no such result")
    found = SecondStage(standard)
    if standard is Standard.BENCHMARK and other is not None:
        _benchmark(found, function, dtype, (target, other))
    elif standard is Standard.ULP:
        _ulps(found, dtype, target, other)
    elif standard is Standard.THOUSANDTH:
        if target.share_1000 is not None:
            _add(found, "share_1000", target.share_1000, target.share_1000 > _THOUSANDTH)
    elif standard is Standard.BINARY:
        _at_most(found, "binary_error_rate", target.binary_error_rate, 0.0)
    else:
        for name in ("nonfinite_error_rate", "relative_error_rate", "absolute_error_rate"):
            _at_most(found, name, getattr(target, name), 0.0)
    if not found.levels:
        return SecondStage(standard, message="the table has no metrics of this standard")
    return found.conclude()


def _benchmark(
    found: SecondStage, function: str, dtype: str, metrics: tuple[PublishedMetrics, PublishedMetrics]
) -> None:
    target, other = metrics
    floor = FLOOR.get(dtype, FLOOR_OF_OTHERS)
    limits = (*limits_of(function), math.inf)
    # Of NaN and infinity where the golden result has none, the device may have no more than the other one.
    _at_most(found, "nonfinite_error_rate", target.nonfinite_error_rate, other.nonfinite_error_rate or 0.0)
    for name, limit in zip(_RATIOS, limits, strict=True):
        own, their = getattr(target, name), getattr(other, name)
        if own is not None and their is not None:
            _at_most(found, name, abs(own) / max(abs(their), floor), limit)


def _ulps(found: SecondStage, dtype: str, target: PublishedMetrics, other: PublishedMetrics | None) -> None:
    mean, share = target.mean_ulp_error, target.ulp_share_over_threshold
    if mean is None or share is None:
        return
    their = 0.0 if other is None else other.ulp_share_over_threshold or 0.0
    ratio = share / their if their else (0.0 if not share else math.inf)
    found.metrics.update(mean_ulp_error=mean, ulp_share_over_threshold=share, ulp_share_ratio=ratio)
    if dtype == "float32":
        passes = mean < _MEAN_ULPS or share < _ULP_SHARE or ratio < 1.0
    else:
        passes = share < _ULP_SHARE_OF_HALF or (ratio < 1.0 and not is_eight_bit(dtype))
    _add(found, "ulp_share_over_threshold", share, passes)


def _at_most(found: SecondStage, name: str, value: float | None, limit: float) -> None:
    """Judge a metric that must not be above a limit; NaN is above every one."""
    if value is not None:
        _add(found, name, value, value <= limit)


def _add(found: SecondStage, name: str, value: float, passes: bool) -> None:
    found.metrics[name] = value
    found.levels[name] = Level.PASS if passes else Level.ERROR
