"""What is known of the results of functions that draw random numbers, and is judged instead of their values.

Two runs draw other numbers, whatever the seed, because devices and dtypes have other generators. So shapes, dtypes and
the places of NaN and infinity are compared. Of dropout more is known: what is left is scaled by 1 / (1 - p), and the
share of zeros is p up to chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from msprobe.core.backend.replaying import Constant, Execution, HeldTensor, PreparedCall, widened
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.numerics.conditioned import OTHER, SAME, Conditioned, by_rounding

DROPOUTS = frozenset({
    "dropout",
    "dropout_",
    "native_dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_dropout",
})
_CHANCE = 6.0
"""Standard deviations that a share of zeros may be off by chance."""
_ENOUGH = 100
"""Elements from which on the share of zeros is looked at."""


def judge_random(call: PreparedCall, target: Execution, golden: Execution) -> Iterator[tuple[int, Conditioned]]:
    """Yield the position of each result with its judgement."""
    for position, (own, other) in enumerate(zip(target.outputs, golden.outputs, strict=False)):
        if own is not None or other is not None:
            yield position, _judged(call, own, other)


def _judged(call: PreparedCall, own: object, other: object) -> Conditioned:
    if not isinstance(own, HeldTensor) or not isinstance(other, HeldTensor):
        return SAME if type(own) is type(other) else OTHER
    if own.values.shape != other.values.shape or own.values.dtype.kind != other.values.dtype.kind:
        return OTHER
    if call.api in DROPOUTS and call.args and isinstance(call.args[0], HeldTensor) and own.values.dtype.kind == "f":
        return _dropout(call, call.args[0], own)
    if own.values.dtype.kind in "fc":
        odd = ~np.isfinite(own.values)
        if odd.any() and not (~np.isfinite(other.values)).any():
            return _at(int(odd.argmax()))
    return SAME


def _dropout(call: PreparedCall, given: HeldTensor, own: HeldTensor) -> Conditioned:
    """Judge dropout: every element is 0 or the scaled input, and zeros are as frequent as they should be."""
    share, training = _argument(call, "p", 1, 0.5), bool(_argument(call, "training", 2, 1.0))
    values, dtype = np.ravel(widened(own.values)), find_dtype(own.dtype)
    assert dtype is not None
    given_values = np.ravel(widened(given.values))
    if given_values.shape != values.shape:
        return OTHER
    if not training or share <= 0.0:
        return by_rounding(values, given_values, dtype)
    scaled = given_values / (1.0 - share) if share < 1.0 else np.zeros_like(given_values)
    kept = values != 0.0
    found = by_rounding(values[kept], scaled[kept], dtype)
    if not found.passes:
        return found
    able = given_values != 0.0
    count = int(able.sum())
    whole_channels = call.api not in ("dropout", "dropout_", "native_dropout")
    if count < _ENOUGH or whole_channels:
        return SAME
    dropped = float(np.mean(values[able] == 0.0))
    return SAME if abs(dropped - share) <= _CHANCE * math.sqrt(share * (1.0 - share) / count) + 1.0 / count else OTHER


def _argument(call: PreparedCall, name: str, position: int, default: float) -> float:
    given = call.kwargs.get(name)
    if given is None and len(call.args) > position:
        given = call.args[position]
    value = given.value if isinstance(given, Constant) else None
    return default if value is None else float(value)


def _at(position: int) -> Conditioned:
    return Conditioned(OTHER.level, OTHER.times, position, OTHER.error)
