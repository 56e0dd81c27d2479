"""The record of one call: the values of its begin and its end, as nodes ready for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msprobe.core.capture.describe import Node

UNRELATED = "\0"
"""The parent of a record that is not in construct.json; None there means "has no parent"."""


class CallRecord:
    """One call, open from begin to end. It has slots because a step makes thousands of records.

    Attributes:
        name: the name of the entry.
        body: the sections of the entry in the order of dump.json (``input_args``, ``output``, ...); None when the
            entry is in construct.json only.
        backward_name: the name of the backward record of a forward one.
        parent: the entry around this one; ``UNRELATED`` when the record is not in construct.json.
        stack: the number of the call stack.
        moved: the arguments of a call of which only is recorded what it made of which values; None for others.
        prepared_gradients: what ``GradientTap.prepare`` returned; given to ``attach`` when the call ends.
        owner: the module that is called, None for a function.
        recompute: whether the call repeats a forward in a backward pass.
        brings: whether the forward and the backward of calls inside this one are selected with it.
        ticks: how many ticks of the flusher the call has been open for.
    """

    __slots__ = (
        "backward_name",
        "body",
        "brings",
        "moved",
        "name",
        "owner",
        "parent",
        "prepared_gradients",
        "recompute",
        "stack",
        "ticks",
    )

    def __init__(self, name: str, body: dict[str, Node] | None) -> None:
        self.name = name
        self.body = body
        self.backward_name: str | None = None
        self.parent: str | None = UNRELATED
        self.stack: int | None = None
        self.moved: Any = None
        self.prepared_gradients: Any = None
        self.owner: Any = None
        self.recompute = False
        self.brings: tuple[bool, bool] = (False, False)
        self.ticks = 0

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the journal line of the record."""
        line: dict[str, Any] = {"e": self.name}
        if self.body is not None:
            line["d"] = dict(self.body)  # a call that was still running when its step ended adds to it in its thread
        if self.stack is not None:
            line["s"] = self.stack
        if self.parent is not UNRELATED:
            line["p"] = self.parent
        yield line


class StackRecord:
    """The journal line that defines the number of a call stack."""

    __slots__ = ("frames", "number")

    def __init__(self, number: int, frames: list[str]) -> None:
        self.number = number
        self.frames = frames

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the journal line of the record."""
        yield {"k": self.number, "f": self.frames}


class EarlyRecord:
    """The present state of a running call, so that a process which dies inside the call leaves its inputs."""

    __slots__ = ("_line",)

    def __init__(self, record: CallRecord) -> None:
        self._line: dict[str, Any] = {"e": record.name, "d": dict(record.body or {})}
        if record.parent is not UNRELATED:
            self._line["p"] = record.parent

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the journal line of the record."""
        yield dict(self._line)


class HeaderRecord:
    """Fields of the header of dump.json that are known after the step has begun; None removes a field."""

    __slots__ = ("_fields",)

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the journal line of the record."""
        yield {"h": self._fields}


class HeaderItem:
    """One more item of a list in the header of dump.json."""

    __slots__ = ("_field", "_item")

    def __init__(self, field: str, item: Any) -> None:
        self._field = field
        self._item = item

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the journal line of the record."""
        yield {"a": {self._field: [self._item]}}
