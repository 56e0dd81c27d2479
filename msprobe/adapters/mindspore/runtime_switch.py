"""The runtime's own start and stop of kernel dumps. On Ascend they gate what is written (not checked on a device);
a CPU writes every run of every graph, so nothing is called there.
"""

from __future__ import annotations

from typing import Any

from msprobe.adapters.mindspore.versions import wait_for_device
from msprobe.core.backend.protocols import RuntimeFacts


class RuntimeSwitch:
    """Starts and stops the kernel dump of a device."""

    def __init__(self, facts: RuntimeFacts) -> None:
        self._calls: Any = None
        if not facts.on_cpu:
            from mindspore import _c_expression

            self._calls = _c_expression

    def prepare(self) -> None:
        """Before the first compilation: the dump can be switched, and counts from 0."""
        self._call("_dump_set_dynamic")
        self._call("_set_init_iter", 0)

    def start(self) -> None:
        self._call("_dump_start")

    def stop(self) -> None:
        if self._calls is not None:
            wait_for_device()
        self._call("_dump_stop")

    def step(self) -> None:
        self._call("_dump_step", 1)

    def _call(self, name: str, *arguments: int) -> None:
        function = getattr(self._calls, name, None)
        if function is not None:
            function(*arguments)
