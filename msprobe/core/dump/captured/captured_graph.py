"""The records of one captured graph: what its calls are, without numbers, until a replay brings them.

While a graph is captured, the usual taps and collector see its calls. ``CapturedNodes`` makes the nodes of their
tensors, and ``CapturedSink`` takes their records, where otherwise a step would be written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msprobe.core.backend.captured_graphs import CapturedValues, CaptureOps
from msprobe.core.capture.describe import Node
from msprobe.core.dump.record.call_record import CallRecord, StackRecord
from msprobe.core.naming.names import DebugName, EntryName, Phase
from msprobe.core.naming.parser import NameSyntaxError, parse_entry
from msprobe.core.store.sink import Record


class CapturedGraph:
    """One graph and what was seen while it was captured.

    Attributes:
        records: the records of its calls, in the order in which they ended.
        others: the fields and items of the header that were noted.
        values: what the graph computes at each replay; None until the capture is over.
        calls: by the stem of their names, the number that the first call had and how many there are.
    """

    def __init__(self) -> None:
        self.records: list[CallRecord] = []
        self.others: list[Record] = []
        self.values: CapturedValues | None = None
        self.calls: dict[str, tuple[int, int]] = {}

    def end(self, values: CapturedValues) -> None:
        """End the capture: the graph computes ``values`` at each replay."""
        self.values = values
        for record in self.records:
            name = entry_name(record.name)
            if name is not None and name.call is not None and name.phase is Phase.FORWARD:
                first, count = self.calls.get(name.stem, (name.call, 0))
                self.calls[name.stem] = min(first, name.call), count + 1


def entry_name(text: str) -> Any:
    """Return the name of a call; None for a part of the step such as ``optimizer``, which has no number."""
    try:
        name: EntryName = parse_entry(text)
    except NameSyntaxError:
        return None
    return None if isinstance(name, DebugName) else name


class CapturedSink:
    """Takes the records of the graph that is being captured (implements ``Sink``).

    A hook of the backward pass may belong to a graph that was captured before: what it reports belongs to the present
    one too.

    Attributes:
        graph: the graph that is being captured; None where none is, and what arrives is dropped.
        frames: the call stacks of all graphs by number.
    """

    def __init__(self) -> None:
        self.graph: CapturedGraph | None = None
        self.frames: dict[int, StackRecord] = {}

    def write(self, record: Record) -> None:
        """Take a record."""
        if isinstance(record, StackRecord):
            self.frames[record.number] = record
        elif self.graph is None:
            return
        elif isinstance(record, CallRecord):
            self.graph.records.append(record)
        else:
            self.graph.others.append(record)

    def publish(self) -> None:
        """Do nothing: there is no file."""

    def close(self) -> None:
        """Do nothing: there is no file."""


class CapturedNodes:
    """Makes the nodes of tensors while a graph is captured (implements ``TensorNodes``).

    Args:
        ops: measures them.
        sink: takes the records of the graph.
    """

    folder: Path | None = None

    def __init__(self, ops: CaptureOps, sink: CapturedSink) -> None:
        self._ops = ops
        self._sink = sink

    def leaf(self, tensor: Any, save_as: str, around: tuple[int, ...] = ()) -> Node:
        """Return the node of ``tensor``, which each replay brings numbers for; ``save_as`` names its file."""
        if self._sink.graph is None:  # a hook of a call that was captured runs outside of every capture
            return None
        node = self._ops.describe(tensor, True)
        if save_as:
            self._ops.keep(tensor, node, save_as)
        return node

    def settle(self) -> None:
        """Do nothing: a replay completes the nodes."""

    def move(self, folder: Path) -> None:
        """Do nothing: there are no files."""
