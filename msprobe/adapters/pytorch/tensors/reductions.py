"""Statistics and projections by torch's own reductions, for devices and for CPUs without the compiled kernel.

Devices (``DeferredStatistics``, ``device_projection``): nothing waits for the device while a tensor is measured. The
numbers stay on it as scalars, and ``settle`` copies all of them to the host at once. Max and Min of integers stay
integers, because they must be exact. Floats accumulate in float64 where the device has it, else in float32, with fewer
correct digits.

CPU (``host_statistics``): the numbers are plain Python values at once, because there is nothing to wait for, and single
scalars cost less than a tensor of them. Sums and squares are computed in float64 from one conversion, piece by piece,
so that a piece is still in the processor's cache for the second sum. Sums in float32 would be twice as fast and wrong
where they matter most: the mean of a gradient is what is left when its elements cancel.

``Projector`` computes the projection of a tensor: by the compiled kernel on the CPU, by one matrix product on a device.
"""

from __future__ import annotations

import math
import threading
from functools import lru_cache
from typing import Any, cast

import torch

from msprobe.adapters.pytorch.tensors.memory import with_memory, without_repeats
from msprobe.core.tensors.dtypes import DType, DtypeKind, find_dtype
from msprobe.core.tensors.projection import BLOCK, KEY, block_weights, position_weights, projection
from msprobe.core.tensors.statistics import (
    STATISTICS,
    Precision,
    RawStats,
    TensorStats,
    ToleranceOf,
    finish,
    round_statistic,
)
from msprobe.native.loader import Kernel

_F = torch._C._VariableFunctions
_norm = torch._C._linalg.linalg_vector_norm
_to = torch._C.TensorBase.to
_item = torch._C.TensorBase.item
_view = torch._C.TensorBase.view
_NO_FLOAT64 = ("npu", "mps", "xpu")
_PIECE = 1 << 18  # elements, 2 MB of float64
_WIDENED = 1 << 22  # elements, 32 MB of float64
_NO_EXTREMES = ("uint16", "uint32", "uint64")  # torch has no reductions for them
_SAFE_SQUARES = (1e-290, 1e290)


class DeferredStatistics:
    """Statistics that a device is computing: records to fill, and the device scalars to fill them with."""

    def __init__(self, high: bool) -> None:
        self._precision: Any = "high" if high else "low"
        self._lock = threading.Lock()
        self._moments: list[tuple[dict[str, Any], DType | None, torch.Tensor]] = []
        self._extremes: list[tuple[dict[str, Any], torch.Tensor]] = []

    def add(self, tensor: torch.Tensor, node: dict[str, Any], repeats: int = 1) -> None:
        """Start to measure a tensor; the next ``settle`` fills its record.

        Args:
            tensor: detached, strided and not empty.
            node: the record to fill.
            repeats: how often each of its elements occurs in the tensor that is recorded.
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
        """Return whether records wait for ``settle``."""
        return bool(self._moments or self._extremes)

    def settle(self) -> None:
        """Fill all pending records, with one copy per device."""
        with self._lock:
            moments, self._moments = self._moments, []
            extremes, self._extremes = self._extremes, []
        for device in {values.device for *_, values in moments} | {values.device for _, values in extremes}:
            real = [entry for entry in moments if entry[2].device == device]
            whole = [entry for entry in extremes if entry[1].device == device]
            rows, pairs = _to_host([entry[2] for entry in real], [entry[1] for entry in whole])
            for (node, dtype, _), row in zip(real, rows, strict=True):
                self._fill(node, dtype, row)
            for (node, source), (largest, least) in zip(whole, pairs, strict=True):
                as_bool = source.dtype is torch.bool
                node["Max"], node["Min"] = (bool(largest), bool(least)) if as_bool else (largest, least)

    def _fill(self, node: dict[str, Any], dtype: DType | None, row: list[float]) -> None:
        for spec, value in zip(STATISTICS, row, strict=True):
            if dtype is not None and spec.tolerance is not ToleranceOf.ELEMENT:
                value = round_statistic(value, dtype, self._precision)
            node[spec.name] = value


def _to_host(moments: list[torch.Tensor], extremes: list[torch.Tensor]) -> tuple[list[list[float]], list[list[int]]]:
    """Copy the rows of one device to the host at once; rows of both kinds are copied as bytes."""
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
    """Return the statistics of a float tensor, in table order, as a vector on its device."""
    wide = _accumulator(tensor)
    least, largest = _F.aminmax(tensor)
    mean = _F.sum(tensor, dtype=wide) / tensor.numel()
    norm = _norm(tensor, 2, None, False, dtype=wide)
    return _F.stack([largest.to(wide), least.to(wide), mean, norm * math.sqrt(repeats)])


def host_statistics(tensor: torch.Tensor, dtype: DType, precision: Precision) -> TensorStats:
    """Return the statistics of a detached, non-empty, contiguous CPU tensor of ``dtype``.

    They are defined in ``core.tensors.statistics``.
    """
    if dtype.kind is DtypeKind.BOOL:
        low, high = _F.aminmax(_view(tensor, torch.uint8))  # forty times faster than any() and all()
        return TensorStats(bool(_item(high)), bool(_item(low)))
    source = tensor.reshape(-1) if tensor.dim() != 1 else tensor
    if dtype.kind is DtypeKind.COMPLEX:
        source = _to(source, torch.complex128).abs()
    elif dtype.kind is DtypeKind.FLOAT and dtype.itemsize == 1:
        source = _to(source, torch.float32)
    if dtype.name in _NO_EXTREMES:
        array = source.numpy()
        least, largest = int(array.min()), int(array.max())
    else:
        low, high = _F.aminmax(source)
        least, largest = _item(low), _item(high)
    total, squares = _sums(source)
    count = source.numel()
    if _SAFE_SQUARES[0] < squares < _SAFE_SQUARES[1]:
        raw = RawStats(largest, least, total / count, math.sqrt(squares))
    else:
        raw = RawStats(largest, least, *_scaled(source, max(abs(largest), abs(least)), total, squares))
    return finish(raw, dtype, precision)


def _sums(flat: torch.Tensor) -> tuple[float, float]:
    """Return sum and sum of squares in float64."""
    total = squares = 0.0
    for piece in (flat,) if flat.numel() <= _PIECE else _F.split(flat, _PIECE):
        wide = _to(piece, torch.float64)
        total += _item(_F.sum(wide))
        squares += _item(_F.dot(wide, wide))
    return total, squares


def _scaled(source: torch.Tensor, magnitude: float, total: float, squares: float) -> tuple[float, float]:
    """Return mean and norm when squares may leave the range of float64: elements are divided by a power of two."""
    count = source.numel()
    if source.dtype is not torch.float64 or not 0 < magnitude < math.inf:
        return total / count, math.sqrt(squares)
    scale = 2.0 ** max(math.frexp(magnitude)[1] - 1, -1000)
    total, squares = _sums(_F.div(source, scale))
    return total / count * scale, math.sqrt(squares) * scale


class Projector:
    """Computes projections: at once on the CPU, at the next ``settle`` on a device."""

    def __init__(self, kernel: Kernel | None) -> None:
        self._kernel = kernel
        self._lock = threading.Lock()
        self._pending: list[tuple[dict[str, Any], torch.Tensor]] = []

    @property
    def outstanding(self) -> bool:
        """Return whether records wait for ``settle``."""
        return bool(self._pending)

    def project(self, tensor: torch.Tensor, node: dict[str, Any]) -> None:
        """Write the projection into the record ``node``, now or at the next ``settle``; None without numbers."""
        node[KEY] = None
        plain = with_memory(tensor)
        if plain is None or plain.numel() == 0 or without_repeats(plain)[1] > 1:
            return
        try:
            with torch.no_grad():
                if plain.is_cpu:
                    node[KEY] = self._on_host(plain.contiguous())
                    return
                scalar = device_projection(plain)
        except (RuntimeError, TypeError):  # torch has no arithmetic for this dtype
            return
        with self._lock:
            self._pending.append((node, scalar))

    def settle(self) -> None:
        """Fill all pending records, with one copy per device."""
        with self._lock:
            pending, self._pending = self._pending, []
        for device in {scalar.device for _, scalar in pending}:
            group = [(node, scalar) for node, scalar in pending if scalar.device == device]
            for (node, _), value in zip(group, _F.stack([scalar for _, scalar in group]).cpu().tolist(), strict=True):
                node[KEY] = value

    def _on_host(self, plain: torch.Tensor) -> float | None:
        dtype = find_dtype(str(plain.dtype))
        if self._kernel is not None and dtype is not None and dtype.code >= 0:
            return cast(float, self._kernel.summary(plain.data_ptr(), plain.numel(), dtype.code, False, True)[-1])
        real = plain.to(torch.complex128).abs() if plain.is_complex() else plain
        return projection(real.to(torch.float64).numpy())


def device_projection(plain: torch.Tensor) -> torch.Tensor:
    """Return the projection of a detached, non-empty tensor as a scalar on its device."""
    wide = _accumulator(plain)
    source = plain.reshape(-1)
    places, blocks = _weights(str(plain.device), wide, -(-source.numel() // BLOCK))
    total = _F.zeros((), dtype=wide, device=plain.device)
    for start in range(0, source.numel(), _WIDENED):  # few elements at a time: they take up to eight times their memory
        flat = _as_float(source[start : start + _WIDENED]).to(wide)
        factors = blocks[start // BLOCK : (start + _WIDENED) // BLOCK]
        whole = flat.numel() // BLOCK
        total = total + _F.dot(_F.mv(flat[: whole * BLOCK].view(-1, BLOCK), places), factors[:whole])
        if whole * BLOCK < flat.numel():
            total = total + _F.dot(flat[whole * BLOCK :], places[: flat.numel() - whole * BLOCK]) * factors[-1]
    return total


@lru_cache(maxsize=64)
def _weights(device: str, dtype: torch.dtype, blocks: int) -> tuple[torch.Tensor, torch.Tensor]:
    tables = (position_weights(), block_weights(blocks))
    first, second = (torch.from_numpy(table.copy()).to(dtype).to(device) for table in tables)
    return first, second
