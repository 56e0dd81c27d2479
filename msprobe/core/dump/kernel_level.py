"""Level L2: the kernels of one call, the target, are recorded while it runs.

With an NPU its runtime does that (``KernelWindow``), into files of its own beside the process folder. Without one the
operators that the call dispatches are recorded instead, and the header says so: ``"kernel_source": "cpu-fallback"``.
In both cases the target call has its entry in dump.json, measured before and after the window, never inside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msprobe.core.backend.model import Backend
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.stack import StackTable
from msprobe.core.capture.thread import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.dump.collector import Collector
from msprobe.core.dump.kernel_window import KernelWindow, OperatorWindow
from msprobe.core.dump.record import CallRecord
from msprobe.core.dump.recording import StepRecorder
from msprobe.core.dump.shield import never_raises
from msprobe.core.dump.task import StepContext
from msprobe.core.log import first_time, logger
from msprobe.core.store.sink import DirectorySink

NPU = "npu"
FALLBACK = "cpu-fallback"


class Window(Protocol):
    """The time in which the target call runs. Opening an open window, and closing a closed one, does nothing."""

    def open(self) -> None: ...

    def close(self) -> None: ...


def kernel_source(context: StepContext) -> dict[str, str]:
    """Return the header field of level L2 that says where its kernels come from; empty at other levels."""
    if not _has_target(context.config):
        return {}
    return {"kernel_source": FALLBACK if context.backend.kernels is None else NPU}


def make_collector(context: StepContext, recorder: StepRecorder, sink: DirectorySink) -> Collector:
    """Return the collector of a step."""
    config, backend = context.config, context.backend
    if not _has_target(config):
        return Collector(recorder, backend, context.thread, context.stacks)
    (target,) = config.section.names
    if config.async_dump and first_time("kernel level async"):
        logger.warning("async_dump: has no effect on level L2 of one call, which the program waits for")
    window: Window
    if backend.kernels is not None:
        window = KernelWindow(backend.kernels, sink)
    else:
        window = OperatorWindow(target, context.thread)
        if first_time("kernel level without NPU"):
            logger.warning(
                "level L2: there is no NPU here: the operators that %s calls are recorded instead of its kernels "
                "(kernel_source %s)",
                target,
                FALLBACK,
            )
    return KernelCollector(recorder, backend, context.thread, context.stacks, target, window)


def _has_target(config: DumpConfig) -> bool:
    """Return whether the configuration records the kernels of one call."""
    return config.level == "L2" and config.task_spec.kernels


class KernelCollector(Collector):
    """Open a window around one call, or around its backward, and record calls outside the window as usual.

    Args:
        recorder, backend, thread, stacks: as those of ``Collector``.
        target: the full name of the call; its phase says whether the forward or the backward is meant.
        window: opened while the target runs.
    """

    def __init__(
        self,
        recorder: StepRecorder,
        backend: Backend,
        thread: ThreadState,
        stacks: StackTable,
        target: str,
        window: Window,
    ) -> None:
        super().__init__(recorder, backend, thread, stacks)
        self._target = target
        self._window = window
        self._target_call: tuple[CallRecord, Any] | None = None  # with what the gradient tap prepared for it

    def api_begin(self, site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallRecord | None:
        record: CallRecord | None = super().api_begin(site, args, kwargs)
        if record is not None and self._target in (record.name, record.backward):
            self._before(record, args, kwargs)
        return record

    def end(self, record: CallRecord, result: Any) -> None:
        if record.name == self._target:
            self.close_window(record)
        call = self._target_call
        if call is None or call[0] is not record:
            super().end(record, result)
            return
        self._target_call = None
        self._attach(call[1], result, _CloseWindow(self, record))  # before the hook of the record, which measures last
        super().end(record, result)
        self._attach(call[1], result, _OpenWindow(self, record))  # after that hook: it measures what arrives first

    def fail(self, record: CallRecord, error: BaseException) -> None:
        if record.name == self._target:
            self.close_window(record)
        super().fail(record, error)

    def finish(self) -> None:
        self.close_window(None)
        super().finish()

    @never_raises
    def _before(self, record: CallRecord, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if record.name == self._target:
            self._window.open()
        elif self._gradients is not None:
            self._target_call = record, self._gradients.prepare(args, kwargs)

    @never_raises
    def close_window(self, record: CallRecord | None) -> None:
        """Close the window; ``record`` names the call in the log when that fails."""
        self._window.close()

    @never_raises
    def open_window(self, record: CallRecord) -> None:
        """Open the window, unless the step is over."""
        if not self.recorder.closed:
            self._window.open()

    @never_raises
    def _attach(self, prepared: Any, result: Any, receiver: Any) -> None:
        if prepared is not None and self._gradients is not None:
            self._gradients.attach(prepared, result, receiver, report_early=True)


class _OpenWindow:
    """Open the window when the backward of the call begins (implements ``GradientReceiver``)."""

    def __init__(self, collector: KernelCollector, record: CallRecord) -> None:
        self.errors = collector.errors
        self._collector = collector
        self._record = record

    def expect(self, outputs: int) -> None:
        """Prepare nothing."""

    def whole(self, grad_outputs: Any, grad_inputs: Any) -> None:
        """Do nothing: this receiver asks for the begin and the end by themselves."""

    def grad_output(self, position: int, gradient: Any) -> None:
        """Open the window."""
        self._collector.open_window(self._record)

    def grad_inputs(self, gradients: Any) -> None:
        """Do nothing: ``_CloseWindow`` ends the window."""


class _CloseWindow(_OpenWindow):
    """Close the window when the backward of the call has ended."""

    def grad_output(self, position: int, gradient: Any) -> None:
        """Do nothing: ``_OpenWindow`` begins the window."""

    def grad_inputs(self, gradients: Any) -> None:
        """Close the window."""
        self._collector.close_window(self._record)
