"""One dump as calls and values: which call made a value, which calls use it, and what is recorded of either.

``Trace(dump.data, dump.construct)`` reads the records once. A ``Value`` is one tensor as one record shows it. Where a
record shows what an earlier call has returned, its ``origin`` is that result, and ``link`` says how this is known: the
memory that both name (recorded), or equal statistics (inferred). What no recorded call has made is a source: data, a
parameter before the step, memory that code without a record wrote. Its origin is the first record that shows it.

Of the calls that return one value the innermost made it: modules around it, views and in-place calls that changed
nothing pass it on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cached_property
from typing import Any

from msprobe.core.store.record_walk import INPUT, OUTPUT, PARAMETER, Leaf, is_tensor, leaves
from msprobe.trace.values import Raw, Result, Results, is_unchanged, memory_of, signature_of, span_of

_RETURNED = frozenset({OUTPUT})


class Link(Enum):
    """How it is known that two records show one value."""

    RECORDED = "recorded"
    """They name the same memory, and their statistics agree."""
    INFERRED = "inferred"
    """Their statistics agree."""


class Value:
    """One tensor as one record shows it.

    Attributes:
        call: the call whose record it is.
        leaf: the place in the record, and what it says.
        origin: the result, or the first record of a source, that it is; None where it is that itself.
        link: how the origin is known.
        users: the values that have it as their origin.
    """

    __slots__ = ("call", "leaf", "link", "origin", "users")

    def __init__(self, call: Call, leaf: Leaf) -> None:
        self.call = call
        self.leaf = leaf
        self.origin: Value | None = None
        self.link: Link | None = None
        self.users: list[Value] = []

    @property
    def raw(self) -> Raw:
        """What the record says of the tensor."""
        raw: Raw = self.leaf.raw
        return raw

    @property
    def name(self) -> str:
        """The name of the entry with the place in its record, such as ``Torch.add.0.forward.output.0``."""
        return self.call.name + self.leaf.suffix

    @property
    def root(self) -> Value:
        """Its origin, or itself."""
        return self.origin or self

    @property
    def is_source(self) -> bool:
        """Whether no recorded call made it."""
        return self.root.leaf.slot not in _RETURNED

    def come_from(self, root: Value, link: Link) -> None:
        """Take ``root`` as the origin, also of what had this value as its origin."""
        self.link = link
        for value in (self, *self.users):
            value.origin = root
            root.users.append(value)
        self.users = []


class Call:
    """One record.

    Attributes:
        number: its position among the records, which are in the order in which calls end.
        begin: the position of the first record inside it; its own where there is none.
        given, returned: its tensors. The parameters of a module are given.
    """

    __slots__ = ("begin", "given", "name", "number", "returned")

    def __init__(self, name: str, number: int, body: Any) -> None:
        self.name = name
        self.number = self.begin = number
        self.given: list[Value] = []
        self.returned: list[Value] = []
        for leaf in leaves(name, body):
            if is_tensor(leaf.raw):
                (self.returned if leaf.slot in _RETURNED else self.given).append(Value(self, leaf))

    @property
    def values(self) -> Iterator[Value]:
        """All tensors of the record."""
        yield from self.given
        yield from self.returned


class Trace:
    """The calls and values of one dump.

    Args:
        data: its records.
        construct: the parents of calls.
    """

    def __init__(self, data: Mapping[str, Any], construct: Mapping[str, Any]) -> None:
        self.calls = [Call(name, number, body) for number, (name, body) in enumerate(data.items())]
        self.by_name = {call.name: call for call in self.calls}
        self._note_begins(construct)
        self._results = Results(
            ((call.number, value.raw) for call in self.calls for value in call.returned),
            lambda number: (value.raw for value in self.calls[number].given if value.leaf.slot == INPUT),
        )
        self._owners = {id(value.raw): value for call in self.calls for value in call.returned}
        self._sources: dict[Any, list[Value]] = {}
        for call in self.calls:
            for value in call.given:
                self._connect(value, call.begin)
            for value in call.returned:
                self._pass_on(value)

    @cached_property
    def is_recorded(self) -> bool:
        """Whether records say which memory tensors lie in."""
        return any(memory_of(value.raw) is not None for call in self.calls for value in call.values)

    @cached_property
    def parameters(self) -> dict[str, str]:
        """The names of parameters by the storage that they lie in."""
        found: dict[str, str] = {}
        for call in self.calls:
            for value in call.given:
                memory = memory_of(value.raw)
                if value.leaf.slot == PARAMETER and memory is not None:
                    stem = call.name.partition(".")[2].rpartition(".forward.")[0].rpartition(".")[0]
                    found.setdefault(memory.storage, f"{stem}{value.leaf.suffix.removeprefix('.parameters')}")
        return found

    def value(self, name: str) -> Value | None:
        """Return the value of this name; None where the dump has none."""
        call = next((self.by_name[entry] for entry in _prefixes(name) if entry in self.by_name), None)
        return None if call is None else next((value for value in call.values if value.name == name), None)

    def _note_begins(self, construct: Mapping[str, Any]) -> None:
        """Note where calls begin. A backward call of a module is recorded before the calls inside it."""
        for call in self.calls:
            parent = construct.get(call.name)
            first = parent[0] if isinstance(parent, list) and parent else parent
            if not isinstance(first, str) or (around := self.by_name.get(first)) is None:
                continue
            if call.number < around.number:
                around.begin = min(around.begin, call.begin)
                continue
            for outer in around.returned:
                inner = next((own for own in call.returned if _is_one(outer.raw, own.raw)), None)
                if inner is not None and outer.origin is None:
                    outer.come_from(inner, _link(outer))

    def _connect(self, value: Value, before: int) -> None:
        """Set the origin of a value that a call gets."""
        result, link = self._results.recorded(value.raw, before), Link.RECORDED
        if result is None:
            result, link = self._results.last_with_equal_statistics(value.raw, before), Link.INFERRED
        if result is not None:
            self._set_origin(value, result, link)
            return
        key = signature_of(value.raw) if (memory := memory_of(value.raw)) is None else memory.storage
        first = next((one for one in self._sources.get(key, ()) if _is_same_source(value.raw, one.raw)), None)
        if first is not None:
            value.come_from(first, _link(value))
        elif key is not None:
            self._sources.setdefault(key, []).append(value)

    def _pass_on(self, value: Value) -> None:
        """Set the origin of a result that the call got, or that a call inside it made."""
        own = value.call
        for given in own.given:
            if given.leaf.slot == INPUT and memory_of(value.raw) is not None and _is_one(value.raw, given.raw):
                value.come_from(given.root, given.link or Link.RECORDED)
                return
        if own.begin == own.number:
            return
        recorded = memory_of(value.raw) is not None
        look_up = self._results.recorded if recorded else self._results.last_with_equal_statistics
        result = look_up(value.raw, own.number)
        if result is not None and result.call >= own.begin and is_unchanged(value.raw, result.raw):
            self._set_origin(value, result, _link(value))

    def _set_origin(self, value: Value, result: Result, link: Link) -> None:
        maker = self._owners[id(result.raw)]
        value.come_from(maker.root, Link.INFERRED if maker.link is Link.INFERRED else link)


def _link(value: Value) -> Link:
    """Return how a value is known to be another one that is recorded alike."""
    return Link.RECORDED if memory_of(value.raw) is not None else Link.INFERRED


def _is_one(raw: Raw, other: Raw) -> bool:
    """Return whether two tensors show the same content of the same memory, or of memory that no record names."""
    return memory_of(raw) == memory_of(other) and is_unchanged(raw, other)


def _is_same_source(raw: Raw, first: Raw) -> bool:
    """Return whether two tensors in one memory show the same elements."""
    return span_of(raw) == span_of(first) and is_unchanged(raw, first)


def _prefixes(name: str) -> Iterator[str]:
    """Yield a name without its last parts, the longest first."""
    while name:
        yield name
        name = name.rpartition(".")[0]
