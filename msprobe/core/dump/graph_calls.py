"""Calls of modules inside compiled graphs: a graph tells when one begins, what it holds, and when it is over.

A graph runs in the order in which its values depend on each other, and calls that do not may overlap. Records wait
until it has run. They stand as in a dynamic graph then: calls in the order in which they began, those inside a call
before it, and the backward records the other way round.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msprobe.core.capture.describe import Node
from msprobe.core.dump.graph_body import Path, gradient_body, section_tree
from msprobe.core.dump.graph_tree import GraphCall, GraphTree, in_order
from msprobe.core.dump.judging import tensor_nodes
from msprobe.core.dump.modules import ModuleSite
from msprobe.core.dump.record import CallRecord
from msprobe.core.dump.recording import Recording
from msprobe.core.dump.shield import shielded
from msprobe.core.log import first_time, logger

BACKWARD, PARAMETERS_GRAD = "backward", "parameters_grad"
_PLACES = {"input_args": "input", "input_kwargs": "kwargs"}
_numbers = itertools.count(1)  # no call of an earlier step has the number of a present one


@dataclass(frozen=True, slots=True)
class Spot:
    """One tensor of a call: the key in the entry of dump.json, and the path inside it. What comes with ``phase`` spare
    is a forward value once more, from the backward pass.
    """

    phase: str
    section: str
    path: Path


class GraphCalls:
    """What compiled graphs hand over in one step. May be called from any thread.

    Args:
        recording: measures the values and takes the records.
    """

    def __init__(self, recording: Recording) -> None:
        self.errors = recording.errors
        self._recording = recording
        self._lock = threading.RLock()
        self._clock: list[bool] = []  # of the program: did a call begin (or end) then?
        self._tree = GraphTree(recording)
        self._calls: dict[int, GraphCall] = {}
        self._waiting: list[GraphCall] = []
        self._first: dict[str, GraphCall] = {}
        self._gradients: dict[str, tuple[ModuleSite, dict[str, Node | None]]] = {}
        self._gradient_runs: Counter[tuple[str, str]] = Counter()

    # ---- as a graph runs ----

    @shielded
    def run(self, around: CallRecord | None, parts: Sequence[str]) -> None:
        """The program is about to run a graph, inside the call ``around``; ``parts`` are what the model calls."""
        with self._lock:
            self.flush()
            self._tree.run(around, parts)
            self._first.clear()

    @shielded
    def ran(self) -> None:
        """The graph that the program called has run, and all its values are here."""
        with self._lock:
            self._tree.ran()
            self.flush()

    @shielded
    def begin(self, site: ModuleSite, parts: Sequence[str] = ()) -> int:
        """A call begins; the answer is its number, which everything that belongs to it names.

        ``parts`` are the names of the modules inside it, as its source calls them.
        """
        if self._closed:
            return 0
        with self._lock:
            number = next(_numbers) % 2**31
            self._calls[number] = call = self._tree.begin(site, parts)
            self._first.setdefault(site.stem, call)
            self._hold()
            return number

    @shielded
    def value(self, number: int, spot: Spot, tensor: Any) -> None:
        """One value of a call; measured at once, so that ``tensor`` may change afterwards."""
        call = self._calls.get(number)
        if call is None or self._closed:
            return
        with self._lock:
            if spot.phase == BACKWARD:
                self._backward_value(call, spot, tensor)
            elif call.forward and spot.path not in call.sections.setdefault(spot.section, {}):
                place = f"{call.record.name}.{_PLACES.get(spot.section, spot.section)}"
                node = self._measured(call.record.name, place, spot, tensor)
                call.sections[spot.section][spot.path] = node

    @shielded
    def end(self, number: int) -> None:
        """A call is over."""
        call = self._calls.get(number)
        if call is not None:
            call.running = False

    @shielded
    def gradient(self, site: ModuleSite, key: str, tensor: Any) -> None:
        """The gradient of a parameter."""
        if self._closed or not self._recording.modes.parameters_grad:
            return
        with self._lock:
            found = self._gradients.setdefault(site.stem, (site, {}))[1]
            self._hold()
            if key not in found:
                name = self._gradient_name(site, key)
                found[key] = self._measured(name, name, Spot("", "", (key,)), tensor)
                return
            self._forget(found[key])
            found[key] = None
            if first_time(("gradient in parts", site.stem, key)):
                logger.warning(
                    "%s: the gradient of %s comes in parts (control flow, recomputation) and is not recorded",
                    *(site.stem, key),
                )

    @shielded
    def flush(self) -> None:
        """Write the records of what has arrived, in the order of a dynamic graph."""
        with self._lock:
            self._recording.precedes = None
            outermost = self._tree.take()
            waiting, self._waiting = self._waiting, []
            gradients, self._gradients = self._gradients, {}
            if self._closed or not (outermost or waiting or gradients):
                return
            if self._recording.tensors is not None:
                self._recording.tensors.settle()  # a file may have to go again
            for call in outermost:
                self._write_forward(call)
            entries: list[tuple[float, Any]] = [(-call.returns(), call) for call in waiting]
            entries += [(self._turn(stem), found) for stem, found in gradients.items()]
            for _, entry in sorted(entries, key=lambda one: one[0]):
                if isinstance(entry, GraphCall):
                    self._write_backward(entry)
                else:
                    self._write_gradients(*entry)

    # ---- inside ----

    def _backward_value(self, call: GraphCall, spot: Spot, tensor: Any) -> None:
        if call.backward:
            name = str(call.record.backward)
            node = self._measured(name, f"{name}.{spot.section}", spot, tensor)
            if not call.gradients:
                self._waiting.append(call)
            call.gradients.setdefault(spot.section, {})[spot.path] = node
            self._hold()

    @property
    def _closed(self) -> bool:
        return self._recording.closed or not self._recording.plan.bodies

    def _hold(self) -> None:
        """Another record is on its way only when the graph has run; what is waiting comes before it."""
        if not self._tree.running:
            self._recording.precedes = self.flush

    def _tick(self, begins: bool) -> int:
        self._clock.append(begins)
        return len(self._clock) - 1

    def _write_forward(self, call: GraphCall) -> None:
        recording, record = self._recording, call.record
        call.opened = self._tick(begins=True)
        wanted = recording.in_scope(record.name) and call.forward
        for inner in in_order(call.inside, call.parts):
            self._write_forward(inner)
        call.closed = self._tick(begins=False)
        if wanted:
            self._fill(call)
        else:
            recording.pass_over(record.name)
            self._forget([list(paths.values()) for paths in call.sections.values()])
        call.sections, call.inside = {}, []
        recording.finish(record)

    def _measured(self, name: str, place: str, spot: Spot, tensor: Any) -> Node:
        """The node of a value; its file, where one is asked for, has its name from ``place`` and the path."""
        recording = self._recording
        saved = recording.place(name) and ".".join([place, *(str(step) for step in spot.path)])
        return recording.values.node(tensor, saved)

    def _fill(self, call: GraphCall) -> None:
        """The sections of a forward entry, in the order of dump.json."""
        modes, sections = self._recording.modes, call.sections
        body: dict[str, Any] = {}
        if modes.input:
            body["input_args"] = section_tree(sections.get("input_args", {}), list)
            body["input_kwargs"] = section_tree(sections.get("input_kwargs", {}), dict)
        if call.record.recompute:
            body["is_recompute"] = True
        if modes.output:
            body["output"] = section_tree(sections.get("output", {}), list)
            body["parameters"] = section_tree(sections.get("parameters", {}), dict)
        call.record.body = body

    def _write_backward(self, call: GraphCall) -> None:
        recording, name = self._recording, str(call.record.backward)
        sections, call.gradients = call.gradients, {}
        record = CallRecord(name, None)
        if recording.plan.construct:
            record.parent = call.above
        if recording.in_scope(name):
            record.body = gradient_body(sections, recording.modes)
        else:
            recording.pass_over(name)
            self._forget([list(paths.values()) for paths in sections.values()])
        recording.finish(record)

    def _write_gradients(self, site: ModuleSite, found: dict[str, Node | None]) -> None:
        recording = self._recording
        by_name: dict[str, dict[str, Any]] = {}
        for key, node in found.items():
            name = self._gradient_name(site, key)
            self._gradient_runs[site.stem, key] += 1
            if node is not None:
                by_name.setdefault(name, {})[key] = [node]
        for name, body in by_name.items():
            if recording.in_scope(name) and recording.lists_gradients_of(site.stem, name):
                recording.finish(CallRecord(name, body))
            else:
                recording.pass_over(name)
                self._forget(list(body.values()))

    def _gradient_name(self, site: ModuleSite, key: str) -> str:
        return f"{site.stem}.parameters_grad.{self._gradient_runs[site.stem, key]}"

    def _turn(self, stem: str) -> float:
        """A parameter's gradient is whole after the backward of the first call that used it, and of those around it
        that have their gradients at the same moment.
        """
        call = self._first.get(stem)
        if call is None:
            return 1.0
        moment = call.opened
        while moment and self._clock[moment - 1]:
            moment -= 1
        return 0.5 - moment

    def _forget(self, node: Node) -> None:
        tensors = self._recording.tensors
        for tensor in tensor_nodes(node):
            if tensors is not None and tensors.folder is not None and "data_name" in tensor:
                (tensors.folder / tensor.pop("data_name")).unlink(missing_ok=True)
