"""Statistics of floats by torch's own reductions, where no compiled kernel reads them: devices, and CPUs without it.

On a device each launch costs as much as measuring a small tensor. So nothing is computed that was not asked for, one
launch takes the norms of many tensors, and all numbers stay on the device until ``settle`` copies them at once.
On a CPU (``host_floats``) nothing has to wait, and a conversion to float64 piece by piece is the fastest way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import torch

from msprobe.adapters.pytorch.tensors.reductions import DeferredStatistics, MeasuredOnDevice, Rows, accumulator, sums
from msprobe.core.interruption import let_through
from msprobe.core.tensors.statistics import Precision
from msprobe.monitor.host_statistics import COUNTS

Node = dict[str, Any]
Finish = Callable[[Any], Any]
_F = torch._C._VariableFunctions
_norm = torch._C._linalg.linalg_vector_norm
_MOST_LOOSE: Final = 4096
_EXTREMES: Final = ("Max", "Min")


class WaitingScalars:
    """Tensors without dimensions, and the nodes that get their values with one copy from each device."""

    def __init__(self) -> None:
        self._deferred = DeferredStatistics(high=True)
        self._loose: dict[torch.device, list[tuple[Node, MeasuredOnDevice]]] = {}

    def add(self, value: torch.Tensor, node: Node, name: str, finish: Finish | None = None) -> None:
        """Put the value into a node with the next ``settle``, as ``finish`` turns it; it is None until then."""
        node[name] = None
        loose = self._loose.setdefault(value.device, [])
        loose.append((node, MeasuredOnDevice((value,), partial(_write, name, finish))))
        if len(loose) >= _MOST_LOOSE:
            self._pack(loose)

    def settle(self) -> None:
        """Complete all nodes."""
        for loose in self._loose.values():
            self._pack(loose)
        self._deferred.settle()

    def _pack(self, loose: list[tuple[Node, MeasuredOnDevice]]) -> None:
        """Put scalars together on their device: a GPU gives each of them at least 512 bytes."""
        rows = Rows.of(loose)
        if rows is not None:
            self._deferred.add_rows(rows)
            loose.clear()


def _write(name: str, finish: Finish | None, node: Node, numbers: Sequence[Any], precision: Precision) -> None:
    node[name] = numbers[0] if finish is None else finish(numbers[0])


class FloatStatistics:
    """Measures floats of up to four bytes.

    Args:
        scalars: takes what is measured.
        eps: magnitudes below it count as zero.
        rounded: rounds a mean or a norm as the framework would.
    """

    def __init__(self, scalars: WaitingScalars, eps: float, rounded: Callable[[float, torch.dtype], float]) -> None:
        self._scalars = scalars
        self._eps = eps
        self._rounded = rounded

    def add(self, tensors: Sequence[torch.Tensor], nodes: Sequence[Node], needs: frozenset[str]) -> None:
        """Start to measure tensors that are detached, strided, not empty, and of one device and dtype.

        Args:
            tensors: they may change when this returns.
            nodes: get the statistics, one each.
            needs: names of statistics and of ``COUNTS``.
        """
        dtype, wide = tensors[0].dtype, accumulator(tensors[0])
        counted = [name for name in COUNTS if name in needs]
        if "Norm" in needs:
            for norm, node in zip(_norms(tensors, wide), nodes, strict=True):
                self._scalars.add(norm, node, "Norm", lambda number: self._rounded(number, dtype))
        for tensor, node in zip(tensors, nodes, strict=True):
            self._add_extremes(tensor, node, needs)
            if "Mean" in needs:
                self._add_mean(tensor, node, wide)
            for name in counted:
                self._scalars.add(self._count(tensor, name), node, name)

    def _add_extremes(self, tensor: torch.Tensor, node: Node, needs: frozenset[str]) -> None:
        wanted = [name for name in _EXTREMES if name in needs]
        if len(wanted) == len(_EXTREMES):
            least, largest = _F.aminmax(tensor)
            self._scalars.add(largest, node, "Max")
            self._scalars.add(least, node, "Min")
        elif wanted:
            self._scalars.add((_F.max if wanted == ["Max"] else _F.min)(tensor), node, wanted[0])

    def _add_mean(self, tensor: torch.Tensor, node: Node, wide: torch.dtype) -> None:
        elements, dtype = tensor.numel(), tensor.dtype
        total = _F.sum(tensor, dtype=wide)
        self._scalars.add(total, node, "Mean", lambda number: self._rounded(number / elements, dtype))

    def _count(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        if name == "zeros":
            found = _F.lt(_F.abs(tensor), self._eps)
        else:
            found = _F.isnan(tensor) if name == "nans" else _F.isinf(tensor)
        return _F.count_nonzero(found)


def _norms(tensors: Sequence[torch.Tensor], wide: torch.dtype) -> Sequence[torch.Tensor]:
    """Return the norms of tensors of one device and dtype, in one launch for many tensors where torch has it."""
    try:
        return _F._foreach_norm(list(tensors), 2, dtype=wide)
    except (RuntimeError, TypeError) as error:  # no dtype there before torch 2.4, no operator on each device
        let_through(error)
        return [_norm(tensor, 2, None, False, dtype=wide) for tensor in tensors]


def host_floats(tensor: torch.Tensor, needs: frozenset[str]) -> Node:
    """Return the statistics of a float of the CPU that has elements: those that are needed, and the norm.

    The norm says whether there is a NaN or an infinity.
    """
    flat = tensor.reshape(-1)
    total, squares = sums(flat, "Mean" in needs)
    node: Node = {"Norm": math.sqrt(squares)}
    if "Mean" in needs:
        node["Mean"] = total / flat.numel()
    if not needs.isdisjoint(_EXTREMES):
        least, largest = _F.aminmax(flat)
        node.update(Max=largest.item(), Min=least.item())
    return node
