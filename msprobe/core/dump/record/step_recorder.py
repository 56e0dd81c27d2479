"""What the observers of one step share: the switches, the description of values, and the sink.

The switches (``RecordingPlan``) are read from the configuration once per session, so that no collector reads the
configuration itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msprobe.core.backend.protocols import Backend
from msprobe.core.capture.describe import Describer
from msprobe.core.config import DumpConfig
from msprobe.core.dump.record.call_record import UNRELATED, CallRecord
from msprobe.core.dump.record.error_boundary import ErrorLog
from msprobe.core.dump.record.tensor_node import TensorNodes
from msprobe.core.selection import Selection
from msprobe.core.store.sink import Sink
from msprobe.core.tensors.statistics import STATISTICS

NAMES_SHOWN = 5


class StepRecorder:
    """Record one step.

    Args:
        plan: the switches of the session.
        selection: the filters of this step.
        backend: the framework, for its kinds of values.
        nodes: makes the nodes of tensors.
        output: where records and errors are written.

    Attributes:
        runtime: knows the modes of the user's program.
        closed: True at the end of the step; what arrives afterwards is ignored.
        record_count: the number of records so far.
        skipped: the first few names that a filter left out.
        before_record: writes records that come before any other; called before each record, None to call nothing.
    """

    def __init__(
        self, plan: RecordingPlan, selection: Selection, backend: Backend, nodes: TensorNodes, output: StepOutput
    ) -> None:
        values = backend.values
        self.runtime = backend.runtime
        self.plan = plan
        self.selection = selection
        self.modes = selection.modes
        self.sink = output.sink
        self.errors = output.errors
        self.nodes = nodes
        self._is_tensor, self._ops = values.is_tensor, backend.ops
        self._faults: list[tuple[str, Exception]] = []
        self.describer = Describer(
            nodes.leaf,
            values.is_tensor,
            values.handlers(),
            values.by_keyword(),
            lambda *fault: self._faults.append(fault),
        )
        self.before_record: Callable[[], Any] | None = None
        self.record_count = 0
        self.skipped: list[str] = []
        self.closed = False

    def save_name(self, name: str) -> str:
        """Return the name to save the tensors of the entry under; empty when they are not saved."""
        if self.plan.save_all:
            return name
        tensors = self.selection.tensors
        return name if tensors is not None and tensors(name) else ""

    def places(self, value: Any) -> list[str]:
        """Return the shape of a tensor, or of those in lists and tuples, as a text such as ``2,8``, with memory and
        part behind it where memory is recorded. As lists the lengths would take a line of dump.json each."""
        if isinstance(value, (list, tuple)):
            parts = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
            return [place for part in parts for place in self.places(part)]
        if not self._is_tensor(type(value)):
            return []
        node: dict[str, Any] = {}
        inner = self._ops.below_transforms(value)
        if self.plan.memory:
            self._ops.note_memory(inner, node)
        return [" ".join((",".join(map(str, inner.shape)), *node.values()))]

    def in_scope(self, name: str) -> bool:
        """Return whether the call ``name``, which begins now, lies in the window of ``scope``."""
        scope = self.selection.scope
        return scope is None or scope.begin(name)

    def samples(self, name: str) -> bool:
        """Return whether the call of this forward entry is among those that ``sample`` chooses."""
        sampled = self.selection.sampled
        return sampled is None or sampled(name)

    def lists_gradients_of(self, stem: str, name: str) -> bool:
        """Return whether ``list`` selects the parameter gradients ``name``, by that name or by that of the module."""
        listed = self.selection.listed
        return listed is None or listed(name) or listed(stem) or listed(f"{stem}.backward.0")

    def write_call(self, record: CallRecord) -> None:
        """Write the record of a call that is over, unless it is empty, and close the scope that it may end."""
        if self.before_record is not None:
            self.before_record()
        if self.selection.scope is not None:
            self.selection.scope.end(record.name)
        if self._faults:
            self.log_faults(record.name)
        if record.body is not None or record.stack is not None:
            self.record_count += 1
        elif record.parent is UNRELATED:
            return
        self.sink.write(record)

    def log_faults(self, name: str) -> None:
        """Log which values of the entry ``name`` could not be described; they are null in it."""
        faults = self._faults[:]
        del self._faults[: len(faults)]
        for what, error in faults:
            self.errors.note(f"{what} in {name}", error)

    def skip(self, name: str) -> None:
        """Remember a name that a filter left out, for the message that explains an empty step."""
        if len(self.skipped) < NAMES_SHOWN:
            self.skipped.append(name)

    def end_step(self) -> None:
        """End the step: take nothing more."""
        self.closed = True

    def conclusion(self) -> str | None:
        """Return the message for the end of the step; None to explain an empty step instead."""
        return None


@dataclass(frozen=True, slots=True)
class StepOutput:
    """Where a step is written: its records, and the errors that a record was lost by."""

    sink: Sink
    errors: ErrorLog


@dataclass(frozen=True, slots=True)
class RecordingPlan:
    """The switches of one session.

    Attributes:
        apis: record calls of functions.
        modules: record calls of modules.
        bodies: record values; False for task ``structure``, which has names, stacks and parents only.
        save_all: save every tensor in a file.
        stacks: record the call stack of each call.
        construct: record the parent of each call.
        dropped: the statistics that a list in ``summary_mode`` leaves out, by their names in dump.json.
        step_records: what is recorded once per step: ``parameters``, ``gradients``.
        training: record what ``msprobe check`` reads beside the calls.
        moves: record where calls are made that only move values, and between which shapes.
        memory: record which memory tensors lie in.
    """

    apis: bool
    modules: bool
    bodies: bool
    save_all: bool
    stacks: bool
    construct: bool
    dropped: tuple[str, ...] = ()
    step_records: frozenset[str] = frozenset()
    training: bool = False
    moves: bool = False
    memory: bool = False

    @classmethod
    def of(cls, config: DumpConfig) -> RecordingPlan:
        """Return the switches that ``config`` asks for."""
        modules = config.level in ("L0", "mix")
        return cls(
            apis=config.level in ("L1", "mix", "L2"),
            modules=modules,
            bodies=config.task_spec.bodies,
            save_all=config.task_spec.saves_tensors,
            stacks=config.extra_info,
            construct=config.extra_info and modules,
            dropped=_dropped(config.section.summary_mode),
            step_records=frozenset(config.step_records),
            training=config.training_records and config.level == "mix" and config.task_spec.bodies,
            moves=config.level in ("L1", "mix") and config.task_spec.bodies and config.extra_info,
            memory=config.section.names_memory,
        )


def _dropped(summary_mode: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(summary_mode, str):
        return ()
    return tuple(statistic.name for statistic in STATISTICS if statistic.config_name not in summary_mode)
