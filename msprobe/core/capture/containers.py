"""The tensors inside an argument or a result, through all nested containers that a record shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from msprobe.core.capture.parts import DEPTH_LIMIT, PARTS_LIMIT, parts_of

_ATOMS = frozenset({type(None), bool, int, float, str})


@lru_cache(maxsize=256)
def _is_a(kind: type, tensor: type) -> bool:
    """Return ``issubclass(kind, tensor)``, which is slow where a framework's tensor is an abstract class."""
    return issubclass(kind, tensor)


def shape_of(value: Any, leaf: Callable[[Any], Any], tensor: type) -> Any:
    """Return ``value`` with ``leaf(part)`` in place of its tensors and None in place of everything else.

    Args:
        value: a tensor, a container (lists and tuples become lists, other containers dicts), or anything else.
        leaf: called with each tensor, in order.
        tensor: the class of the framework's tensors.
    """
    kind: Any = type(value)
    if kind in _ATOMS:
        return None
    return leaf(value) if _is_a(kind, tensor) else _Walk(leaf, tensor).shape(value, ())


def tensors_in(value: Any, tensor: type) -> list[Any]:
    """Return the tensors of the class ``tensor`` in ``value``, in order."""
    tensors: list[Any] = []
    _Walk(tensors.append, tensor).shape(value, ())
    return tensors


class _Walk:
    """Walks through one value, and ends after as many parts as a record shows."""

    __slots__ = ("_leaf", "_room", "_tensor")

    def __init__(self, leaf: Callable[[Any], Any], tensor: type) -> None:
        self._leaf = leaf
        self._tensor = tensor
        self._room = PARTS_LIMIT

    def shape(self, value: Any, around: tuple[int, ...]) -> Any:
        kind: Any = type(value)
        if kind in _ATOMS:
            return None
        if _is_a(kind, self._tensor):
            return self._leaf(value)
        parts = parts_of(value)
        if parts is None or id(value) in around or len(around) >= DEPTH_LIMIT or self._room <= 0:
            return None
        inside = (*around, id(value))
        self._room -= len(parts)
        if isinstance(parts, dict):
            return {key: self.shape(part, inside) for key, part in parts.items()}
        return [self.shape(part, inside) for part in parts]
