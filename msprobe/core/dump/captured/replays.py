"""Replays of captured graphs, written as the calls of an eager step are: same names, order, stacks and parents.

The calls of a graph got their names while it was captured. A replay makes the same calls again: they are numbered on
from the calls of the step so far, and a graph that is replayed inside a call of a module has that call as parent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from msprobe.core.backend.protocols import TensorOps
from msprobe.core.capture.describe import Node
from msprobe.core.dump.captured.captured_graph import CapturedGraph, entry_name
from msprobe.core.dump.record.call_record import UNRELATED, CallRecord, StackRecord
from msprobe.core.dump.record.step_recorder import StepRecorder
from msprobe.core.dump.record.tensor_node import MeasuredTensors
from msprobe.core.naming.names import Phase


class Replays:
    """The replays of one step.

    Args:
        recorder: takes the records.
        ops: the tensor operations of the step.
        saver: saves tensors.
        frames: the call stacks of captured graphs.
        site_of: finds what numbers the eager calls, with which those of graphs are numbered.
    """

    def __init__(
        self,
        recorder: StepRecorder,
        ops: TensorOps[Any],
        saver: MeasuredTensors[Any],
        frames: Mapping[int, StackRecord],
        site_of: Callable[[str], Any] | None,
    ) -> None:
        self._recorder = recorder
        self._ops = ops
        self._saver = saver
        self._frames = frames
        self._site_of = site_of
        self._declared: set[int] = set()
        self._further: Counter[str] = Counter()
        self._gradients: Counter[str] = Counter()
        self._shift: dict[str, int] = {}
        self.count = 0

    def write(self, graph: CapturedGraph, parent: str | None, first: bool) -> None:
        """Write the calls of a graph that was just replayed.

        Args:
            graph: the graph.
            parent: the call around the replay.
            first: the graph was captured in this step, whose calls have been counted then.
        """
        values = graph.values
        if values is None:
            return
        self.count += 1
        names = _Names(self._shifts(graph, first), self._gradients, graph)
        made: dict[int, dict[str, Any]] = {}
        for node, tensor in values.constants:
            made[id(node)] = self._ops.describe(tensor, True)
        records = [self._copy(record, names, parent, made) for record in graph.records]
        values.arrive(lambda node: made.setdefault(id(node), {}))  # a call that never ended has no record
        self._saver.folder = self._recorder.nodes.folder
        for node, save_as, tensor in values.copies:
            if id(node) in made:
                self._saver.save(tensor, names.of_file(save_as), made[id(node)])
        for other in graph.others:
            self._recorder.sink.write(other)
        for record in records:
            self._recorder.write_call(record)

    # ---- inside ----

    def _shifts(self, graph: CapturedGraph, first: bool) -> dict[str, int]:
        """Return by how much the numbers of calls differ from those in the graph, by stem."""
        for stem, (number, count) in graph.calls.items():
            self._shift[stem] = 0 if first else self._count(stem, count) - number
        return self._shift

    def _count(self, stem: str, count: int) -> int:
        """Count so many calls, and return the number of the first."""
        site = None if self._site_of is None else self._site_of(stem)
        if site is None:
            self._further[stem] += count
            return self._further[stem] - count
        numbers = [next(site.calls) for _ in range(count)]
        return int(numbers[0])

    def _copy(
        self, record: CallRecord, names: _Names, parent: str | None, made: dict[int, dict[str, Any]]
    ) -> CallRecord:
        copy = CallRecord(names.of(record.name), None)
        if record.body is not None:
            copy.body = {section: _copied(node, made) for section, node in record.body.items()}
        copy.stack = record.stack
        if record.stack is not None and record.stack not in self._declared and record.stack in self._frames:
            self._declared.add(record.stack)
            self._recorder.sink.write(self._frames[record.stack])
        if record.parent is not UNRELATED:
            copy.parent = parent if record.parent is None else names.of(record.parent)
        return copy


class _Names:
    """The names of the calls of one replay.

    Args:
        shifts: what is added to the number of a call, by stem.
        gradients: how often the gradients of the parameters of a module were recorded in this step, by stem.
        graph: the graph that is replayed.
    """

    def __init__(self, shifts: Mapping[str, int], gradients: Counter[str], graph: CapturedGraph) -> None:
        self._shifts = shifts
        self._gradients = gradients
        self._known: dict[str, str] = {}
        for record in graph.records:
            name = entry_name(record.name)
            if name is not None and name.phase is Phase.PARAMETERS_GRAD and record.name not in self._known:
                self._known[record.name] = str(name.with_call(gradients[name.stem]))
                gradients[name.stem] += 1

    def of(self, text: str) -> str:
        """Return the name of the entry that is ``text`` in the graph."""
        known = self._known.get(text)
        if known is None:
            name = entry_name(text)
            shift = 0 if name is None else self._shifts.get(name.stem, 0)
            known = self._known[text] = text if not shift else str(name.with_call(name.call + shift))
        return known

    def of_file(self, save_as: str) -> str:
        """Return the name of a tensor file; it begins with the name of an entry and a dot."""
        head = next((text for text in self._heads(save_as) if text in self._known), "")
        return f"{self._known[head]}{save_as[len(head) :]}" if head else save_as

    def _heads(self, save_as: str) -> list[str]:
        parts = save_as.split(".")
        return [".".join(parts[:size]) for size in range(len(parts) - 1, 0, -1)]


def _copied(node: Node, made: dict[int, dict[str, Any]]) -> Node:
    """Return a copy of a node; ``made`` has the copies by the ``id`` of the original."""
    if isinstance(node, dict):
        copy = made.get(id(node))
        if copy is None:
            made[id(node)] = copy = {key: _copied(part, made) for key, part in node.items()}
        return copy
    return [_copied(part, made) for part in node] if isinstance(node, list) else node
