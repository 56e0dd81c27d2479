"""``slice`` and ``scheduled_tokens``: cut tensors before anything is measured or saved.

    [{"dim": 0, "begin": 2, "end": 5}]            every tensor t becomes t[2:5]
    {"dim": 1, "size": 128, "end": 1}             only tensors that are 128 long in dimension 1

Several items apply one after the other. An item whose dimension the tensor does not have, or whose ``size`` differs,
leaves it whole; so does a tensor that cannot be cut (sparse, nested). The recorded shape is that of the part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msprobe.core.capture.describe import Node
from msprobe.core.config.sections import SliceItem

_UNCUTTABLE = (RuntimeError, TypeError, IndexError, NotImplementedError, ValueError)


class SlicedLeaves:
    """Hands the chosen part of each tensor on to ``leaf``.

    Args:
        leaf: what measures and saves a tensor.
        items: the cuts of the configuration.
        tokens: one more cut, for the tokens of one request; it changes from start to start.
    """

    def __init__(
        self, leaf: Callable[..., Node], items: Sequence[SliceItem], tokens: Callable[[], SliceItem | None]
    ) -> None:
        self._leaf = leaf
        self._items = items
        self._tokens = tokens

    def leaf(self, tensor: Any, place: str, around: tuple[int, ...] = ()) -> Node:
        """The node of the cut tensor; gradient facts are those of the whole one."""
        part = cut(tensor, self._items)
        tokens = self._tokens()
        if tokens is not None:
            part = cut(part, [tokens])
        node = self._leaf(part, place, around)
        if part is not tensor and "requires_grad" in node:
            node["requires_grad"] = tensor.requires_grad  # a view made under no_grad says False
        return node


def cut(tensor: Any, items: Sequence[SliceItem]) -> Any:
    """``tensor`` with ``items`` applied in order; the very same object when none of them fits."""
    for item in items:
        shape = tensor.shape
        if item.dim >= len(shape) or (item.size is not None and item.size != shape[item.dim]):
            continue
        try:
            tensor = tensor[(slice(None),) * item.dim + (slice(item.begin, item.end),)]
        except _UNCUTTABLE:
            continue
    return tensor
