"""Backward records: filled as gradients arrive, written when the last one is there.

``input`` holds the gradients of the call's outputs, ``output`` those of its arguments in the order of the arguments,
with null where none flows. A second backward pass through the same call (retain_graph) replaces the record of the
first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msprobe.core.backend.protocols import Template
from msprobe.core.capture.describe import Node
from msprobe.core.dump.record import CallRecord
from msprobe.core.dump.recording import Recording
from msprobe.core.dump.shield import shielded

NodeMaker = Callable[[Any, str], Node]


class BackwardCalls:
    """The backward calls of one step that have begun and not ended."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._open: dict[int, BackwardCall] = {}

    def begin(self, call: BackwardCall) -> CallRecord:
        """The record of a call's present backward pass; made at its first gradient."""
        if call.record is None:
            self._open[id(call)] = call
            call.record = self.new_record(call)
        return call.record

    def new_record(self, call: BackwardCall) -> CallRecord:
        record = CallRecord(call.name, None)
        record.parent = call.parent
        if self.recording.in_scope(call.name) and self.recording.plan.bodies:
            record.body = {}
        return record

    def end(self, call: BackwardCall) -> None:
        self._open.pop(id(call), None)
        record = call.record
        if record is not None:
            self.recording.finish(record)
        call.reset()

    def running_module(self) -> str | None:
        """The backward entry of the module whose backward began last and has not ended."""
        return next((call.name for call in reversed(self._open.values()) if call.is_module), None)

    def finish(self) -> None:
        """The step is over: write the calls whose gradients never all came."""
        for call in list(self._open.values()):
            call.grad_inputs({})


class BackwardCall:
    """Receives the gradients of one call (implements ``GradientReceiver``)."""

    __slots__ = (
        "_awaited",
        "_calls",
        "_keywords",
        "_outputs",
        "_positional",
        "creates",
        "errors",
        "is_module",
        "name",
        "parent",
        "record",
    )

    def __init__(self, calls: BackwardCalls, name: str, parent: str | None, template: Template) -> None:
        self._calls = calls
        self.errors = calls.recording.errors
        self.name = name
        self.parent = parent
        self.is_module = False
        self.creates = False
        self.record: CallRecord | None = None
        self._awaited = 0
        self._outputs: list[Node] | None = None
        self._positional, self._keywords = template

    def expect(self, outputs: int) -> None:
        self._awaited = outputs

    @shielded
    def grad_output(self, position: int, gradient: Any) -> None:
        recording = self._calls.recording
        if recording.closed:
            return
        if self._calls.begin(self).body is not None and recording.modes.input:
            place = recording.place(self.name)
            self._nodes()[position] = recording.values.node(gradient, place and f"{place}.input.{position}")

    @shielded
    def grad_inputs(self, gradients: Mapping[int, Any]) -> None:
        recording = self._calls.recording
        if recording.closed:
            return
        body = self._calls.begin(self).body
        if body is not None and recording.modes.input:
            body["input"] = self._nodes()
        if body is not None and recording.modes.output:
            body["output"] = self._fill(gradients)
        self._calls.end(self)

    @shielded
    def whole(self, grad_outputs: Sequence[Any], grad_inputs: Mapping[int, Any]) -> None:
        """The usual case, without the bookkeeping of an open record."""
        recording = self._calls.recording
        if recording.closed:
            return
        record = self._calls.new_record(self)
        if record.body is not None and recording.modes.input:
            place = recording.place(self.name)
            record.body["input"] = recording.values.sequence(grad_outputs, place and f"{place}.input")
        if record.body is not None and recording.modes.output:
            record.body["output"] = self._fill(grad_inputs)
        recording.finish(record)

    def reset(self) -> None:
        """Ready for another backward pass."""
        self.record = None
        self._outputs = None

    def _nodes(self) -> list[Node]:
        """One place for each gradient of an output, made when the first comes: most calls are told of all at once."""
        if self._outputs is None:
            self._outputs = [None] * self._awaited
        return self._outputs

    def _fill(self, gradients: Mapping[int, Any]) -> list[Node]:
        """The arguments' template with each slot replaced by the node of its gradient."""
        recording = self._calls.recording
        if self.creates and recording.births is not None:
            recording.births.made(tuple(gradients.values()))
        node, place = recording.values.node, recording.place(self.name) and f"{self.name}.output"
        filled = [
            None if shape is None else _fill(shape, gradients, node, place and f"{place}.{number}")
            for number, shape in enumerate(self._positional)
        ]
        if self._keywords:
            filled.append(_fill(self._keywords, gradients, node, place and f"{place}.{len(filled)}"))
        return filled


def _fill(shape: Any, gradients: Mapping[int, Any], node: NodeMaker, place: str) -> Node:
    if isinstance(shape, int):
        return node(gradients.get(shape), place)
    if isinstance(shape, list):
        return [_fill(part, gradients, node, place and f"{place}.{number}") for number, part in enumerate(shape)]
    if isinstance(shape, dict):
        return {key: _fill(part, gradients, node, place and f"{place}.{key}") for key, part in shape.items()}
    return None
