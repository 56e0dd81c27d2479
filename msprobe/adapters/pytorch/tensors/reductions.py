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
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import torch

from msprobe.adapters.pytorch.tensors.memory import WithoutAutograd, with_memory, without_repeats
from msprobe.core.interruption import let_through
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


Write = Callable[[dict[str, Any], Sequence[Any], Precision], None]
"""Writes a record, given its node, the numbers of its scalars and the precision."""


class MeasuredOnDevice(NamedTuple):
    """What a device is computing of one tensor.

    Attributes:
        scalars: tensors of one element, which stay on the device.
        write: writes the record, given its node, the numbers of the scalars and the precision.
    """

    scalars: tuple[torch.Tensor, ...]
    write: Write

    @property
    def device(self) -> torch.device:
        """The device of the tensor."""
        return self.scalars[0].device


def measure(tensor: torch.Tensor, repeats: int = 1) -> MeasuredOnDevice:
    """Start to measure a tensor that is detached, strided and not empty; the host does not wait.

    What can be computed from single numbers is left to the host, because each operation on a device costs a launch.

    Args:
        tensor: the tensor.
        repeats: how often each of its elements occurs in the tensor that is recorded.
    """
    with WithoutAutograd():
        if tensor.dtype is torch.bool:
            return MeasuredOnDevice((tensor.any(), tensor.all()), _write_truths)
        if tensor.is_complex() or tensor.is_floating_point():
            source = extremes_of = _as_float(tensor)
        else:  # torch has no extremes of unsigned integers
            source = tensor.to(accumulator(tensor))
            extremes_of = tensor if tensor.dtype in (torch.int32, torch.int64) else tensor.to(torch.int64)
        least, largest = _F.aminmax(extremes_of)
        sums = _sums_on_device(source)
        dtype = find_dtype(str(tensor.dtype))
        return MeasuredOnDevice((largest, least, *sums), partial(_write_moments, dtype, source.numel(), repeats))


def _sums_on_device(source: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum and the L2 norm of the elements as scalars; few elements at a time are widened."""
    wide = accumulator(source)
    if source.numel() <= _WIDENED:
        source = source.to(wide)
        return _F.sum(source), _norm(source, 2, None, False)
    parts = [_sums_on_device(piece) for piece in _F.split(source.reshape(-1), _WIDENED)]
    totals, norms = (_F.stack(column) for column in zip(*parts, strict=True))
    return _F.sum(totals), _norm(norms, 2, None, False)


def _write_truths(node: dict[str, Any], numbers: Sequence[Any], precision: Precision) -> None:
    node["Max"], node["Min"] = numbers


def _write_moments(
    dtype: DType | None, elements: int, repeats: int, node: dict[str, Any], numbers: Sequence[Any], precision: Precision
) -> None:
    """Write extremes, mean and norm; the numbers are the extremes, the sum and the norm."""
    largest, least, total, norm = numbers
    values = RawStats(largest, least, total / elements, norm * math.sqrt(repeats))
    for spec, value in zip(STATISTICS, values, strict=True):
        if dtype is not None and spec.tolerance is not ToleranceOf.ELEMENT:
            value = round_statistic(value, dtype, precision)
        node[spec.name] = value


class Rows(NamedTuple):
    """Numbers of several tensors in the memory of one device, and the records to fill with them.

    Attributes:
        values: the bytes of the numbers, those of one dtype after those of another.
        groups: the dtypes, the widest first, and how many numbers there are of each.
        records: for each tensor its record, the function that writes it, and the places of its numbers.
    """

    values: torch.Tensor
    groups: Sequence[tuple[torch.dtype, int]]
    records: Sequence[tuple[dict[str, Any], Write, Sequence[int]]]

    @classmethod
    def of(cls, measured: Sequence[tuple[dict[str, Any], MeasuredOnDevice]]) -> Rows | None:
        """Return the numbers of tensors of one device, packed there; None where there are none.

        Args:
            measured: for each tensor its record and what was measured.
        """
        if not measured:
            return None
        by_dtype: dict[torch.dtype, list[torch.Tensor]] = {}
        places = [[_append(by_dtype, one) for one in row.scalars] for _, row in measured]
        ordered = sorted(by_dtype, key=lambda dtype: -dtype.itemsize)  # so that each begins at a multiple of its size
        begins, total = {}, 0
        for dtype in ordered:
            begins[dtype] = total
            total += len(by_dtype[dtype])
        parts = [_F.stack(by_dtype[dtype]).view(torch.uint8) for dtype in ordered]
        records = [  # without the scalars, whose memory is free from now on
            (node, row.write, [begins[one.dtype] + place for one, place in zip(row.scalars, row_places, strict=True)])
            for (node, row), row_places in zip(measured, places, strict=True)
        ]
        groups = [(dtype, len(by_dtype[dtype])) for dtype in ordered]
        return cls(_F.cat(parts) if len(parts) > 1 else parts[0], groups, records)

    def with_records(self, copy_of: Callable[[dict[str, Any]], dict[str, Any]]) -> Rows:
        """Return the present numbers, in memory of their own, for copies of the records."""
        with WithoutAutograd():
            values = self.values.clone()
        return Rows(values, self.groups, [(copy_of(node), write, places) for node, write, places in self.records])

    def fill(self, host: torch.Tensor, precision: Precision) -> None:
        """Fill the records with ``host``, which is a copy of ``values`` in host memory."""
        numbers: list[Any] = []
        begin = 0
        for dtype, count in self.groups:
            end = begin + count * dtype.itemsize
            numbers += host[begin:end].view(dtype).tolist()
            begin = end
        for node, write, places in self.records:
            write(node, [numbers[place] for place in places], precision)


def _append(lists: dict[torch.dtype, list[torch.Tensor]], scalar: torch.Tensor) -> int:
    """Append a scalar to the list of its dtype and return its place there."""
    same = lists.setdefault(scalar.dtype, [])
    same.append(scalar.view(()))
    return len(same) - 1


class DeferredStatistics:
    """Statistics that a device is computing: records to fill, and the device scalars to fill them with.

    The thread that fetches them may work on another stream than the program, so it waits for the streams that compute.
    """

    def __init__(self, high: bool) -> None:
        self._precision: Precision = "high" if high else "low"
        self._lock = threading.Lock()
        self._measured: list[tuple[dict[str, Any], MeasuredOnDevice]] = []
        self._rows: list[Rows] = []
        self._streams: set[Any] = set()

    def add(self, tensor: torch.Tensor, node: dict[str, Any], repeats: int = 1) -> None:
        """Start to measure a tensor; the next ``settle`` fills its record.

        Args:
            tensor: detached, strided and not empty.
            node: the record to fill.
            repeats: how often each of its elements occurs in the tensor that is recorded.
        """
        self.add_measured(node, measure(tensor, repeats))

    def add_measured(self, node: dict[str, Any], measured: MeasuredOnDevice) -> None:
        """Fill a record with numbers that the current stream computes, at the next ``settle``."""
        with self._lock:
            self._measured.append((node, measured))
            self._note_stream(measured.device)

    def add_rows(self, rows: Rows) -> None:
        """Fill the records of ``rows``, which the current stream computes, at the next ``settle``."""
        with self._lock:
            self._rows.append(rows)
            self._note_stream(rows.values.device)

    def _note_stream(self, device: torch.device) -> None:
        """Note the stream that computes what was added: ``settle`` waits for it."""
        stream = _current_stream(device)
        if stream is not None:
            self._streams.add(stream)

    @property
    def outstanding(self) -> bool:
        """Return whether records wait for ``settle``."""
        return bool(self._measured or self._rows)

    def settle(self) -> None:
        """Fill all pending records, with one copy per device."""
        with self._lock:
            measured, self._measured = self._measured, []
            rows, self._rows = self._rows, []
            streams, self._streams = self._streams, set()
        for stream in streams:
            if (present := _current_stream(stream.device)) != stream:
                present.wait_stream(stream)
        for device in {entry[1].device for entry in measured} | {entry.values.device for entry in rows}:
            here = Rows.of([entry for entry in measured if entry[1].device == device])
            parts = [*([] if here is None else [here]), *(entry for entry in rows if entry.values.device == device)]
            host = (parts[0].values if len(parts) == 1 else _F.cat([part.values for part in parts])).cpu()
            for part, values in zip(parts, host.split([part.values.numel() for part in parts]), strict=True):
                part.fill(values if len(parts) == 1 else values.clone(), self._precision)  # a clone is aligned


def _current_stream(device: torch.device) -> Any:
    """Return the stream of this thread on a device; None where the device has no streams."""
    if device.type == "cpu":  # torch.cpu has streams by name only
        return None
    module: Any = getattr(torch, device.type, None)
    return module.current_stream(device) if hasattr(module, "current_stream") else None


def _as_float(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128 if tensor.is_cpu else torch.complex64).abs()
    return tensor if tensor.element_size() > 1 else tensor.to(torch.float32)


def accumulator(tensor: torch.Tensor) -> torch.dtype:
    """Return the dtype in which sums are accumulated on the device of a tensor."""
    return torch.float32 if tensor.device.type in _NO_FLOAT64 else torch.float64


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
    total, squares = sums(source)
    count = source.numel()
    if _SAFE_SQUARES[0] < squares < _SAFE_SQUARES[1]:
        raw = RawStats(largest, least, total / count, math.sqrt(squares))
    else:
        raw = RawStats(largest, least, *_scaled(source, max(abs(largest), abs(least)), total, squares))
    return finish(raw, dtype, precision)


def sums(flat: torch.Tensor, total_too: bool = True) -> tuple[float, float]:
    """Return sum (0.0 where it is not wanted) and sum of squares of a tensor of one dimension, in float64."""
    total = squares = 0.0
    for piece in (flat,) if flat.numel() <= _PIECE else _F.split(flat, _PIECE):
        wide = _to(piece, torch.float64)
        total += _item(_F.sum(wide)) if total_too else 0.0
        squares += _item(_F.dot(wide, wide))
    return total, squares


def _scaled(source: torch.Tensor, magnitude: float, total: float, squares: float) -> tuple[float, float]:
    """Return mean and norm when squares may leave the range of float64: elements are divided by a power of two."""
    count = source.numel()
    if source.dtype is not torch.float64 or not 0 < magnitude < math.inf:
        return total / count, math.sqrt(squares)
    scale = 2.0 ** max(math.frexp(magnitude)[1] - 1, -1000)
    total, squares = sums(_F.div(source, scale))
    return total / count * scale, math.sqrt(squares) * scale


class Projector:
    """Computes projections: at once on the CPU, at the next ``settle`` of ``deferred`` on a device."""

    def __init__(self, kernel: Kernel | None, deferred: DeferredStatistics) -> None:
        self._kernel = kernel
        self._deferred = deferred

    def project(self, tensor: torch.Tensor, node: dict[str, Any]) -> None:
        """Write the projection into the record ``node``, now or at the next ``settle``; None without numbers."""
        node[KEY] = None
        plain = with_memory(tensor)
        if plain is None or plain.numel() == 0 or without_repeats(plain)[1] > 1:
            return
        try:
            with WithoutAutograd():
                if plain.is_cpu:
                    node[KEY] = self._on_host(plain.contiguous())
                else:
                    self._deferred.add_measured(node, device_projection(plain))
        except (RuntimeError, TypeError) as error:  # torch has no arithmetic for this dtype
            let_through(error)
            return

    def _on_host(self, plain: torch.Tensor) -> float | None:
        dtype = find_dtype(str(plain.dtype))
        if self._kernel is not None and dtype is not None and dtype.code >= 0:
            return cast(float, self._kernel.summary(plain.data_ptr(), plain.numel(), dtype.code, False, True)[-1])
        real = plain.to(torch.complex128).abs() if plain.is_complex() else plain
        return projection(real.to(torch.float64).numpy())


def device_projection(plain: torch.Tensor) -> MeasuredOnDevice:
    """Start to compute the projection of a detached, non-empty tensor: of whole blocks, and of what follows them."""
    wide = accumulator(plain)
    source = plain.reshape(-1)
    count = -(-source.numel() // BLOCK)
    places, blocks = _weights(str(plain.device), wide, count)
    sums, factors = [], []
    for start in range(0, source.numel(), _WIDENED):  # few elements at a time: they take up to eight times their memory
        flat = _as_float(source[start : start + _WIDENED]).to(wide)
        whole = flat.numel() // BLOCK
        if whole:
            of_blocks = blocks[start // BLOCK : start // BLOCK + whole]
            sums.append(_F.dot(_F.mv(flat[: whole * BLOCK].view(-1, BLOCK), places), of_blocks))
            factors.append(1.0)
        if whole * BLOCK < flat.numel():
            sums.append(_F.dot(flat[whole * BLOCK :], places[: flat.numel() - whole * BLOCK]))
            factors.append(float(block_weights(count)[-1]))
    return MeasuredOnDevice(tuple(sums), partial(_write_projection, factors))


def _write_projection(
    factors: Sequence[float], node: dict[str, Any], numbers: Sequence[Any], precision: Precision
) -> None:
    """Write the sum of the numbers, each times its factor."""
    node[KEY] = sum(number * factor for number, factor in zip(numbers, factors, strict=True))


@lru_cache(maxsize=64)
def _weights(device: str, dtype: torch.dtype, blocks: int) -> tuple[torch.Tensor, torch.Tensor]:
    tables = (position_weights(), block_weights(blocks))
    first, second = (torch.from_numpy(table.copy()).to(dtype).to(device) for table in tables)
    return first, second
