"""Nesting and order of the calls in a compiled graph, and the bodies of their entries.

A graph reports when calls begin and end (``GraphTree``). Calls that do not depend on each other run in any order: they
are sorted as the source of the cell around them calls its parts, where that order is certain. Values arrive as single
tensors with their paths; ``section_tree`` and ``gradient_body`` build the sections of an entry from them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msprobe.core.capture.describe import Node
from msprobe.core.dump.record.call_record import CallRecord
from msprobe.core.dump.record.module_names import NamedModule
from msprobe.core.dump.record.step_recorder import StepRecorder
from msprobe.core.selection import DataMode

Path = tuple[int | str, ...]
Section = dict[Path, Node]


class GraphTree:
    """The calls of one step as trees, one run of a graph after the other.

    Attributes:
        running: whether a graph runs.
    """

    def __init__(self, recorder: StepRecorder) -> None:
        self._recorder = recorder
        self._outermost: list[GraphCall] = []
        self._begun: dict[str, list[GraphCall]] = defaultdict(list)
        self._parts: Sequence[str] = ()
        self._parents: dict[str, tuple[str | None, str | None]] = {}
        self._around: CallRecord | None = None
        self.running = False

    def run(self, around: CallRecord | None, parts: Sequence[str]) -> None:
        """Note that a graph is about to run inside the call ``around``; the model itself calls ``parts``."""
        self._around, self._parts, self.running = around, parts, True
        self._begun.clear()

    def ran(self) -> None:
        """Note that the graph has run."""
        self.running = False
        self._begun.clear()

    def take(self) -> list[GraphCall]:
        """Return and forget the outermost calls since the last ``take``, in order."""
        outermost, self._outermost = self._outermost, []
        return in_order(outermost, self._parts)

    def begin(self, site: NamedModule, parts: Sequence[str]) -> GraphCall:
        """Return the call that begins now, placed inside the call that it belongs to."""
        recorder, selection, modes = self._recorder, self._recorder.selection, self._recorder.modes
        number = next(site.calls)
        record = CallRecord(f"{site.stem}.forward.{number}", None)
        record.backward_name = f"{site.stem}.backward.{number}"
        record.owner = site
        record.recompute = not self.running  # a gradient that runs a part of the graph once more
        path = site.stem.rpartition(".")[0]
        outer = call_around(path, self._begun)
        around = self._around if outer is None else outer.record
        if record.recompute and outer is None:
            parents = self._parents.get(site.stem, (None, None))
        else:
            parents = (None, None) if around is None else (around.name, around.backward_name)
            self._parents[site.stem] = parents
        if recorder.plan.construct:
            record.parent = parents[0]
        record.brings = keep, keep_backward = True, True
        if selection.listed is not None:
            brought = around.brings if around is not None and selection.inherits else (False, False)
            keep = brought[0] or selection.listed(record.name)
            keep_backward = brought[1] or selection.listed(record.backward_name)
            record.brings = (keep, keep_backward)
        wanted = keep and modes.forward, keep_backward and modes.backward
        call = GraphCall(record, parents[1], *wanted, path, parts)
        (self._outermost if outer is None else outer.inside).append(call)
        self._begun[path].append(call)
        return call


@dataclass(slots=True, eq=False)
class GraphCall:
    """One call of a module, with the values that have arrived.

    Attributes:
        record: the record of the forward.
        above: the backward entry of the call around it.
        forward, backward: whether each is recorded.
        path: the path of the module.
        parts: the names of the modules inside it, in the order in which its source calls them.
        running: whether the call has not ended.
        opened, closed: begin and end on the clock of the forward calls, set when their order is known.
        sections: the nodes of the forward entry, by section and path.
        gradients: the nodes of the backward entry, by section and path.
        inside: the calls inside this one.
    """

    record: CallRecord
    above: str | None
    forward: bool
    backward: bool
    path: str
    parts: Sequence[str]
    running: bool = True
    opened: int = 0
    closed: int = 0
    sections: dict[str, Section] = field(default_factory=dict)
    gradients: dict[str, Section] = field(default_factory=dict)
    inside: list[GraphCall] = field(default_factory=list)

    def misses(self, path: str) -> bool:
        """Return whether its source calls the part ``path`` more often than it was called so far."""
        above, _, part = path.rpartition(".")
        return above == self.path and self.parts.count(part) > sum(call.path == path for call in self.inside)

    def returns(self) -> int:
        """Return when a dynamic graph would have all its gradients, on the clock of the forward calls."""
        return self.opened if "output" in self.gradients else self.closed


def call_around(path: str, begun: Mapping[str, Sequence[GraphCall]]) -> GraphCall | None:
    """Return the call that a new call of the module ``path`` is inside of; None for an outermost call.

    It is a call of the nearest module around: the latest one that still runs, else the latest one that misses this
    part. The second rule is needed because the end of a call may be reported before the begin of a part of it: a
    graph orders neither after the other.

    Args:
        path: the path of the module that is called.
        begun: the calls so far, by the path of their module.
    """
    above = path.rpartition(".")[0]
    while above:
        calls = begun.get(above, ())
        outer = next((call for call in reversed(calls) if call.running), None)
        outer = outer or next((call for call in reversed(calls) if call.misses(path)), None)
        if outer is not None:
            return outer
        above = above.rpartition(".")[0]
    return None


def in_order(calls: list[GraphCall], parts: Sequence[str]) -> list[GraphCall]:
    """Return ``calls`` in the order in which the source calls ``parts``.

    Where a part was called more or less often than the source says (loops, lists of cells, other methods), the calls
    stay in the order in which they began.
    """
    names = [call.path.rpartition(".")[2] for call in calls]
    if Counter(names) != Counter(part for part in parts if part in names):
        return calls
    turns: dict[str, list[int]] = defaultdict(list)
    for turn, part in enumerate(parts):
        turns[part].append(turn)
    positions = [turns[name].pop(0) for name in names]
    return [call for _, call in sorted(zip(positions, calls, strict=True), key=lambda pair: pair[0])]


def section_tree(leaves: Section, kind: type) -> Node:
    """Return lists and dicts with each leaf at its path, and null at positions of a list that got no leaf."""
    below: dict[int | str, Section] = {}
    for path, node in leaves.items():
        below.setdefault(path[0], {})[path[1:]] = node
    parts = {
        step: inner[()] if () in inner else section_tree(inner, _container(inner)) for step, inner in below.items()
    }
    if kind is dict:
        return dict(parts)
    length = 1 + max((step for step in parts if isinstance(step, int)), default=-1)
    return [parts.get(position) for position in range(length)]


def gradient_body(sections: dict[str, Section], modes: DataMode) -> dict[str, Any]:
    """Return the body of a backward entry: ``input`` are gradients of outputs, ``output`` those of the arguments."""
    body: dict[str, Any] = {}
    if modes.input:
        body["input"] = section_tree(sections.get("input", {}), list)
    if modes.output:
        body["output"] = section_tree(sections.get("output", {}), list)
    return body


def _container(inner: Section) -> type:
    return list if all(isinstance(path[0], int) for path in inner) else dict
