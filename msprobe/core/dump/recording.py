"""What the observers of one step share: the switches, the way from values to nodes, and the way of a record to the
sink.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msprobe.core.backend.model import Backend
from msprobe.core.backend.protocols import Births
from msprobe.core.capture.describe import Describer
from msprobe.core.dump.leaf import LeafTask, Leaves
from msprobe.core.dump.plan import DumpPlan
from msprobe.core.dump.record import UNRELATED, CallRecord
from msprobe.core.dump.shield import ErrorLog
from msprobe.core.selection.build import Selection
from msprobe.core.store.sink import Sink

NAMES_SHOWN = 5


class Recording:
    """One step being recorded. ``closed`` ends it: whatever still arrives afterwards is ignored."""

    def __init__(self, plan: DumpPlan, selection: Selection, backend: Backend, leaves: Leaves, sink: Sink) -> None:
        values = backend.values
        self.plan = plan
        self.selection = selection
        self.modes = selection.modes
        self.sink = sink
        self.errors = ErrorLog(None)
        self._faults: list[tuple[str, Exception]] = []
        self.values = Describer(
            leaves.leaf, values.is_tensor, values.handlers(), values.keyed(), lambda *fault: self._faults.append(fault)
        )
        self.tensors: LeafTask[Any] | None = None  # writes the tensor files of the step
        self.births: Births | None = None  # is told what calls make, where every argument is measured whole
        self.precedes: Callable[[], Any] | None = None  # writes records that come before any other
        self.recorded = 0
        self.passed_over: list[str] = []
        self.closed = False

    def place(self, name: str) -> str:
        """The name to save tensors under, or nothing when this entry's tensors are not kept."""
        if self.plan.save_all:
            return name
        tensors = self.selection.tensors
        return name if tensors is not None and tensors(name) else ""

    def in_scope(self, name: str) -> bool:
        """A call of this name begins: does it lie in the window of ``scope``?"""
        scope = self.selection.scope
        return scope is None or scope.begin(name)

    def lists_gradients_of(self, stem: str, name: str) -> bool:
        """Whether ``list`` has the entry ``name`` of a module's parameters: it may name the module instead."""
        listed = self.selection.listed
        return listed is None or listed(name) or listed(stem) or listed(f"{stem}.backward.0")

    def finish(self, record: CallRecord) -> None:
        """The call of ``record`` is over: close the scope it may end, and write what there is to write."""
        if self.precedes is not None:
            self.precedes()
        if self.selection.scope is not None:
            self.selection.scope.end(record.name)
        if self._faults:
            self.tell_faults(record.name)
        if record.body is not None or record.stack is not None:
            self.recorded += 1
        elif record.parent is UNRELATED:
            return
        self.sink.write(record)

    def tell_faults(self, name: str) -> None:
        """Write down which values of the entry ``name`` could not be described; they are null in it."""
        faults = self._faults[:]
        del self._faults[: len(faults)]
        for what, error in faults:
            self.errors.note(f"{what} in {name}", error)

    def pass_over(self, name: str) -> None:
        """Remember the first few names that a filter dropped, for the message that explains an empty step."""
        if len(self.passed_over) < NAMES_SHOWN:
            self.passed_over.append(name)

    def end(self) -> None:
        """The step is over: take nothing more."""
        self.closed = True

    def conclusion(self) -> str | None:
        """What is to be said of the whole step, instead of an explanation when it is empty."""
        return None
