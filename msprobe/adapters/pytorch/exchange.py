"""Facts and statistics of a tensor in one call to torch, through DLPack's C exchange API (since torch 2.10).

Nearly all tensors of a training on the CPU are described here. One call for each fact takes longer than the kernel
takes to measure a small tensor.
"""

from __future__ import annotations

from typing import Any

import torch

from msprobe.adapters.pytorch.tensor_memory import PLAIN
from msprobe.core.tensors.dtypes import ALL_DTYPES
from msprobe.native import fused
from msprobe.native.loader import Kernel

_EXCHANGE_API: Any = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
_DTYPE_NAMES = {dtype.code: f"torch.{dtype.name}" for dtype in ALL_DTYPES}
_BYTE_DTYPES = {dtype.code: getattr(torch, dtype.name) for dtype in ALL_DTYPES if dtype.name in ("int8", "uint8")}
"""Integers of fewer bits (torch.int4) have the code of eight bits."""


_NO_LIMIT = 1 << 62
"""Bytes from which on the kernel would not measure a tensor by itself."""


class DlpackDescriber:
    """Describes tensors with the compiled kernel.

    Args:
        high: Mean and Norm keep float32 or better.
    """

    def __init__(self, kernel: Kernel, high: bool) -> None:
        self._tensor_summary = kernel.tensor_summary
        self._high = high

    @classmethod
    def with_kernel(cls, high: bool) -> DlpackDescriber | None:
        """Return a describer; None where there is no kernel, or torch has no such API."""
        return None if fused is None or _EXCHANGE_API is None else cls(fused, high)

    def describe(self, tensor: torch.Tensor) -> dict[str, Any] | None:
        """Return the node of a tensor with statistics; None for one that the kernel cannot read as it is."""
        if type(tensor) not in PLAIN or tensor.is_neg():
            return None
        summary = self._tensor_summary(_EXCHANGE_API, tensor, self._high, _NO_LIMIT)
        if (
            summary is None
            or len(summary) != 3
            or (summary[0] in _BYTE_DTYPES and tensor.dtype is not _BYTE_DTYPES[summary[0]])
        ):
            return None
        code, shape, (largest, least, mean, norm) = summary
        return {
            "type": "torch.Tensor",
            "dtype": _DTYPE_NAMES[code],
            "shape": shape,
            "Max": largest,
            "Min": least,
            "Mean": mean,
            "Norm": norm,
            "requires_grad": tensor.requires_grad,
        }
