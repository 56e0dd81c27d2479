"""Measures tensors for the monitor: the statistics of collection, and counts beside them.

On a CPU a tensor is measured at once: floats by the compiled kernel, or without it by torch's reductions. On a device
its numbers stay there until ``settle`` fetches those of the whole step at once (``float_statistics.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from msprobe.adapters.pytorch.monitor.float_statistics import FloatStatistics, WaitingScalars, host_floats
from msprobe.adapters.pytorch.tensors.memory import PLAIN, address, readable, with_memory, without_repeats
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.core.tensors.statistics import round_statistic
from msprobe.monitor.host_statistics import COUNTS, MEASURED, code_of, host_statistics, is_finite
from msprobe.native.loader import load

Node = dict[str, Any]
Together = dict[tuple[torch.device, torch.dtype], tuple[list[torch.Tensor], list[Node]]]
_FLOATS = {
    dtype: (code, str(dtype))
    for dtype in (torch.float16, torch.bfloat16, torch.float32)
    if (code := code_of(str(dtype))) is not None
}
"""The kernel's code of a dtype, and its name."""

_UNSIGNED = {getattr(torch, name) for name in ("bool", "uint8", "uint16", "uint32", "uint64") if hasattr(torch, name)}
"""Torch takes the magnitude of some of them only."""
_OF_ELEMENTS = MEASURED | set(COUNTS)


class TorchMeter:
    """Implements ``TensorMeter``.

    Args:
        eps: magnitudes below it count as zero.
        rounded: sums are rounded to float32, as the framework itself gives them.
        native: use the compiled kernel where it exists.
    """

    def __init__(self, eps: float, rounded: bool = False, native: bool = True) -> None:
        self._eps = eps
        self._rounded = rounded
        self._ops = TorchTensorOps(precision="high", native=native)
        self._kernel = load() if native else None
        self._scalars = WaitingScalars()
        self._round = _in_float32 if rounded else _as_it_is
        self._floats = FloatStatistics(self._scalars, eps, self._round)

    def measure(self, tensor: Any, needs: frozenset[str]) -> Node:
        """Return the node of a tensor or a number; some of its values follow with ``settle``."""
        return self.measure_all([tensor], needs)[0]

    def measure_all(self, tensors: Sequence[Any], needs: frozenset[str]) -> list[Node]:
        """Return the nodes of tensors or numbers; on a device they are measured with few launches."""
        together: Together = {}
        with torch.no_grad():
            nodes = [self._node(tensor, needs, together) for tensor in tensors]
            for found, theirs in together.values():
                self._floats.add(found, theirs, needs)
        return nodes

    def settle(self) -> None:
        """Complete the nodes of the step."""
        self._ops.settle()
        self._scalars.settle()

    def _node(self, value: Any, needs: frozenset[str], together: Together) -> Node:
        """Return the node of one tensor, or put it into ``together`` where reductions will measure it."""
        tensor = value.detach() if isinstance(value, torch.Tensor) else torch.as_tensor(value)
        if needs.isdisjoint(_OF_ELEMENTS):
            node = self._ops.describe(tensor, False)
        else:
            node = self._in_memory(tensor, needs) or self._not_in_memory(tensor, needs, together)
        node.setdefault("elements", tensor.numel())
        if "id" in needs and tensor.dim() == 0:
            self._scalars.add(tensor.clone(), node, "id")
        return node

    def _not_in_memory(self, tensor: torch.Tensor, needs: frozenset[str], together: Together) -> Node:
        """Return the node of a tensor that the kernel cannot read where it is."""
        plain = self._values(tensor) if self._waits(tensor) else None
        if plain is not None:
            node = self._ops.describe(tensor, False)
            _note_elements(tensor, plain, node)
            found, theirs = together.setdefault((plain.device, plain.dtype), ([], []))
            found.append(plain)
            theirs.append(node)
            return node
        node = self._host_reductions(tensor, needs) or self._ops.describe(tensor, True)
        self._count_values(tensor, node, needs)
        return node

    def _waits(self, tensor: torch.Tensor) -> bool:
        """Return whether numbers of a tensor have to be fetched from a device."""
        return not tensor.is_cpu

    def _values(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the values of a float that has some, each once; None for another tensor."""
        plain = with_memory(tensor) if tensor.dtype in _FLOATS else None
        if plain is None or not plain.numel() or plain.dtype not in _FLOATS or without_repeats(plain)[1] > 1:
            return None
        return plain

    def _in_memory(self, tensor: torch.Tensor, needs: frozenset[str]) -> Node | None:
        """Return the node of a float that the kernel can read where it is, its sums in double; None for another."""
        kernel = self._kernel
        dtype = _FLOATS.get(tensor.dtype)
        if kernel is None or self._rounded or dtype is None or not tensor.numel() or not readable(tensor):
            return None
        node = host_statistics(kernel, (address(tensor), tensor.numel(), dtype[0]), needs)
        node["dtype"], node["shape"] = dtype[1], tuple(tensor.shape)
        self._count_all(tensor, node, needs)
        return node

    def _host_reductions(self, tensor: torch.Tensor, needs: frozenset[str]) -> Node | None:
        """Return the node of a float on the host where there is no kernel; None for another tensor."""
        plain = self._values(tensor) if self._kernel is None else None
        if plain is None or not plain.is_cpu:
            return None
        measured = host_floats(plain, needs)
        for name in measured.keys() & {"Norm", "Mean"}:
            measured[name] = self._round(measured[name], tensor.dtype)
        return {**self._ops.describe(tensor, False), **measured}

    def _count_all(self, tensor: torch.Tensor, node: Node, needs: frozenset[str]) -> None:
        for name in COUNTS:
            if name in needs:
                self._count(tensor, node, name)

    def _count_values(self, tensor: torch.Tensor, node: Node, needs: frozenset[str]) -> None:
        """Count elements of any tensor: of one that is sharded or sparse, among the values that this process holds."""
        is_plain = type(tensor) in PLAIN and tensor.layout is torch.strided
        values = tensor if is_plain or needs.isdisjoint(COUNTS) else with_memory(tensor)
        if values is not None:
            _note_elements(tensor, values, node)
            self._count_all(values, node, needs)

    def _count(self, tensor: torch.Tensor, node: Node, name: str) -> None:
        """Count elements; a finite norm on the CPU says that there is neither a NaN nor an infinity."""
        if not tensor.numel() or (name != "zeros" and tensor.is_cpu and is_finite(node)):
            node[name] = 0
        elif name == "zeros" and self._kernel is not None and tensor.dtype in _FLOATS and readable(tensor):
            pointer, code = address(tensor), _FLOATS[tensor.dtype][0]
            node[name] = self._kernel.small(pointer, tensor.numel(), code, self._eps)
        elif name == "zeros":
            small = tensor.float() if tensor.dtype.itemsize == 1 and tensor.is_floating_point() else tensor
            unsigned = tensor.dtype in _UNSIGNED
            self._scalars.add(((small == 0) if unsigned else (small.abs() < self._eps)).sum(), node, name)
        elif not (tensor.is_floating_point() or tensor.is_complex()):
            node[name] = 0
        else:
            self._scalars.add((torch.isnan(tensor) if name == "nans" else torch.isinf(tensor)).sum(), node, name)


def _note_elements(tensor: torch.Tensor, values: torch.Tensor, node: Node) -> None:
    """Note how many elements a tensor has that this process holds, and how many zeros of a sparse one are not among
    its values."""
    if tensor.layout is torch.sparse_coo:
        node["elements"], node["left_out"] = tensor.numel(), tensor.numel() - values.numel()
    else:
        node["elements"] = values.numel()


def _as_it_is(value: float, dtype: torch.dtype) -> float:
    return value


def _in_float32(value: float, dtype: torch.dtype) -> float:
    found = find_dtype(str(dtype))
    return value if found is None or not math.isfinite(value) else round_statistic(value, found, "high")
