"""Statistics of a CPU tensor by torch's own reductions: what runs where the compiled kernel is missing.

The numbers are plain Python values at once: on the CPU there is nothing to wait for, and four scalars cost less than a
tensor of four. Sums and squares are taken in float64 from one conversion, piece by piece so that a piece is still in
the processor's cache for the second sum. Sums in float32 would be twice as fast and wrong where they matter most: the
mean of a gradient is what is left when its elements cancel.
"""

from __future__ import annotations

import math

import torch

from msprobe.core.tensors.dtypes import DType, Kind
from msprobe.core.tensors.statistics import Precision, RawStats, TensorStats, finish

_F = torch._C._VariableFunctions
_to = torch._C.TensorBase.to
_item = torch._C.TensorBase.item
_view = torch._C.TensorBase.view
_PIECE = 1 << 18  # elements, 2 MB of float64
_NO_EXTREMES = ("uint16", "uint32", "uint64")  # torch has no reductions for them
_SAFE_SQUARES = (1e-290, 1e290)


def host_statistics(tensor: torch.Tensor, dtype: DType, precision: Precision) -> TensorStats:
    """Return the statistics of a detached, non-empty, contiguous CPU tensor of ``dtype``.

    They are defined in ``core.tensors.statistics``.
    """
    if dtype.kind is Kind.BOOL:
        low, high = _F.aminmax(_view(tensor, torch.uint8))  # forty times faster than any() and all()
        return TensorStats(bool(_item(high)), bool(_item(low)))
    source = tensor.reshape(-1) if tensor.dim() != 1 else tensor
    if dtype.kind is Kind.COMPLEX:
        source = _to(source, torch.complex128).abs()
    elif dtype.kind is Kind.FLOAT and dtype.itemsize == 1:
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
    """Sum and sum of squares in float64."""
    total = squares = 0.0
    for piece in (flat,) if flat.numel() <= _PIECE else _F.split(flat, _PIECE):
        wide = _to(piece, torch.float64)
        total += _item(_F.sum(wide))
        squares += _item(_F.dot(wide, wide))
    return total, squares


def _scaled(source: torch.Tensor, magnitude: float, total: float, squares: float) -> tuple[float, float]:
    """Mean and norm where squares of float64 may have left the range: of the elements divided by the largest."""
    count = source.numel()
    if source.dtype is not torch.float64 or not 0 < magnitude < math.inf:
        return total / count, math.sqrt(squares)
    scale = 2.0 ** max(math.frexp(magnitude)[1] - 1, -1000)
    total, squares = _sums(_F.div(source, scale))
    return total / count * scale, math.sqrt(squares) * scale
