"""The record of one call: what was seen at its begin and its end, as nodes ready for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msprobe.core.capture.describe import Node

UNRELATED = "\0"
"""Stands for "has no place in construct.json"; None there means "has no parent"."""


class CallRecord:
    """One call, open from begin to end. Slots because thousands of them are made in a step.

    ``body`` holds the sections of the entry in the order of dump.json (``input_args``, ``output``, ...); None means
    that the entry appears in construct.json only. ``backward`` is the name of the backward record that belongs to a
    forward one.
    """

    __slots__ = (
        "backward",
        "beats",
        "body",
        "brings",
        "creates",
        "grads",
        "name",
        "owner",
        "parent",
        "recompute",
        "stack",
    )

    def __init__(self, name: str, body: dict[str, Node] | None) -> None:
        self.name = name
        self.body = body
        self.backward: str | None = None
        self.parent: str | None = UNRELATED
        self.stack: int | None = None
        self.grads: Any = None
        self.owner: Any = None
        self.recompute = False
        self.creates = False
        self.brings: tuple[bool, bool] = (False, False)
        self.beats = 0

    def lines(self) -> Iterator[dict[str, Any]]:
        """The journal line of the record."""
        line: dict[str, Any] = {"e": self.name}
        if self.body is not None:
            line["d"] = self.body
        if self.stack is not None:
            line["s"] = self.stack
        if self.parent is not UNRELATED:
            line["p"] = self.parent
        yield line


class StackRecord:
    """Tells the journal how a stack number reads."""

    __slots__ = ("frames", "number")

    def __init__(self, number: int, frames: list[str]) -> None:
        self.number = number
        self.frames = frames

    def lines(self) -> Iterator[dict[str, Any]]:
        yield {"k": self.number, "f": self.frames}


class EarlyRecord:
    """The present state of a call that is still running, so that a process that dies inside it leaves its inputs."""

    __slots__ = ("_line",)

    def __init__(self, record: CallRecord) -> None:
        self._line: dict[str, Any] = {"e": record.name, "d": dict(record.body or {})}
        if record.parent is not UNRELATED:
            self._line["p"] = record.parent

    def lines(self) -> Iterator[dict[str, Any]]:
        yield dict(self._line)
