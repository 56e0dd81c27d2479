"""The collector of a step in graph mode: it sees replays of captured graphs beside the calls that Python makes.

The header of the dump says in ``kernel_source`` where its values come from, joined by ``+`` where there are several:

    captured-graph  a graph that was captured, and replayed in this step
    compiled-code   modules and functions inside code that a compiler made
    eager-code      calls that Python made
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msprobe.core.backend.protocols import Backend
from msprobe.core.capture.call_stack import StackTable
from msprobe.core.capture.observer import CallSite
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.dump.captured.captured_graph import CapturedGraph
from msprobe.core.dump.captured.replays import Replays
from msprobe.core.dump.record.call_record import CallRecord, HeaderRecord, StackRecord
from msprobe.core.dump.record.collector import Collector
from msprobe.core.dump.record.error_boundary import records
from msprobe.core.dump.record.module_names import NamedModule
from msprobe.core.dump.record.step_recorder import StepRecorder
from msprobe.core.dump.record.tensor_node import MeasuredTensors
from msprobe.core.store.sink import Account

CAPTURED, COMPILED, EAGER = "captured-graph", "compiled-code", "eager-code"


class GraphModeCollector(Collector):
    """Record the replays of captured graphs too.

    Args:
        recorder, backend, thread, stacks: as those of ``Collector``.
        frames: the call stacks of captured graphs by number.
        account: counts the tensor files.
    """

    def __init__(
        self,
        recorder: StepRecorder,
        backend: Backend,
        thread: ThreadState,
        stacks: StackTable,
        frames: Mapping[int, StackRecord],
        account: Account | None,
    ) -> None:
        super().__init__(recorder, backend, thread, stacks)
        saver: MeasuredTensors[Any] = MeasuredTensors(backend.ops, "statistics", recorder.nodes.folder)
        saver.account = account
        self._replays = Replays(recorder, backend.ops, saver, frames, backend.site_of)
        self._eager = self._compiled = False

    @records
    def replay(self, graph: CapturedGraph, first: bool) -> None:
        """Record the calls of a graph that was just replayed; ``first`` where it was captured in this step."""
        if self.recorder.closed:
            return
        scopes = self._thread.scopes
        with self._thread.quiet():
            self._replays.write(graph, scopes[-1].name if scopes else None, first)

    def end_step(self) -> None:
        super().end_step()
        sources = {CAPTURED: self._replays.count > 0, COMPILED: self._compiled, EAGER: self._eager}
        present = [source for source, is_present in sources.items() if is_present]
        self.recorder.sink.write(HeaderRecord(kernel_source="+".join(present) or None))

    def api_begin(self, site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallRecord | None:
        record = super().api_begin(site, args, kwargs)
        if record is not None:
            self._note_source(self.runtime.autograd() is None)  # compiled code has settled it
        return record

    def _finish(self, record: CallRecord) -> None:
        if record.owner is not None:
            self._note_source(record.body is not None and "autograd" not in record.body)
        super()._finish(record)

    def _note_source(self, in_compiled_code: bool) -> None:
        self._compiled = self._compiled or in_compiled_code
        self._eager = self._eager or not in_compiled_code


class CaptureCollector(Collector):
    """Observe the calls of one capture. Calls of other threads meanwhile are no part of the graph.

    Args:
        recorder, backend, thread, stacks: as those of ``Collector``.
        capturing: returns whether this thread captures a graph.
    """

    def __init__(
        self,
        recorder: StepRecorder,
        backend: Backend,
        thread: ThreadState,
        stacks: StackTable,
        capturing: Callable[[], bool],
    ) -> None:
        super().__init__(recorder, backend, thread, stacks)
        self._capturing = capturing

    def api_begin(self, site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallRecord | None:
        return super().api_begin(site, args, kwargs) if self._capturing() else None

    def module_begin(self, site: NamedModule, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return super().module_begin(site, args, kwargs) if self._capturing() else None
