"""What is inside an argument or a result: the parts a record shows, through nested containers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from msprobe.core.capture.describe import DEPTH_LIMIT
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
    return leaf(value) if _is_a(kind, tensor) else _shape(value, leaf, tensor, ())


def tensors_in(value: Any, tensor: type) -> list[Any]:
    """The tensors of a value, in order."""
    found: list[Any] = []
    _shape(value, found.append, tensor, ())
    return found


def _shape(value: Any, leaf: Callable[[Any], Any], tensor: type, around: tuple[int, ...]) -> Any:
    kind: Any = type(value)
    if kind in _ATOMS:
        return None
    if _is_a(kind, tensor):
        return leaf(value)
    parts = parts_of(value)
    if parts is None or id(value) in around or len(around) >= DEPTH_LIMIT:
        return None
    inside = (*around, id(value))
    if isinstance(parts, dict):
        return {key: _shape(part, leaf, tensor, inside) for key, part in parts.items()}
    return [_shape(part, leaf, tensor, inside) for part in parts]
