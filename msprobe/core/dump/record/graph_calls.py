"""Calls of modules inside compiled graphs: a graph reports the begin, the values and the end of each call.

A graph runs in the order in which its values depend on each other, and independent calls may overlap. So records wait
until it has run. Then they are written as in a dynamic graph: calls in the order in which they began, the calls inside
a call before it, and the backward records in reverse.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msprobe.core.capture.describe import Node
from msprobe.core.dump.record.call_record import CallRecord, HeaderItem
from msprobe.core.dump.record.error_boundary import never_raises
from msprobe.core.dump.record.graph_tree import GraphCall, GraphTree, Path, gradient_body, in_order, section_tree
from msprobe.core.dump.record.module_names import NamedModule
from msprobe.core.dump.record.step_recorder import StepRecorder
from msprobe.core.dump.record.tensor_node import tensor_nodes
from msprobe.core.store.record_walk import NOT_MEASURED

BACKWARD, PARAMETERS_GRAD = "backward", "parameters_grad"
_FILE_SECTIONS = {"input_args": "input", "input_kwargs": "kwargs"}
_numbers = itertools.count(1)  # no call of an earlier step has the number of a present one


@dataclass(frozen=True, slots=True)
class Spot:
    """The position of one tensor in a call.

    Attributes:
        phase: ``forward``, ``backward``, or ``spare`` for a forward value that the backward pass repeats.
        section: the key in the entry of dump.json.
        path: the path inside the section.
    """

    phase: str
    section: str
    path: Path


class GraphCalls:
    """Receive what compiled graphs report in one step. May be called from any thread.

    Args:
        recorder: measures the values and takes the records.
    """

    def __init__(self, recorder: StepRecorder) -> None:
        self.errors = recorder.errors
        self._recorder = recorder
        self._lock = threading.RLock()
        self._clock: list[bool] = []  # one entry per begin (True) or end (False) of a call, in the order of the program
        self._tree = GraphTree(recorder)
        self._calls: dict[int, GraphCall] = {}
        self._waiting: list[GraphCall] = []
        self._first: dict[str, GraphCall] = {}
        self._gradients: dict[str, tuple[NamedModule, dict[str, Node]]] = {}
        self._gradient_runs: Counter[tuple[str, str]] = Counter()
        self._not_measured: set[str] = set()

    # ---- as a graph runs ----

    @never_raises
    def run(self, around: CallRecord | None, parts: Sequence[str]) -> None:
        """Note that a graph is about to run inside the call ``around``; the model itself calls ``parts``."""
        with self._lock:
            self.flush()
            self._tree.run(around, parts)
            self._first.clear()

    @never_raises
    def ran(self) -> None:
        """Note that the graph has run, and that all its values have arrived."""
        with self._lock:
            self._tree.ran()
            self.flush()

    @never_raises
    def begin(self, site: NamedModule, parts: Sequence[str] = ()) -> int:
        """Begin a call and return its number, which everything that belongs to the call names.

        Args:
            parts: the names of the modules inside it, in the order in which its source calls them.
        """
        if self._closed:
            return 0
        with self._lock:
            number = next(_numbers) % 2**31
            self._calls[number] = call = self._tree.begin(site, parts)
            self._first.setdefault(site.stem, call)
            self._hold()
            return number

    @never_raises
    def value(self, number: int, spot: Spot, tensor: Any) -> None:
        """Take one value of a call; it is measured at once, so that ``tensor`` may change afterwards."""
        call = self._calls.get(number)
        if call is None or self._closed:
            return
        with self._lock:
            if spot.phase == BACKWARD:
                self._backward_value(call, spot, tensor)
            elif call.forward and spot.path not in call.sections.setdefault(spot.section, {}):
                prefix = f"{call.record.name}.{_FILE_SECTIONS.get(spot.section, spot.section)}"
                node = self._measured(call.record.name, prefix, spot, tensor)
                call.sections[spot.section][spot.path] = node

    @never_raises
    def end(self, number: int) -> None:
        """End a call."""
        call = self._calls.get(number)
        if call is not None:
            call.running = False

    @never_raises
    def gradient(self, site: NamedModule, key: str, tensor: Any) -> None:
        """Take the gradient of a parameter.

        Under control flow or recomputation it arrives several times in a run: first what the inner graphs have summed
        so far, and last, because it depends on all of that, the whole gradient. The last one is kept.
        """
        if self._closed or not self._recorder.modes.parameters_grad:
            return
        with self._lock:
            nodes = self._gradients.setdefault(site.stem, (site, {}))[1]
            self._hold()
            self._remove_files(nodes.get(key))
            name = self._gradient_name(site, key)
            nodes[key] = self._measured(name, name, Spot("", "", (key,)), tensor)

    @never_raises
    def not_measured(self, site: NamedModule, phase: str = "") -> None:
        """Write into the header that calls of a module, or those of a phase, are not reported."""
        name = f"{site.stem}.{phase}" if phase else site.stem
        with self._lock:
            if name not in self._not_measured and not self._closed:
                self._not_measured.add(name)
                self._recorder.sink.write(HeaderItem(NOT_MEASURED, name))

    @never_raises
    def flush(self) -> None:
        """Write the records of what has arrived, in the order of a dynamic graph."""
        with self._lock:
            self._recorder.before_record = None
            outermost = self._tree.take()
            waiting, self._waiting = self._waiting, []
            gradients, self._gradients = self._gradients, {}
            if self._closed or not (outermost or waiting or gradients):
                return
            self._recorder.nodes.settle()  # a file may have to be removed again
            for call in outermost:
                self._write_forward(call)
            entries: list[tuple[float, Any]] = [(-call.returns(), call) for call in waiting]
            entries += [(self._moment(stem), nodes) for stem, nodes in gradients.items()]
            for _, entry in sorted(entries, key=lambda pair: pair[0]):
                if isinstance(entry, GraphCall):
                    self._write_backward(entry)
                else:
                    self._write_gradients(*entry)

    # ---- inside ----

    def _backward_value(self, call: GraphCall, spot: Spot, tensor: Any) -> None:
        if call.backward:
            name = str(call.record.backward_name)
            node = self._measured(name, f"{name}.{spot.section}", spot, tensor)
            if not call.gradients:
                self._waiting.append(call)
            call.gradients.setdefault(spot.section, {})[spot.path] = node
            self._hold()

    @property
    def _closed(self) -> bool:
        return self._recorder.closed or not self._recorder.plan.bodies

    def _hold(self) -> None:
        """Write the waiting records before the next record, unless the graph still runs."""
        if not self._tree.running:
            self._recorder.before_record = self.flush

    def _tick(self, begins: bool) -> int:
        self._clock.append(begins)
        return len(self._clock) - 1

    def _write_forward(self, call: GraphCall) -> None:
        recorder, record = self._recorder, call.record
        call.opened = self._tick(begins=True)
        wanted = recorder.in_scope(record.name) and call.forward and recorder.samples(record.name)
        for inner in in_order(call.inside, call.parts):
            self._write_forward(inner)
        call.closed = self._tick(begins=False)
        if wanted:
            self._fill(call)
        else:
            recorder.skip(record.name)
            self._remove_files([list(paths.values()) for paths in call.sections.values()])
        call.sections, call.inside = {}, []
        recorder.write_call(record)

    def _measured(self, name: str, prefix: str, spot: Spot, tensor: Any) -> Node:
        """Return the node of a value; its file, where one is written, is named ``prefix`` and the path."""
        recorder = self._recorder
        save_as = recorder.save_name(name) and ".".join([prefix, *(str(step) for step in spot.path)])
        return recorder.describer.node(tensor, save_as)

    def _fill(self, call: GraphCall) -> None:
        """Set the sections of a forward entry, in the order of dump.json."""
        modes, sections = self._recorder.modes, call.sections
        body: dict[str, Any] = {}
        if modes.input:
            body["input_args"] = section_tree(sections.get("input_args", {}), list)
            body["input_kwargs"] = section_tree(sections.get("input_kwargs", {}), dict)
        if call.record.recompute:
            body["is_recompute"] = True
        training = call.record.owner.training()
        if training is not None:
            body["training"] = training
        if modes.output:
            body["output"] = section_tree(sections.get("output", {}), list)
            body["parameters"] = section_tree(sections.get("parameters", {}), dict)
        call.record.body = body

    def _write_backward(self, call: GraphCall) -> None:
        recorder, name = self._recorder, str(call.record.backward_name)
        sections, call.gradients = call.gradients, {}
        record = CallRecord(name, None)
        if recorder.plan.construct:
            record.parent = call.above
        if recorder.in_scope(name) and recorder.samples(call.record.name):
            record.body = gradient_body(sections, recorder.modes)
        else:
            recorder.skip(name)
            self._remove_files([list(paths.values()) for paths in sections.values()])
        recorder.write_call(record)

    def _write_gradients(self, site: NamedModule, nodes: dict[str, Node]) -> None:
        recorder = self._recorder
        by_name: dict[str, dict[str, Any]] = {}
        for key, node in nodes.items():
            name = self._gradient_name(site, key)
            self._gradient_runs[site.stem, key] += 1
            by_name.setdefault(name, {})[key] = [node]
        for name, body in by_name.items():
            listed = recorder.in_scope(name) and recorder.lists_gradients_of(site.stem, name)
            if listed and recorder.samples(name):
                recorder.write_call(CallRecord(name, body))
            else:
                recorder.skip(name)
                self._remove_files(list(body.values()))

    def _gradient_name(self, site: NamedModule, key: str) -> str:
        return f"{site.stem}.parameters_grad.{self._gradient_runs[site.stem, key]}"

    def _moment(self, stem: str) -> float:
        """Return when the gradients of a module's parameters are complete, negated on the clock of the forward calls.

        That is after the backward of the first call that used the parameter, and after those of the calls around it
        that have their gradients at the same moment.
        """
        call = self._first.get(stem)
        if call is None:
            return 1.0
        moment = call.opened
        while moment and self._clock[moment - 1]:
            moment -= 1
        return 0.5 - moment

    def _remove_files(self, node: Node) -> None:
        folder = self._recorder.nodes.folder
        for tensor in tensor_nodes(node):
            if folder is not None and "data_name" in tensor:
                folder.joinpath(tensor.pop("data_name")).unlink(missing_ok=True)
