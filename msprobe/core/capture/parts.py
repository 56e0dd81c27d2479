"""What is inside a container, as its record shows it: by field, by key or by position.

What a subclass of list, tuple or dict overrides is passed by: the parts are those it holds, whatever it says.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

Parts = dict[str, Any] | list[Any] | tuple[Any, ...]


def parts_of(value: Any) -> Parts | None:
    """The parts of ``value``; None for anything that is no container. Raises what a mapping of the user raises."""
    kind = type(value)
    if issubclass(kind, list):
        return list(list.__iter__(value))
    if issubclass(kind, tuple):
        return _fields_or_items(kind, tuple(tuple.__iter__(value)))
    if issubclass(kind, dict):
        return {str(key): part for key, part in dict.items(value)}
    if issubclass(kind, Mapping):
        return {str(key): part for key, part in itertools.islice(value.items(), len(value))}  # it may be endless
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(kind)}
    return None


def _fields_or_items(kind: type, items: tuple[Any, ...]) -> Parts:
    names = getattr(kind, "_fields", None)
    if isinstance(names, tuple) and len(names) == len(items):
        return dict(zip(names, items, strict=True))
    return items
