"""Compute with numpy the statistics that MindSpore's runtime offers for kernels.

Names and columns are those of the runtime (``statistic_category`` and ``statistic.csv``). Its ``negative zero count``
and ``positive zero count`` count the elements below and above zero.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.tensors.numpy_ops import statistics
from msprobe.core.tensors.statistics import STATISTICS

COLUMNS = {
    "max": "Max Value",
    "min": "Min Value",
    "avg": "Avg Value",
    "l2norm": "L2Norm Value",
    "count": "Count",
    "negative zero count": "Negative Zero Count",
    "zero count": "Zero Count",
    "positive zero count": "Positive Zero Count",
    "nan count": "NaN Count",
    "negative inf count": "Negative Inf Count",
    "positive inf count": "Positive Inf Count",
    "md5": "MD5",
    "hash:md5": "MD5",
    "hash": "SHA1",
    "hash:sha1": "SHA1",
}
_RUNTIME_NAMES = {"mean": "avg"}
HASHES = frozenset({"MD5", "SHA1"})
_HASHES: dict[str, Callable[..., Any]] = {"MD5": hashlib.md5, "SHA1": hashlib.sha1}
_COUNTS: dict[str, Callable[[NDArray[Any]], NDArray[np.bool_]]] = {
    "negative zero count": lambda array: array < 0,
    "zero count": lambda array: array == 0,
    "positive zero count": lambda array: array > 0,
    "nan count": np.isnan,
    "negative inf count": np.isneginf,
    "positive inf count": np.isposinf,
}


def measure(array: NDArray[Any], dtype: str, categories: Sequence[str]) -> dict[str, Any]:
    """Return the value of each category by its column, in the order of ``categories``.

    An empty or complex tensor has no counts but ``count``. A NaN makes Max, Min, Avg and L2Norm NaN.

    Args:
        array: the elements, of any shape; bfloat16 as float32.
        dtype: the tensor's type as MindSpore prints it; hashes are those of the bytes in this type.
        categories: keys of ``COLUMNS``.
    """
    measured = statistics(array, precision="high")
    values: dict[str, Any] = {
        _RUNTIME_NAMES.get(spec.config_name, spec.config_name): value
        for spec, value in zip(STATISTICS, measured, strict=True)
    }
    values["count"] = int(array.size)
    return {
        COLUMNS[name]: values[name] if name in values else _count_or_hash(array, dtype, name) for name in categories
    }


def _count_or_hash(array: NDArray[Any], dtype: str, name: str) -> int | str | None:
    if name in _COUNTS:
        if array.dtype.kind not in "fiub" or array.size == 0:
            return None
        if name.endswith(("nan count", "inf count")) and array.dtype.kind != "f":
            return 0
        return int(np.count_nonzero(_COUNTS[name](array)))
    return str(_HASHES[COLUMNS[name]](_stored_bytes(array, dtype), usedforsecurity=False).hexdigest())


def _stored_bytes(array: NDArray[Any], dtype: str) -> bytes:
    """Return the bytes of the tensor as the framework stores it."""
    if dtype.lower() == "bfloat16" and array.dtype == np.float32:
        return (array.view(np.uint32) >> np.uint32(16)).astype(np.uint16).tobytes()
    return array.tobytes()
