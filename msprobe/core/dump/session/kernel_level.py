"""Level L2: the kernels of one call, the target, are recorded while it runs.

With an NPU its runtime does that (``KernelWindow``), into files of its own beside the process folder. Without one the
operators that the call dispatches are recorded instead (``OperatorWindow``), and the header says so: ``"kernel_source":
"cpu-fallback"``. In both cases the target call has its entry in dump.json, measured before and after the window, never
inside it. ``make_kernel_collector`` returns the collector of such a step.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msprobe.core.backend.kernel_runtimes import NpuRuntime
from msprobe.core.backend.protocols import Backend
from msprobe.core.capture.call_stack import StackTable
from msprobe.core.capture.observer import CallSite
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.dump.record.call_record import CallRecord
from msprobe.core.dump.record.collector import Collector
from msprobe.core.dump.record.error_boundary import never_raises
from msprobe.core.dump.record.step_recorder import StepRecorder
from msprobe.core.log import first_time, logger
from msprobe.core.store.safe_files import write_atomic
from msprobe.core.store.sink import DirectorySink

NPU = "npu"
FALLBACK = "cpu-fallback"


def has_target(config: DumpConfig) -> bool:
    """Return whether the configuration records the kernels of one call."""
    return config.level == "L2" and config.task_spec.kernels


def kernel_source(config: DumpConfig, backend: Backend) -> dict[str, str]:
    """Return the header field of level L2 that says where its kernels come from; empty at other levels."""
    if not has_target(config):
        return {}
    return {"kernel_source": FALLBACK if backend.kernels is None else NPU}


def make_kernel_collector(
    config: DumpConfig,
    recorder: StepRecorder,
    backend: Backend,
    thread: ThreadState,
    stacks: StackTable,
    sink: DirectorySink,
) -> KernelCollector:
    """Return the collector of a step that records the kernels of one call.

    Args:
        config: names the call; ``has_target`` is True of it.
        recorder, backend, thread, stacks: as those of ``Collector``.
        sink: writes the step.
    """
    (target,) = config.section.names
    if config.async_dump and first_time("kernel level async"):
        logger.warning("async_dump: has no effect on level L2 of one call, which the program waits for")
    window: Window
    if backend.kernels is not None:
        window = KernelWindow(backend.kernels, sink)
    else:
        window = OperatorWindow(target, thread)
        if first_time("kernel level without NPU"):
            logger.warning(
                "level L2: there is no NPU here: the operators that %s calls are recorded instead of its kernels "
                "(kernel_source %s)",
                target,
                FALLBACK,
            )
    return KernelCollector(recorder, backend, thread, stacks, target, window)


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
        if record is not None and self._target in (record.name, record.backward_name):
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

    def end_step(self) -> None:
        self.close_window(None)
        super().end_step()

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

    def grad_input(self, slot: int, gradient: Any) -> None:
        """Do nothing, as above."""

    def grad_inputs(self, gradients: Any) -> None:
        """Do nothing: ``_CloseWindow`` ends the window."""


class _CloseWindow(_OpenWindow):
    """Close the window when the backward of the call has ended."""

    def grad_output(self, position: int, gradient: Any) -> None:
        """Do nothing: ``_OpenWindow`` begins the window."""

    def grad_inputs(self, gradients: Any) -> None:
        """Close the window."""
        self._collector.close_window(self._record)


class Window(Protocol):
    """The time in which the target call runs. Opening an open window, and closing a closed one, does nothing."""

    def open(self) -> None: ...

    def close(self) -> None: ...


class KernelWindow:
    """Have the runtime of an NPU dump every kernel between ``open`` and ``close``.

    Its configuration, ``kernel_config_{pid}.json`` in the folder of the step, is the acl.json of the runtime; the dump
    is written into that folder too. The device is synchronized before and after, so that no kernel of another call is
    dumped.
    """

    def __init__(self, runtime: NpuRuntime, sink: DirectorySink) -> None:
        self._runtime = runtime
        self._sink = sink
        self._is_open = False

    def open(self) -> None:
        """Start the dump; do nothing when it runs.

        Raises:
            OSError: the configuration cannot be written.
            RuntimeError: the runtime refused; the dump is ended.
        """
        if self._is_open:
            return
        self._sink.flush()  # fetch the statistics on the device now: no kernel of the tool may run in the window
        path = write_acl_config(self._sink.folder.parent)
        self._runtime.synchronize()
        self._runtime.init_dump()
        self._is_open = True
        try:
            self._runtime.set_dump(str(path))
            self._runtime.synchronize()
        except RuntimeError:
            self.close()
            raise

    def close(self) -> None:
        """End the dump, if it runs. Raises RuntimeError from the runtime."""
        if not self._is_open:
            return
        self._is_open = False
        self._runtime.synchronize()
        self._runtime.finalize_dump()
        self._runtime.synchronize()
        logger.info("the kernels are dumped below %s", self._sink.folder.parent)


def write_acl_config(folder: Path) -> Path:
    """Write the runtime's dump configuration into ``folder``, where the dump is written too; return its path."""
    path = folder.resolve().joinpath(f"kernel_config_{os.getpid()}.json")
    content = {"dump": {"dump_list": [], "dump_path": str(path.parent), "dump_mode": "all", "dump_op_switch": "on"}}
    write_atomic(path, [json.dumps(content, indent=2).encode()])
    return path


class OperatorWindow:
    """Select every call between ``open`` and ``close``, as inside a listed module."""

    def __init__(self, target: str, thread: ThreadState) -> None:
        self._inside = CallRecord(target, None)
        self._inside.brings = (True, True)
        self._thread = thread

    def open(self) -> None:
        """Select the calls of this thread from now on."""
        if self._inside not in self._thread.scopes:
            self._thread.scopes.append(self._inside)

    def close(self) -> None:
        """Select them no longer."""
        scopes = self._thread.scopes
        if self._inside in scopes:
            del scopes[scopes.index(self._inside) :]
