"""What is inside an argument or a result: the parts a record shows, through nested containers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from msprobe.core.capture.describe import DEPTH_LIMIT

_ATOMS = frozenset({type(None), bool, int, float, str})


def parts_of(value: Any) -> dict[str, Any] | list[Any] | tuple[Any, ...] | None:
    """By field, by key or by position; None for anything that is no container."""
    kind = type(value)
    if kind in _ATOMS:
        return None
    if issubclass(kind, (list, tuple)):
        return dict(zip(value._fields, value, strict=True)) if hasattr(kind, "_fields") else value
    if issubclass(kind, Mapping):
        return {str(key): part for key, part in value.items()}
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(kind)}
    return None


def shape_of(value: Any, leaf: Callable[[Any], Any], is_tensor: Callable[[Any], bool]) -> Any:
    """``value`` with ``leaf(tensor)`` in the place of its tensors and None in the place of everything else."""
    return _shape(value, leaf, is_tensor, ())


def tensors_in(value: Any, is_tensor: Callable[[Any], bool]) -> list[Any]:
    """The tensors of a value, in order."""
    found: list[Any] = []
    _shape(value, found.append, is_tensor, ())
    return found


def _shape(value: Any, leaf: Callable[[Any], Any], is_tensor: Callable[[Any], bool], around: tuple[int, ...]) -> Any:
    if is_tensor(value):
        return leaf(value)
    parts = parts_of(value)
    if parts is None or id(value) in around or len(around) >= DEPTH_LIMIT:
        return None
    inside = (*around, id(value))
    if isinstance(parts, dict):
        return {key: _shape(part, leaf, is_tensor, inside) for key, part in parts.items()}
    return [_shape(part, leaf, is_tensor, inside) for part in parts]
