"""Any argument to its JSON form, by a table keyed on the type; tensors go to the task, opaque objects become null.

The walk keeps the shape of what it sees: lists and tuples to lists; dicts, named tuples and dataclass instances to
objects. It never raises for odd content: too deep or cyclic nesting ends in null, and so does a value that raises when
it is looked at. It always ends: of huge arguments the first parts are described. What a subclass of a container or of a
text overrides is passed by: the tool must not run user code that only pretends to be a value.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Node = Any
"""What stands in the record for a value: a JSON value made of dict, list, str, numbers and None."""

Handler = Callable[[Any, str, tuple[int, ...]], Node]
"""Takes the value, its place, and the identities of the containers around it (which is how cycles end)."""

DEPTH_LIMIT = 64
TEXT_LIMIT = 4096
PARTS_LIMIT = 1 << 18
"""Parts of all containers in the arguments, or in the result, of one call. A list held twice has its parts twice."""


class Expansion:
    """A value made of parts: the tensors among the ``fields`` become nodes, everything else stands as it is."""

    __slots__ = ("fields",)

    def __init__(self, fields: Callable[[Any], Mapping[str, Any]]) -> None:
        self.fields = fields


class Describer:
    """Turns values into nodes.

    Args:
        leaf: called for tensors with the tensor and its place (``Torch.add.0.forward.input.1``), returns the node.
        is_tensor: tells for a type whether its instances are tensors of the framework.
        handlers: the framework's own value types (sizes, dtypes, devices, process groups), subclasses included.
        keyed: handlers for values under certain keyword names, such as ``dtype``; a handler returns None to decline.
        noted: told of every value that could not be described, with its place and the reason.
    """

    def __init__(
        self,
        leaf: Handler,
        is_tensor: Callable[[type], bool],
        handlers: Mapping[type, Handler | Expansion],
        keyed: Mapping[str, Handler],
        noted: Callable[[str, Exception], None] | None = None,
    ) -> None:
        self._noted = noted
        self._room = PARTS_LIMIT
        self._leaf = leaf
        self._is_tensor = is_tensor
        self._given: dict[type, Handler] = {
            kind: self._expanding(handler) if isinstance(handler, Expansion) else handler
            for kind, handler in handlers.items()
        }
        self._keyed = keyed
        self._handlers: dict[type, Handler] = {
            type(None): _nothing,
            bool: _scalar,
            int: _integer,
            float: _scalar,
            str: _text,
            type(...): _ellipsis,
            slice: _slice,
            list: self._sequence,
            tuple: self._sequence,
            dict: self._mapping,
            np.ndarray: _array,
            complex: _as_text,
            bytes: _as_text,
            range: _as_text,
            **self._given,
        }

    def node(self, value: Any, place: str, around: tuple[int, ...] = ()) -> Node:
        """The JSON form of ``value``. ``place`` is the name of the spot, or empty when no tensor file needs one."""
        handler = self._handlers.get(type(value))
        return (handler or self._learn(type(value)))(value, place, around)

    def sequence(self, values: Sequence[Any], place: str, around: tuple[int, ...] = ()) -> list[Node]:
        """The nodes of a run of values, ``place`` extended by the position of each."""
        size = len(values)
        if around or size > PARTS_LIMIT:
            values = values[: self._fitting(size, around)]
        else:
            self._room = PARTS_LIMIT - size
        try:
            if place:
                return [self.node(value, f"{place}.{position}", around) for position, value in enumerate(values)]
            known = self._handlers
            return [(known.get(type(value)) or self._learn(type(value)))(value, "", around) for value in values]
        except Exception:  # noqa: BLE001  (one by one, to find out which)
            return [self._careful(value, place, str(position), around) for position, value in enumerate(values)]

    def keywords(self, values: Mapping[Any, Any], place: str, around: tuple[int, ...] = ()) -> dict[str, Node]:
        """The nodes of named values; keys become text."""
        found: dict[str, Node] = {}
        size = dict.__len__(values) if isinstance(values, dict) else len(values)
        pairs: Iterable[tuple[Any, Any]] = dict.items(values) if isinstance(values, dict) else values.items()
        if (fitting := self._fitting(size, around)) < size or not isinstance(values, dict):
            pairs = itertools.islice(pairs, fitting)
        for key, value in pairs:
            name = key if type(key) is str else _key_text(key)
            try:
                keyed = self._keyed.get(name)
                node = keyed(value, place, around) if keyed is not None and value is not None else None
                found[name] = self.node(value, place and f"{place}.{name}", around) if node is None else node
            except Exception:  # noqa: BLE001  (that value is null, the others stay)
                found[name] = self._careful(value, place, name, around)
        return found

    def _fitting(self, size: int, around: tuple[int, ...]) -> int:
        """How many of ``size`` parts are described. Threads may take room from each other: it is a bound, not exact."""
        room = self._room if around else PARTS_LIMIT
        self._room = room - size
        if size > room >= 0 and self._noted is not None:
            reason = f"it has more than {PARTS_LIMIT} parts; the first are recorded"
            self._noted("a value as a whole", ValueError(reason))
        return min(size, max(room, 0))

    def _careful(self, value: Any, place: str, part: str, around: tuple[int, ...]) -> Node:
        """The node of a value that may raise; null if it does."""
        try:
            return self.node(value, place and f"{place}.{part}", around)
        except Exception as error:  # noqa: BLE001  (whatever the object of a user does)
            if self._noted is not None:
                self._noted(f"a value of type {type(value).__name__}", error)
            return None

    def _sequence(self, value: Any, place: str, around: tuple[int, ...]) -> Node:
        if id(value) in around or len(around) >= DEPTH_LIMIT:
            return None
        parts: Sequence[Any] = value
        if type(value) is not list and type(value) is not tuple:  # a subclass: what it holds, not what it says it holds
            parts = tuple(list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value))
        return self.sequence(parts, place, (*around, id(value)))

    def _mapping(self, value: Any, place: str, around: tuple[int, ...]) -> Node:
        if id(value) in around or len(around) >= DEPTH_LIMIT:
            return None
        return self.keywords(value, place, (*around, id(value)))

    def _fields(self, value: Any, place: str, around: tuple[int, ...]) -> Node:
        if id(value) in around or len(around) >= DEPTH_LIMIT:
            return None
        fields = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
        return self.keywords(fields, place, (*around, id(value)))

    def _named_tuple(self, value: Any, place: str, around: tuple[int, ...]) -> Node:
        names = type(value)._fields
        if not isinstance(names, tuple) or len(names) != tuple.__len__(value):
            return self._sequence(value, place, around)  # only called like a named tuple
        if len(around) >= DEPTH_LIMIT:
            return None
        fields = dict(zip(names, tuple.__iter__(value), strict=True))
        return self.keywords(fields, place, (*around, id(value)))

    def _expanding(self, expansion: Expansion) -> Handler:
        def expanded(value: Any, place: str, around: tuple[int, ...]) -> Node:
            return {
                key: self._leaf(part, place and f"{place}.{key}", around) if self._is_tensor(type(part)) else part
                for key, part in expansion.fields(value).items()
            }

        return expanded

    def _learn(self, kind: type) -> Handler:
        """Choose the handler of a type seen for the first time and remember it."""
        handler = self._leaf if self._is_tensor(kind) else self._choose(kind)
        self._handlers[kind] = handler
        return handler

    def _choose(self, kind: type) -> Handler:
        for base in kind.__mro__:
            if base in self._given:
                return self._given[base]
        if issubclass(kind, Mapping):
            return self._mapping
        if dataclasses.is_dataclass(kind):
            return self._fields
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._named_tuple
        table: list[tuple[type | tuple[type, ...], Handler]] = [
            (np.generic, _numpy_scalar),
            (np.ndarray, _array),
            ((list, tuple), self._sequence),
            (int, _integer),
            (float, _real),
            (str, _text),
        ]
        return next((handler for bases, handler in table if issubclass(kind, bases)), _nothing)


def _nothing(value: Any, place: str, around: tuple[int, ...]) -> Node:
    return None


def _ellipsis(value: Any, place: str, around: tuple[int, ...]) -> Node:
    return {"type": "ellipsis", "value": "..."}


def _scalar(value: Any, place: str, around: tuple[int, ...]) -> Node:
    return {"type": type(value).__name__, "value": value}


def _integer(value: Any, place: str, around: tuple[int, ...]) -> Node:
    # JSON readers refuse integers of thousands of digits, and one of them would make the whole document unreadable.
    number = value if type(value) is int else int.__int__(value)
    shown = number if number.bit_length() <= 4096 else hex(number)[:TEXT_LIMIT]
    return {"type": type(value).__name__, "value": shown}


def _real(value: Any, place: str, around: tuple[int, ...]) -> Node:
    return {"type": type(value).__name__, "value": float.__float__(value)}


def _text(value: Any, place: str, around: tuple[int, ...]) -> Node:
    text = value if type(value) is str else str.__str__(value)
    return {"type": type(value).__name__, "value": text if len(text) <= TEXT_LIMIT else text[:TEXT_LIMIT] + "..."}


def _key_text(key: Any) -> str:
    try:
        return str.__str__(key if isinstance(key, str) else str(key))
    except Exception:  # noqa: BLE001  (whatever the object of a user does)
        return f"<{type(key).__name__}>"


def _as_text(value: Any, place: str, around: tuple[int, ...]) -> Node:
    shown = value[:TEXT_LIMIT] if isinstance(value, bytes) else value
    return {"type": type(value).__name__, "value": repr(shown)}


def _slice(value: Any, place: str, around: tuple[int, ...]) -> Node:
    return {"type": "slice", "value": [_index(part) for part in (value.start, value.stop, value.step)]}


def _index(part: Any) -> int | None:
    try:
        return None if part is None else int(part)
    except (TypeError, ValueError, RuntimeError):
        return None


def _numpy_scalar(value: Any, place: str, around: tuple[int, ...]) -> Node:
    item = value.item()
    kind = type(value).__name__.removesuffix("_") if isinstance(item, bool) else type(value).__name__
    return {"type": kind, "value": item if isinstance(item, (bool, int, float, str)) else str(item)}


def _array(value: Any, place: str, around: tuple[int, ...]) -> Node:
    from msprobe.core.tensors.numpy_ops import statistics
    from msprobe.core.tensors.statistics import STATISTIC_NAMES

    measured = statistics(value)
    if value.dtype == bool:  # the published format has sums of bool arrays, too: those of zeros and ones
        numbers = statistics(value.astype(np.uint8))
        measured = measured._make(number if own is None else own for own, number in zip(measured, numbers, strict=True))
    node = {"type": "numpy.ndarray", "dtype": str(value.dtype), "shape": list(value.shape)}
    return {**node, **dict(zip(STATISTIC_NAMES, measured, strict=True))}
