"""Facts and statistics of a tensor in one question to torch, through DLPack's C exchange API (since torch 2.10).

Nearly all tensors of a training on the CPU are answered here; asked for each fact by itself, torch takes longer to
answer than the kernel takes to measure a small tensor.
"""

from __future__ import annotations

from typing import Any

import torch

from msprobe.adapters.pytorch.measured_once import LARGE, MeasuredOnce
from msprobe.adapters.pytorch.tensor_memory import PLAIN
from msprobe.core.tensors.dtypes import ALL_DTYPES
from msprobe.core.tensors.statistics import set_statistics
from msprobe.native import measuring
from msprobe.native.loader import Kernel

_CAPSULE: Any = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
_DTYPE_NAMES = {dtype.code: f"torch.{dtype.name}" for dtype in ALL_DTYPES}
_BYTES = {dtype.code: getattr(torch, dtype.name) for dtype in ALL_DTYPES if dtype.name in ("int8", "uint8")}
"""Integers of fewer bits (torch.int4) say that they are of eight."""


class DlpackDescriber:
    """Describes tensors with the compiled kernel.

    Args:
        once: remembers what large tensors measured.
        high: Mean and Norm keep float32 or better.
    """

    def __init__(self, kernel: Kernel, once: MeasuredOnce, high: bool) -> None:
        self._tensor_summary = kernel.tensor_summary
        self._summary = kernel.summary
        self._once = once
        self._high = high

    @classmethod
    def with_kernel(cls, once: MeasuredOnce, high: bool) -> DlpackDescriber | None:
        """None where there is no kernel, or torch has no such API."""
        return None if measuring is None or _CAPSULE is None else cls(measuring, once, high)

    def describe(self, tensor: torch.Tensor) -> dict[str, Any] | None:
        """As ``TensorOps.describe`` with statistics; None for a tensor that has to be looked at more closely."""
        if type(tensor) not in PLAIN or tensor.is_neg():
            return None
        facts = self._tensor_summary(_CAPSULE, tensor, self._high, LARGE)
        if facts is None or (facts[0] in _BYTES and tensor.dtype is not _BYTES[facts[0]]):
            return None
        if len(facts) == 3:
            code, shape, values = facts
        else:
            code, shape, pointer, elements = facts
            span = pointer, elements, code
            values = self._once.measure(tensor, span, self._summary, self._high)
        node: dict[str, Any] = {"type": "torch.Tensor", "dtype": _DTYPE_NAMES[code], "shape": shape}
        set_statistics(node, values)
        node["requires_grad"] = tensor.requires_grad
        return node
