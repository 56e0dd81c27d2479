"""The JSON form of any argument, by a table keyed on its type; tensors go to the task, opaque objects become null.

The walk keeps the shape of what it sees: lists and tuples become lists; dicts, named tuples and dataclass instances
become objects. It never raises for odd content: too deep or cyclic nesting ends in null, and so does a value that
raises when it is looked at. It always ends: of huge arguments the first parts are described. Methods that a subclass of
a container or of a text overrides are not called, because the tool must not run user code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from msprobe.core.capture.containers import DEPTH_LIMIT, PARTS_LIMIT, has_parts, key_text, parts_of
from msprobe.core.interruption import let_through

Node = Any
"""What stands in the record for a value: a JSON value made of dict, list, str, numbers and None."""

Handler = Callable[[Any, str, tuple[int, ...]], Node]
"""Takes the value, its path in the record or "", and the ids of the containers around it, by which cycles end."""

TEXT_LIMIT = 4096


class Expansion:
    """A value made of parts: the tensors among the ``fields`` become nodes, everything else stands as it is."""

    __slots__ = ("fields",)

    def __init__(self, fields: Callable[[Any], Mapping[str, Any]]) -> None:
        self.fields = fields


class Describer:
    """Turns values into nodes.

    Args:
        leaf: returns the node of a tensor; called with the tensor and its path (``Torch.add.0.forward.input.1``).
        is_tensor: tells for a type whether its instances are tensors of the framework.
        handlers: the framework's own value types (sizes, dtypes, devices, process groups), subclasses included.
        by_keyword: handlers for the values of certain keyword arguments, such as ``dtype``; a handler returns None to
            decline.
        report: called for every value that could not be described, with a word for it and the reason.
    """

    def __init__(
        self,
        leaf: Handler,
        is_tensor: Callable[[type], bool],
        handlers: Mapping[type, Handler | Expansion],
        by_keyword: Mapping[str, Handler],
        report: Callable[[str, Exception], None] | None = None,
    ) -> None:
        self._report = report
        self._room = PARTS_LIMIT
        self._leaf = leaf
        self._is_tensor = is_tensor
        self._framework_handlers: dict[type, Handler] = {
            kind: self._expanding(handler) if isinstance(handler, Expansion) else handler
            for kind, handler in handlers.items()
        }
        self._by_keyword = by_keyword
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
            **self._framework_handlers,
        }

    def node(self, value: Any, path: str, around: tuple[int, ...] = ()) -> Node:
        """Return the JSON form of ``value``; ``path`` names its tensor file, and is empty when none is written."""
        handler = self._handlers.get(type(value))
        return (handler or self._choose(type(value)))(value, path, around)

    def sequence(self, values: Sequence[Any], path: str, around: tuple[int, ...] = ()) -> list[Node]:
        """Return the nodes of a run of values; the path of each is ``path`` extended by its position."""
        size = len(values)
        if around or size > PARTS_LIMIT:
            values = values[: self._fitting(size, around)]
        else:
            self._room = PARTS_LIMIT - size
        try:
            if path:
                return [self.node(value, f"{path}.{position}", around) for position, value in enumerate(values)]
            handlers = self._handlers
            return [(handlers.get(type(value)) or self._choose(type(value)))(value, "", around) for value in values]
        except Exception as error:  # noqa: BLE001  (one by one, to find out which)
            let_through(error)
            return [self._node_or_null(value, path, str(position), around) for position, value in enumerate(values)]

    def keywords(self, values: Mapping[Any, Any], path: str, around: tuple[int, ...] = ()) -> dict[str, Node]:
        """Return the nodes of named values; keys become text."""
        nodes: dict[str, Node] = {}
        size = dict.__len__(values) if isinstance(values, dict) else len(values)
        pairs: Iterable[tuple[Any, Any]] = dict.items(values) if isinstance(values, dict) else values.items()
        if (fitting := self._fitting(size, around)) < size or not isinstance(values, dict):
            pairs = itertools.islice(pairs, fitting)
        for key, value in pairs:
            name = key if type(key) is str else key_text(key)
            try:
                handler = self._by_keyword.get(name)
                node = handler(value, path, around) if handler is not None and value is not None else None
                nodes[name] = self.node(value, path and f"{path}.{name}", around) if node is None else node
            except Exception as error:  # noqa: BLE001  (that value is null, the others stay)
                let_through(error)
                nodes[name] = self._node_or_null(value, path, name, around)
        return nodes

    def _fitting(self, size: int, around: tuple[int, ...]) -> int:
        """Return how many of ``size`` parts are described. Threads share the room, so it is a bound and not exact."""
        room = self._room if around else PARTS_LIMIT
        self._room = room - size
        if size > room >= 0 and self._report is not None:
            reason = f"it has more than {PARTS_LIMIT} parts; the first are recorded"
            self._report("a value as a whole", ValueError(reason))
        return min(size, max(room, 0))

    def _node_or_null(self, value: Any, path: str, part: str, around: tuple[int, ...]) -> Node:
        """Return the node of a value that may raise; null if it does."""
        try:
            return self.node(value, path and f"{path}.{part}", around)
        except Exception as error:  # noqa: BLE001  (whatever the object of a user does)
            let_through(error)
            if self._report is not None:
                self._report(f"a value of type {type(value).__name__}", error)
            return None

    def _sequence(self, value: Any, path: str, around: tuple[int, ...]) -> Node:
        if id(value) in around or len(around) >= DEPTH_LIMIT:
            return None
        return self.sequence(value, path, (*around, id(value)))

    def _mapping(self, value: Any, path: str, around: tuple[int, ...]) -> Node:
        if id(value) in around or len(around) >= DEPTH_LIMIT:
            return None
        return self.keywords(value, path, (*around, id(value)))

    def _container(self, value: Any, path: str, around: tuple[int, ...]) -> Node:
        """Return the node of any other container: what it holds, not what it says that it holds."""
        if id(value) in around or len(around) >= DEPTH_LIMIT:
            return None
        parts = parts_of(value)
        inside = (*around, id(value))
        if isinstance(parts, dict):
            return self.keywords(parts, path, inside)
        return self.sequence(parts or (), path, inside)

    def _expanding(self, expansion: Expansion) -> Handler:
        def expanded(value: Any, path: str, around: tuple[int, ...]) -> Node:
            return {
                key: self._leaf(part, path and f"{path}.{key}", around) if self._is_tensor(type(part)) else part
                for key, part in expansion.fields(value).items()
            }

        return expanded

    def _choose(self, kind: type) -> Handler:
        """Choose the handler of a type seen for the first time, and keep it in the table."""
        handler = self._leaf if self._is_tensor(kind) else self._value_handler(kind)
        self._handlers[kind] = handler
        return handler

    def _value_handler(self, kind: type) -> Handler:
        for base in kind.__mro__:
            if base in self._framework_handlers:
                return self._framework_handlers[base]
        if has_parts(kind):
            return self._container
        table: list[tuple[type | tuple[type, ...], Handler]] = [
            (np.generic, _numpy_scalar),
            (np.ndarray, _array),
            (int, _integer),
            (float, _real),
            (str, _text),
        ]
        return next((handler for bases, handler in table if issubclass(kind, bases)), _nothing)


def _nothing(value: Any, path: str, around: tuple[int, ...]) -> Node:
    return None


def _ellipsis(value: Any, path: str, around: tuple[int, ...]) -> Node:
    return {"type": "ellipsis", "value": "..."}


def _scalar(value: Any, path: str, around: tuple[int, ...]) -> Node:
    return {"type": type(value).__name__, "value": value}


def _integer(value: Any, path: str, around: tuple[int, ...]) -> Node:
    # JSON readers refuse integers of thousands of digits, and one of them would make the whole document unreadable.
    number = value if type(value) is int else int.__int__(value)
    written = number if number.bit_length() <= 4096 else hex(number)[:TEXT_LIMIT]
    return {"type": type(value).__name__, "value": written}


def _real(value: Any, path: str, around: tuple[int, ...]) -> Node:
    return {"type": type(value).__name__, "value": float.__float__(value)}


def _text(value: Any, path: str, around: tuple[int, ...]) -> Node:
    text = value if type(value) is str else str.__str__(value)
    return {"type": type(value).__name__, "value": text if len(text) <= TEXT_LIMIT else text[:TEXT_LIMIT] + "..."}


def _as_text(value: Any, path: str, around: tuple[int, ...]) -> Node:
    written = value[:TEXT_LIMIT] if isinstance(value, bytes) else value
    return {"type": type(value).__name__, "value": repr(written)}


def _slice(value: Any, path: str, around: tuple[int, ...]) -> Node:
    return {"type": "slice", "value": [_index(part) for part in (value.start, value.stop, value.step)]}


def _index(part: Any) -> int | None:
    try:
        return None if part is None else int(part)
    except (TypeError, ValueError, RuntimeError) as error:
        let_through(error)
        return None


def _numpy_scalar(value: Any, path: str, around: tuple[int, ...]) -> Node:
    item = value.item()
    kind = type(value).__name__.removesuffix("_") if isinstance(item, bool) else type(value).__name__
    return {"type": kind, "value": item if isinstance(item, (bool, int, float, str)) else str(item)}


def _array(value: Any, path: str, around: tuple[int, ...]) -> Node:
    from msprobe.core.tensors.numpy_ops import statistics
    from msprobe.core.tensors.statistics import STATISTIC_NAMES, TensorStats

    measured = statistics(value)
    if value.dtype == bool:  # the published format has sums of bool arrays, too: those of zeros and ones
        numbers = statistics(value.astype(np.uint8))
        measured = TensorStats(*(number if own is None else own for own, number in zip(measured, numbers, strict=True)))
    node = {"type": "numpy.ndarray", "dtype": str(value.dtype), "shape": list(value.shape)}
    return {**node, **dict(zip(STATISTIC_NAMES, measured, strict=True))}
