"""Walk through the containers of an argument or a result: their parts, and the tensors inside them.

``parts_of`` returns the parts as a record shows them: by field, by key or by position. The methods that a subclass of
list, tuple or dict overrides are not called. ``shape_of`` and ``tensors_in`` look through nested containers.

``interned`` returns one shared tuple for equal tuples. Thousands of calls wait for their gradients at a time and hold
the same small tuples; every further object makes the garbage collector run sooner, and it walks the whole program.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from msprobe.core.interruption import let_through

DEPTH_LIMIT = 64
"""Containers around a value from which on it is no longer looked into."""
PARTS_LIMIT = 1 << 18
"""Parts of all containers in the arguments, or in the result, of one call. A list held twice has its parts twice."""

Parts = dict[str, Any] | list[Any] | tuple[Any, ...]

_ATOMS = frozenset({type(None), bool, int, float, str})


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
        """Return the shape of ``value``, which lies in the containers with the ids ``around``."""
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


@lru_cache(maxsize=256)
def _is_a(kind: type, tensor: type) -> bool:
    """Return ``issubclass(kind, tensor)``, which is slow where a framework's tensor is an abstract class."""
    return issubclass(kind, tensor)


def parts_of(value: Any) -> Parts | None:
    """Return the parts of ``value``: a dict by field name or key, or a sequence; None for what is no container.

    A mapping gives as many parts as it says that it has, and at most one more than ``PARTS_LIMIT``.

    Raises:
        Exception: whatever a mapping of the user raises.
    """
    kind: Any = type(value)
    if kind is list or kind is tuple:
        return value  # type: ignore[no-any-return]
    read = _reader(kind)
    return None if read is None else read(value)


def has_parts(kind: type) -> bool:
    """Return whether instances of ``kind`` are containers."""
    return _reader(kind) is not None


def items_of(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return what a dict, list or tuple holds, with the keys as they are, or with positions."""
    if isinstance(value, dict):
        return dict.items(value)
    return enumerate(list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value))


def with_parts(value: Any, replace: Callable[[Any, Any], Any]) -> Any:
    """Return a list, tuple or dict like ``value`` with ``replace(key or position, part)`` in place of each part."""
    if isinstance(value, dict):
        return {key: replace(key, part) for key, part in value.items()}
    return type(value)([replace(position, part) for position, part in enumerate(value)])


def key_text(key: Any) -> str:
    """Return the text that a key has in a record; never raises."""
    try:
        return str.__str__(key if isinstance(key, str) else str(key))
    except Exception as error:  # noqa: BLE001  (whatever the object of a user does)
        let_through(error)
        return f"<{type(key).__name__}>"


@lru_cache(maxsize=1024)
def _reader(kind: type) -> Callable[[Any], Parts] | None:
    """Return the function that reads the parts of instances of ``kind``; None where they have none."""
    if issubclass(kind, dict):
        return _dict_parts
    if issubclass(kind, Mapping):
        return _mapping_parts
    if dataclasses.is_dataclass(kind):
        return _field_parts
    if issubclass(kind, tuple):
        return _named_parts if hasattr(kind, "_fields") else _tuple_parts
    return _list_parts if issubclass(kind, list) else None


def _dict_parts(value: Any) -> Parts:
    return {key if type(key) is str else key_text(key): part for key, part in dict.items(value)}


def _mapping_parts(value: Any) -> Parts:
    size = min(len(value), PARTS_LIMIT + 1)  # it may be endless
    return {key_text(key): part for key, part in itertools.islice(value.items(), size)}


def _field_parts(value: Any) -> Parts:
    return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}


def _named_parts(value: Any) -> Parts:
    names = type(value)._fields
    if not isinstance(names, tuple) or len(names) != tuple.__len__(value):
        return _tuple_parts(value)  # it only has an attribute of that name
    return dict(zip(names, tuple.__iter__(value), strict=True))


def _tuple_parts(value: Any) -> Parts:
    return tuple(tuple.__iter__(value))


def _list_parts(value: Any) -> Parts:
    return list(list.__iter__(value))


def interned(parts: Iterable[Any]) -> tuple[Any, ...]:
    """Return a tuple of ``parts``, the same object each time; a new tuple where a list or a dict is among them."""
    pattern = tuple(parts)
    try:
        return _shared_tuple(pattern)
    except TypeError as error:
        let_through(error)
        return pattern


@lru_cache(maxsize=1024)
def _shared_tuple(pattern: tuple[Any, ...]) -> tuple[Any, ...]:
    return pattern
