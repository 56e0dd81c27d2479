"""Statistics by torch's own reductions, for devices and for CPUs without the compiled kernel.

Nothing waits for the device while a tensor is measured: the numbers stay on it as scalars, and ``settle`` brings all
of them to the host in one copy. Max and Min of integers stay integers on the way, as they must be exact. Floats
accumulate in float64 where the device has it, else in float32.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import torch

from msprobe.core.tensors.dtypes import DType, find_dtype
from msprobe.core.tensors.statistics import round_statistic

_F = torch._C._VariableFunctions
_norm = torch._C._linalg.linalg_vector_norm
_NO_FLOAT64 = ("npu", "mps", "xpu")


class DeferredStatistics:
    """Statistics that are being computed: nodes to fill, and the device scalars to fill them with."""

    def __init__(self, high: bool) -> None:
        self._precision: Any = "high" if high else "low"
        self._lock = threading.Lock()
        self._moments: list[tuple[dict[str, Any], DType | None, torch.Tensor]] = []
        self._extremes: list[tuple[dict[str, Any], torch.Tensor]] = []

    def add(self, tensor: torch.Tensor, node: dict[str, Any], repeats: int = 1) -> None:
        """Start measuring a detached, non-empty strided tensor, or one in which each of its elements occurs ``repeats``
        times; ``node`` gets its values at the next ``settle``.
        """
        with torch.no_grad():
            if tensor.dtype is torch.bool:
                extremes = _F.stack([tensor.any(), tensor.all()])
                moments = None
            elif tensor.is_complex() or tensor.is_floating_point():
                extremes = None
                moments = _float_moments(_as_float(tensor), repeats)
            else:
                wide = tensor.to(torch.int64) if tensor.dtype not in (torch.int32, torch.int64) else tensor
                extremes = _F.stack(list(_F.aminmax(wide))[::-1]).to(torch.int64)
                moments = _float_moments(tensor.to(_accumulator(tensor)), repeats)
        with self._lock:
            if extremes is not None:
                self._extremes.append((node, extremes))
            if moments is not None:
                self._moments.append((node, find_dtype(str(tensor.dtype)), moments))

    @property
    def outstanding(self) -> bool:
        """Whether statistics are still on a device."""
        return bool(self._moments or self._extremes)

    def settle(self) -> None:
        """Fetch the statistics that are on devices, and put them into their nodes."""
        with self._lock:
            moments, self._moments = self._moments, []
            extremes, self._extremes = self._extremes, []
        for device in {values.device for *_, values in moments} | {values.device for _, values in extremes}:
            real = [entry for entry in moments if entry[2].device == device]
            whole = [entry for entry in extremes if entry[1].device == device]
            rows, pairs = _fetch_rows([entry[2] for entry in real], [entry[1] for entry in whole])
            for (node, dtype, _), row in zip(real, rows, strict=True):
                self._fill(node, dtype, row)
            for (node, source), (largest, least) in zip(whole, pairs, strict=True):
                as_bool = source.dtype is torch.bool
                node["Max"], node["Min"] = (bool(largest), bool(least)) if as_bool else (largest, least)

    def _fill(self, node: dict[str, Any], dtype: DType | None, row: list[float]) -> None:
        largest, least, mean, norm = row
        node["Max"], node["Min"] = largest, least
        node["Mean"] = mean if dtype is None else round_statistic(mean, dtype, self._precision)
        node["Norm"] = norm if dtype is None else round_statistic(norm, dtype, self._precision)


def _fetch_rows(moments: list[torch.Tensor], extremes: list[torch.Tensor]) -> tuple[list[list[float]], list[list[int]]]:
    """Return the rows of one device after one copy to the host; rows of both kinds are copied as bytes."""
    real = _F.stack(moments) if moments else None
    whole = _F.stack([pair.to(torch.int64) for pair in extremes]) if extremes else None
    if real is None or whole is None:
        return ([] if real is None else real.cpu().tolist()), ([] if whole is None else whole.cpu().tolist())
    host = _F.cat([real.view(torch.uint8).flatten(), whole.view(torch.uint8).flatten()]).cpu()
    split = real.numel() * real.element_size()
    return host[:split].view(real.dtype).view(real.shape).tolist(), host[split:].view(torch.int64).view(-1, 2).tolist()


def _as_float(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128 if tensor.is_cpu else torch.complex64).abs()
    return tensor if tensor.element_size() > 1 else tensor.to(torch.float32)


def _accumulator(tensor: torch.Tensor) -> torch.dtype:
    return torch.float32 if tensor.device.type in _NO_FLOAT64 else torch.float64


def _float_moments(tensor: torch.Tensor, repeats: int) -> torch.Tensor:
    """Return Max, Min, Mean and L2 norm of a float tensor as one tensor of shape (4,) on its device."""
    wide = _accumulator(tensor)
    least, largest = _F.aminmax(tensor)
    mean = _F.sum(tensor, dtype=wide) / tensor.numel()
    norm = _norm(tensor, 2, None, False, dtype=wide)
    return _F.stack([largest.to(wide), least.to(wide), mean, norm * math.sqrt(repeats)])
