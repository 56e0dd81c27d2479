"""While the target call of level L2 runs, the NPU dumps its kernels, or its operators are selected."""

from __future__ import annotations

import json
import os
from pathlib import Path

from msprobe.core.backend.protocols import NpuRuntime
from msprobe.core.capture.thread import ThreadState
from msprobe.core.dump.record import CallRecord
from msprobe.core.log import logger
from msprobe.core.store.atomic import write_atomic
from msprobe.core.store.sink import DirectorySink


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
    path = folder.resolve() / f"kernel_config_{os.getpid()}.json"
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
