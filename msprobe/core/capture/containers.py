"""What is inside an argument or a result: the parts a record shows, through nested containers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from msprobe.core.capture.describe import DEPTH_LIMIT, PARTS_LIMIT
from msprobe.core.capture.parts import parts_of

_ATOMS = frozenset({type(None), bool, int, float, str})


@lru_cache(maxsize=256)
def _is_a(kind: type, tensor: type) -> bool:
    """``issubclass``, which is slow to ask where a framework makes an abstract class of its tensors."""
    return issubclass(kind, tensor)


def shape_of(value: Any, leaf: Callable[[Any], Any], tensor: type) -> Any:
    """``value`` with ``leaf(part)`` in the place of its tensors and None in the place of everything else."""
    kind: Any = type(value)
    if kind in _ATOMS:
        return None
    return leaf(value) if _is_a(kind, tensor) else _Walk(leaf, tensor).shape(value, ())


def tensors_in(value: Any, tensor: type) -> list[Any]:
    """The tensors of a value, in order."""
    found: list[Any] = []
    _Walk(found.append, tensor).shape(value, ())
    return found


class _Walk:
    """One walk through a value, which ends after as many parts as a record shows."""

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
