"""Facts and statistics of a tensor in one call, through DLPack's C exchange API (since torch 2.10).

Nearly all tensors of a training on the CPU are described here. Reading every fact from torch by itself takes longer
than the kernel takes to measure a small tensor.
"""

from __future__ import annotations

from typing import Any

import torch

from msprobe.adapters.pytorch.tensor_memory import PLAIN
from msprobe.core.tensors.dtypes import ALL_DTYPES
from msprobe.core.tensors.statistics import set_statistics
from msprobe.native import measuring
from msprobe.native.loader import Kernel

_CAPSULE: Any = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
_DTYPE_NAMES = {dtype.code: f"torch.{dtype.name}" for dtype in ALL_DTYPES}
_BYTES = {dtype.code: getattr(torch, dtype.name) for dtype in ALL_DTYPES if dtype.name in ("int8", "uint8")}
"""Integers of fewer bits (torch.int4) are reported as integers of eight bits."""


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
        """Return a describer; None without a kernel that measures all statistics, or without this API of torch."""
        return None if measuring is None or _CAPSULE is None else cls(measuring, high)

    def describe(self, tensor: torch.Tensor) -> dict[str, Any] | None:
        """Return the record of a tensor with statistics; None for a tensor that this API does not describe."""
        if type(tensor) not in PLAIN or tensor.is_neg():
            return None
        facts = self._tensor_summary(_CAPSULE, tensor, self._high)
        if facts is None or (facts[0] in _BYTES and tensor.dtype is not _BYTES[facts[0]]):
            return None
        code, shape, values = facts
        node: dict[str, Any] = {"type": "torch.Tensor", "dtype": _DTYPE_NAMES[code], "shape": shape}
        set_statistics(node, values)
        node["requires_grad"] = tensor.requires_grad
        return node
