"""Level L2: one call is chosen, and while it runs the kernels below it are recorded.

With an NPU its runtime does that (``KernelWindow``), into files of its own beside the process folder. Without one the
operators that the call dispatches are recorded instead, and the header says so: ``"kernel_source": "cpu-fallback"``.
In both cases the chosen call has its entry in dump.json, measured before and after, never in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from msprobe.core.capture.site import CallSite
from msprobe.core.config import DumpConfig
from msprobe.core.dump.collector import Collector
from msprobe.core.dump.kernel_window import KernelWindow, OperatorWindow
from msprobe.core.dump.record import CallRecord
from msprobe.core.dump.recording import Recording
from msprobe.core.dump.shield import shielded
from msprobe.core.log import first_time, logger
from msprobe.core.store.sink import DirectorySink

if TYPE_CHECKING:
    from msprobe.core.dump.session import DumpSession

NPU = "npu"
FALLBACK = "cpu-fallback"


class Window(Protocol):
    """The time in which the chosen call runs. Both methods may be called again: once is enough."""

    def open(self) -> None: ...

    def close(self) -> None: ...


def kernel_source(session: DumpSession) -> dict[str, str]:
    """What the header of dump.json says at level L2: where its kernels come from."""
    if not _around_one_call(session.config):
        return {}
    return {"kernel_source": FALLBACK if session.backend.kernels is None else NPU}


def make_collector(session: DumpSession, recording: Recording, sink: DirectorySink) -> Collector:
    """The collector of a step."""
    config, backend = session.config, session.backend
    if not _around_one_call(config):
        return Collector(recording, backend, session.thread, session._stacks)
    (target,) = config.section.names
    if config.async_dump and first_time("kernel level async"):
        logger.warning("async_dump: has no effect on level L2 of one call, which the program waits for")
    window: Window
    if backend.kernels is not None:
        window = KernelWindow(backend.kernels, sink)
    else:
        window = OperatorWindow(target, session.thread)
        if first_time("kernel level without NPU"):
            logger.warning(
                "level L2: there is no NPU here: the operators that %s calls are recorded instead of its kernels "
                "(kernel_source %s)",
                target,
                FALLBACK,
            )
    collector = KernelCollector(recording, backend, session.thread, session._stacks)
    collector.choose(target, window)
    return collector


def _around_one_call(config: DumpConfig) -> bool:
    return config.level == "L2" and config.task_spec.kernels


class KernelCollector(Collector):
    """Opens a window around exactly one call, or around its backward, and records it as ever outside the window."""

    _target = ""
    _window: Window
    _awaited: tuple[CallRecord, Any] | None = None

    def choose(self, target: str, window: Window) -> None:
        """``target`` is the full name of the call; its phase says whether the forward or the backward is meant."""
        self._target, self._window = target, window

    def api_begin(self, site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallRecord | None:
        record: CallRecord | None = super().api_begin(site, args, kwargs)
        if record is not None and self._target in (record.name, record.backward):
            self._before(record, args, kwargs)
        return record

    def end(self, record: CallRecord, result: Any) -> None:
        if record.name == self._target:
            self.close_window(record)
        awaited = self._awaited
        if awaited is None or awaited[0] is not record:
            super().end(record, result)
            return
        self._awaited = None
        self._attach(awaited[1], result, _Closing(self, record))  # before that of the record, which measures at its end
        super().end(record, result)
        self._attach(awaited[1], result, _Opening(self, record))  # after it: what arrives is measured first

    def fail(self, record: CallRecord, error: BaseException) -> None:
        if record.name == self._target:
            self.close_window(record)
        super().fail(record, error)

    def finish(self) -> None:
        self.close_window(None)
        super().finish()

    @shielded
    def _before(self, record: CallRecord, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if record.name == self._target:
            self._window.open()
        elif self._gradients is not None:
            self._awaited = record, self._gradients.prepare(args, kwargs)

    @shielded
    def close_window(self, record: CallRecord | None) -> None:
        self._window.close()

    @shielded
    def open_window(self, record: CallRecord) -> None:
        if not self.recording.closed:
            self._window.open()

    @shielded
    def _attach(self, prepared: Any, result: Any, receiver: Any) -> None:
        if prepared is not None and self._gradients is not None:
            self._gradients.attach(prepared, result, receiver, report_early=True)


class _Opening:
    """Opens the window when the backward of the call begins (implements ``GradientReceiver``)."""

    def __init__(self, collector: KernelCollector, record: CallRecord) -> None:
        self._collector = collector
        self._record = record

    def expect(self, outputs: int) -> None:
        """Nothing to prepare."""

    def whole(self, grad_outputs: Any, grad_inputs: Any) -> None:
        """Never: the begin is asked for."""

    def grad_output(self, position: int, gradient: Any) -> None:
        self._collector.open_window(self._record)

    def grad_inputs(self, gradients: Any) -> None:
        """Told by ``_Closing``."""


class _Closing(_Opening):
    """Closes it when the backward is done."""

    def grad_output(self, position: int, gradient: Any) -> None:
        """Told by ``_Opening``."""

    def grad_inputs(self, gradients: Any) -> None:
        self._collector.close_window(self._record)
