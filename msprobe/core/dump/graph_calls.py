"""Calls of modules inside compiled graphs: a graph tells when one begins, what it holds, and when it is over.

A graph runs in the order in which its values depend on each other, and calls that do not may overlap. Records wait
until it has run. They stand as in a dynamic graph then: calls in the order in which they began, those inside a call
before it, and the backward records the other way round.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from msprobe.core.capture.describe import Node
from msprobe.core.dump.graph_body import Path, Section, gradient_body, section_tree
from msprobe.core.dump.judging import tensor_nodes
from msprobe.core.dump.modules import ModuleSite
from msprobe.core.dump.record import CallRecord
from msprobe.core.dump.recording import Recording
from msprobe.core.dump.shield import shielded
from msprobe.core.log import logger, once

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


@dataclass(slots=True, eq=False)
class _Call:
    record: CallRecord
    above: str | None
    forward: bool
    backward: bool
    running: bool = True
    opened: int = 0
    closed: int = 0
    sections: dict[str, Section] = field(default_factory=dict)
    gradients: dict[str, Section] = field(default_factory=dict)
    inside: list[_Call] = field(default_factory=list)

    def returns(self) -> int:
        """When a dynamic graph has all its gradients, on the clock of the forward calls."""
        return self.opened if "output" in self.gradients else self.closed


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
        self._calls: dict[int, _Call] = {}
        self._outermost: list[_Call] = []
        self._open: list[tuple[str, _Call]] = []
        self._parents: dict[str, tuple[str | None, str | None]] = {}
        self._around: CallRecord | None = None
        self._running = False
        self._waiting: list[_Call] = []
        self._first: dict[str, _Call] = {}
        self._gradients: dict[str, tuple[ModuleSite, dict[str, Node | None]]] = {}
        self._gradient_runs: Counter[tuple[str, str]] = Counter()

    # ---- as a graph runs ----

    @shielded
    def run(self, around: CallRecord | None) -> None:
        """The program is about to run a graph, inside the call ``around``."""
        with self._lock:
            self.flush()
            self._around, self._running = around, True
            self._open.clear()
            self._first.clear()

    @shielded
    def ran(self) -> None:
        """The graph that the program called has run, and all its values are here."""
        with self._lock:
            self._running = False
            self.flush()
            self._open.clear()

    @shielded
    def begin(self, site: ModuleSite) -> int:
        """A call begins; the answer is its number, which everything that belongs to it names."""
        if self._closed:
            return 0
        with self._lock:
            number = next(_numbers) % 2**31
            self._calls[number] = call = self._made(site)
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
                if call.backward:
                    name = str(call.record.backward)
                    node = self._measured(name, f"{name}.{spot.section}", spot, tensor)
                    if not call.gradients:
                        self._waiting.append(call)
                    call.gradients.setdefault(spot.section, {})[spot.path] = node
                    self._hold()
            elif call.forward and spot.path not in call.sections.setdefault(spot.section, {}):
                name = call.record.name
                place = f"{name}.{_PLACES.get(spot.section, spot.section)}"
                call.sections[spot.section][spot.path] = self._measured(name, place, spot, tensor)

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
            if once(("gradient in parts", site.stem, key)):
                logger.warning(
                    "%s: the gradient of %s comes in parts (control flow, recomputation) and is not recorded",
                    *(site.stem, key),
                )

    @shielded
    def flush(self) -> None:
        """Write the records of what has arrived, in the order of a dynamic graph."""
        with self._lock:
            self._recording.held = None
            outermost, self._outermost = self._outermost, []
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
                if isinstance(entry, _Call):
                    self._write_backward(entry)
                else:
                    self._write_gradients(*entry)

    # ---- inside ----

    @property
    def _closed(self) -> bool:
        return self._recording.closed or not self._recording.plan.bodies

    def _hold(self) -> None:
        """Another record is on its way only when the graph has run; what is waiting comes before it."""
        if not self._running:
            self._recording.held = self.flush

    def _tick(self, begins: bool) -> int:
        self._clock.append(begins)
        return len(self._clock) - 1

    def _made(self, site: ModuleSite) -> _Call:
        """A call, with its place among the others."""
        recording, selection = self._recording, self._recording.selection
        turn = next(site.calls)
        record = CallRecord(f"{site.stem}.forward.{turn}", None)
        record.backward = f"{site.stem}.backward.{turn}"
        record.recompute = not self._running  # a gradient that runs a part of the graph once more
        path = site.stem.rpartition(".")[0]
        outer = self._outer(path)
        around = self._around if outer is None else outer.record
        if record.recompute and outer is None:
            parents = self._parents.get(site.stem, (None, None))
        else:
            parents = (None, None) if around is None else (around.name, around.backward)
            self._parents[site.stem] = parents
        if recording.plan.construct:
            record.parent = parents[0]
        keep = keep_backward = True
        if selection.listed is not None:
            brought = around.brings if around is not None and selection.inherits else (False, False)
            keep = brought[0] or selection.listed(record.name)
            keep_backward = brought[1] or selection.listed(record.backward)
            record.brings = (keep, keep_backward)
        modes = recording.modes
        call = _Call(record, parents[1], keep and modes.forward, keep_backward and modes.backward)
        (self._outermost if outer is None else outer.inside).append(call)
        self._open.append((path, call))
        return call

    def _outer(self, path: str) -> _Call | None:
        """The call that a new call of the module ``path`` is inside of: of the modules around it, the nearest, and of
        its calls the latest that still runs.
        """
        self._open = [(known, call) for known, call in self._open if call.running]
        around = [(len(known), number) for number, (known, _) in enumerate(self._open) if path.startswith(known + ".")]
        return self._open[max(around)[1]][1] if around else None

    def _write_forward(self, call: _Call) -> None:
        recording, record = self._recording, call.record
        call.opened = self._tick(begins=True)
        wanted = recording.in_scope(record.name) and call.forward
        for inner in call.inside:
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
        node = recording.values.node(tensor, saved)
        for statistic in recording.plan.unchosen:
            for described in tensor_nodes(node):
                described.pop(statistic, None)
        return node

    def _fill(self, call: _Call) -> None:
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

    def _write_backward(self, call: _Call) -> None:
        recording, name = self._recording, str(call.record.backward)
        sections, call.gradients = call.gradients, {}
        if not recording.in_scope(name):
            recording.pass_over(name)
            self._forget([list(paths.values()) for paths in sections.values()])
            return
        record = CallRecord(name, gradient_body(sections, recording.modes))
        if recording.plan.construct:
            record.parent = call.above
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
