"""``slice`` and ``scheduled_tokens``: cut tensors before anything is measured or saved.

    [{"dim": 0, "begin": 2, "end": 5}]            every tensor t becomes t[2:5]
    {"dim": 1, "size": 128, "end": 1}             only tensors that are 128 long in dimension 1

Several items apply one after the other. An item whose dimension the tensor does not have, or whose ``size`` differs,
leaves it whole; so does a tensor that cannot be cut (sparse, nested). The recorded shape is that of the part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msprobe.core.capture.describe import Node
from msprobe.core.config.sections import SliceItem
from msprobe.core.dump.leaf import TensorNodes

_CANNOT_SLICE = (RuntimeError, TypeError, IndexError, NotImplementedError, ValueError)


class SlicedTensors:
    """Pass a part of each tensor on to ``nodes`` (implements ``TensorNodes``).

    Args:
        nodes: measures and saves the part.
        items: the cuts of the configuration.
        tokens: returns one more cut, for the tokens of one request; it changes with every start.
    """

    def __init__(self, nodes: TensorNodes, items: Sequence[SliceItem], tokens: Callable[[], SliceItem | None]) -> None:
        self._nodes = nodes
        self._leaf = nodes.leaf
        self._items = items
        self._tokens = tokens

    @property
    def folder(self) -> Path | None:
        """The folder of tensor files; None when no tensors are kept."""
        return self._nodes.folder

    def leaf(self, tensor: Any, save_as: str, around: tuple[int, ...] = ()) -> Node:
        """Return the node of the cut tensor; gradient facts are those of the whole one."""
        part = cut(tensor, self._items)
        tokens = self._tokens()
        if tokens is not None:
            part = cut(part, [tokens])
        node = self._leaf(part, save_as, around)
        if part is not tensor and "requires_grad" in node:
            node["requires_grad"] = tensor.requires_grad  # a view made under no_grad says False
        return node

    def settle(self) -> None:
        """Return when every node made so far is complete."""
        self._nodes.settle()

    def move(self, folder: Path) -> None:
        """Save tensors into ``folder`` from now on, if any are saved."""
        self._nodes.move(folder)


def cut(tensor: Any, items: Sequence[SliceItem]) -> Any:
    """Return ``tensor`` with ``items`` applied in order; the same object when no item applies to it."""
    for item in items:
        shape = tensor.shape
        if item.dim >= len(shape) or (item.size is not None and item.size != shape[item.dim]):
            continue
        try:
            tensor = tensor[(slice(None),) * item.dim + (slice(item.begin, item.end),)]
        except _CANNOT_SLICE:
            continue
    return tensor
