"""The captured graphs of one session: what is done when a capture begins and ends, and when a graph is replayed.

before_capture  fetch what a device still computes for the step, because during a capture the host may not wait
begin, end      the calls in between are the graph's: its records wait for replays, and the step sees none of them
replayed        the observer of the step records the calls of the graph, where the step is recorded
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from msprobe.core.backend.captured_graphs import CaptureOps
from msprobe.core.capture.observer import CurrentObserver, Observer
from msprobe.core.dump.captured.captured_graph import CapturedGraph, CapturedSink
from msprobe.core.dump.record.collector import Collector
from msprobe.core.dump.record.error_boundary import ErrorLog, never_raises
from msprobe.core.log import first_time, logger

Observed = Callable[[Observer], AbstractContextManager[None]]
"""Returns a context in which the taps report to the given observer alone."""


class Captures:
    """Implements ``GraphListener``.

    Args:
        current: holds the observer of the step.
        sink: takes the records of graphs.
        settle: completes what was recorded so far.
        observe: returns the collector and the tensor operations of a capture; None where nothing is to be recorded.
        observed_by: shows that collector to the taps.
        enabled: returns whether collection is switched on now.
    """

    def __init__(
        self,
        current: CurrentObserver,
        sink: CapturedSink,
        settle: Callable[[], None],
        observe: Callable[[], tuple[Collector, CaptureOps] | None],
        observed_by: Observed,
        enabled: Callable[[], bool],
    ) -> None:
        self.errors = ErrorLog(None)
        self._current = current
        self._sink = sink
        self._settle = settle
        self._observe = observe
        self._observed_by = observed_by
        self._enabled = enabled
        self._graphs: weakref.WeakKeyDictionary[Any, CapturedGraph] = weakref.WeakKeyDictionary()
        self._new: weakref.WeakSet[Any] = weakref.WeakSet()
        self._open: _Capture | None = None

    @never_raises
    def before_capture(self) -> None:
        self._settle()

    @never_raises
    def begin(self, graph: Any) -> None:
        self._graphs.pop(graph, None)
        observed = self._observe() if self._open is None else None
        if observed is None:
            return
        collector, ops = observed
        capture = _Capture(graph, collector, ops)
        capture.surroundings.enter_context(self._observed_by(collector))
        ops.begin()
        self._sink.graph = capture.records
        self._open = capture

    @never_raises
    def end(self) -> None:
        if self._open is not None:
            self._open.collector.finish_open()
            self._open.records.end(self._open.ops.end())
            self._current.observer = None

    @never_raises
    def captured(self, graph: Any, complete: bool) -> None:
        capture, self._open = self._open, None
        if capture is None:
            return
        self._sink.graph = None
        capture.surroundings.close()
        if not complete or capture.records.values is None:
            return
        self._graphs[capture.graph] = capture.records
        self._new.add(capture.graph)
        calls = len(capture.records.records)
        if calls:
            logger.info("a graph was captured with %d calls that are recorded at its replays", calls)
        if calls and not self._enabled() and first_time("captured while off"):
            logger.warning(
                "dump_enable is off while graphs are captured: they hold the statistics all the same, and compute them "
                "at each replay, so that dump_enable can be switched on later; start AclGraphDumper after the capture, "
                "or not at all, to serve without that cost"
            )

    @never_raises
    def replayed(self, graph: Any) -> None:
        observer: Any = self._current.observer
        if observer is None or self._open is not None:
            return
        records = self._graphs.get(graph)
        if records is None:
            if first_time("graph without statistics"):
                logger.warning(
                    "a graph is replayed that was captured before AclGraphDumper.start: nothing inside it is recorded; "
                    "call start(model) before the graphs are captured"
                )
            return
        if records.records:
            observer.replay(records, graph in self._new)
            self._new.discard(graph)

    def begin_step(self) -> None:
        """Note that a new step begins, whose calls are numbered from 0."""
        self._new.clear()


class _Capture:
    """A capture that is going on."""

    def __init__(self, graph: Any, collector: Collector, ops: CaptureOps) -> None:
        self.graph = graph
        self.collector = collector
        self.ops = ops
        self.records = CapturedGraph()
        self.surroundings = contextlib.ExitStack()
