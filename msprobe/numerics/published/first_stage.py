"""The first stage of the published standards: the status of one result, by its metrics alone.

Cosine first, then the largest absolute error, then the shares of elements with a small relative error. The rules do not
know what a call computes: they pass 5 % noise on values of 1e-5, warn of right results of bfloat16, and only warn of
one NaN in many elements. The policy ``default`` judges by the condition of the call instead (``numerics.conditioned``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from msprobe.core.tensors.dtypes import DType, DtypeKind
from msprobe.numerics.kinds import Level
from msprobe.numerics.published.metrics import PublishedMetrics

COSINE = 0.99
ABSOLUTE = 1e-3
QUANTIZING = frozenset({"npu_rms_norm_dynamic_quant", "npu_dynamic_quant", "npu_quant_lightning_indexer"})
"""Functions of which an integer result may be off by one."""
_HALF = ("float16", "bfloat16")


class FirstStage(NamedTuple):
    """The status of one result, and why it is not ``pass``."""

    level: Level
    message: str = ""


def first_stage(metrics: PublishedMetrics, dtype: DType, *, elements: int, quantizing: bool = False) -> FirstStage:
    """Return the status of a result.

    Args:
        metrics: its metrics.
        dtype: its dtype.
        elements: how many elements it has; the cosine of one element says nothing.
        quantizing: whether the function is one of ``QUANTIZING`` or of the user's list of such functions.
    """
    if dtype.kind in (DtypeKind.BOOL, DtypeKind.INT):
        return _of_integers(metrics, dtype, quantizing)
    cosine, largest = metrics.cosine, metrics.max_absolute_error
    if elements > 1 and cosine is not None and not math.isnan(cosine) and cosine <= COSINE:
        return FirstStage(Level.ERROR, f"cosine {cosine:.6g} is not above {COSINE}")
    if largest is not None and largest < ABSOLUTE:
        return FirstStage(Level.PASS)
    if dtype.name in _HALF:
        steps = ((100, metrics.share_100, Level.ERROR), (1000, metrics.share_1000, Level.WARNING))
    else:
        steps = ((1000, metrics.share_1000, Level.ERROR), (10000, metrics.share_10000, Level.WARNING))
    for number, share, level in steps:
        if share is not None and share <= 1.0 - 1.0 / number:
            return FirstStage(level, f"only {share:.4%} of the elements have a relative error below 1/{number}")
    return FirstStage(Level.PASS)


def _of_integers(metrics: PublishedMetrics, dtype: DType, quantizing: bool) -> FirstStage:
    if not metrics.binary_error_rate:
        return FirstStage(Level.PASS)
    if quantizing and dtype.kind is DtypeKind.INT and (metrics.max_absolute_error or 0.0) <= 1.0:
        return FirstStage(Level.PASS)
    return FirstStage(Level.ERROR, f"{metrics.binary_error_rate:.4%} of the elements differ")
