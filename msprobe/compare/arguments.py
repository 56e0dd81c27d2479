"""Whether two arguments that are no tensors are the same: numbers up to rounding, devices by kind, dtypes by name."""

from __future__ import annotations

import math
from typing import Any

from msprobe.core.tensors.dtypes import same_dtype

_IGNORED = frozenset({"group_id", "requires_grad", "data_name", "md5"})
_DEVICE_TYPES = ("cpu", "cuda", "npu", "meta", "mps", "xpu")
_SCALAR_NOISE = 4e-6


def argument_differs(ours: Any, theirs: Any) -> bool:
    """Whether two recorded arguments, neither of them a pair of tensors, differ."""
    if type(ours) is dict and type(theirs) is dict:
        if _same_dtype(ours.get("value"), theirs.get("value")):
            return False
        if ours.get("type") != theirs.get("type"):
            return True
        left = {key: value for key, value in ours.items() if key not in _IGNORED}
        right = {key: value for key, value in theirs.items() if key not in _IGNORED}
        return left.keys() != right.keys() or any(_value_differs(left[key], right[key]) for key in left)
    return _value_differs(ours, theirs)


def _value_differs(left: Any, right: Any) -> bool:
    if type(left) is float and type(right) is float:
        if left != left or right != right:
            return not (left != left and right != right)
        return not math.isclose(left, right, rel_tol=_SCALAR_NOISE)
    if type(left) is str and type(right) is str and left.split(":")[0] in _DEVICE_TYPES:
        return right.split(":")[0] not in _DEVICE_TYPES
    return type(left) is not type(right) or bool(left != right)


def _same_dtype(left: Any, right: Any) -> bool:
    """``Float32`` and ``torch.float32`` given as an argument."""
    return type(left) is str and type(right) is str and left != right and same_dtype(left, right)
