"""Facts and statistics of a tensor in one question to torch, through DLPack's C exchange API (since torch 2.10).

Nearly all tensors of a training on the CPU are answered here; asked for each fact by itself, torch takes longer to
answer than the kernel takes to measure a small tensor.
"""

from __future__ import annotations

from typing import Any

import torch

from msprobe.adapters.pytorch.tensor_memory import PLAIN
from msprobe.core.tensors.dtypes import ALL_DTYPES
from msprobe.native import fused
from msprobe.native.loader import Kernel

_CAPSULE: Any = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
_NAMES = {dtype.code: f"torch.{dtype.name}" for dtype in ALL_DTYPES}
_BYTES = {dtype.code: getattr(torch, dtype.name) for dtype in ALL_DTYPES if dtype.name in ("int8", "uint8")}
"""Integers of fewer bits (torch.int4) say that they are of eight."""


_NO_LIMIT = 1 << 62
"""Bytes from which on the kernel would not measure a tensor by itself."""


class Exchange:
    """Describes tensors with the compiled kernel.

    Args:
        high: Mean and Norm keep float32 or better.
    """

    def __init__(self, kernel: Kernel, high: bool) -> None:
        self._tensor_summary = kernel.tensor_summary
        self._high = high

    @classmethod
    def with_kernel(cls, high: bool) -> Exchange | None:
        """None where there is no kernel, or torch has no such API."""
        return None if fused is None or _CAPSULE is None else cls(fused, high)

    def describe(self, tensor: torch.Tensor) -> dict[str, Any] | None:
        """As ``TensorOps.describe`` with statistics; None for a tensor that has to be looked at more closely."""
        if type(tensor) not in PLAIN or tensor.is_neg():
            return None
        found = self._tensor_summary(_CAPSULE, tensor, self._high, _NO_LIMIT)
        if found is None or (found[0] in _BYTES and tensor.dtype is not _BYTES[found[0]]):
            return None
        code, shape, (largest, least, mean, norm) = found
        return {
            "type": "torch.Tensor",
            "dtype": _NAMES[code],
            "shape": shape,
            "Max": largest,
            "Min": least,
            "Mean": mean,
            "Norm": norm,
            "requires_grad": tensor.requires_grad,
        }
