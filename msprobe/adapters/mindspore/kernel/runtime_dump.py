"""The dump of kernels that MindSpore's runtime writes: how it is requested, started and stopped.

The request (``RuntimeDumpRequest``) is a file in ``dump_path``, and an environment variable that names it. The runtime
reads the variable once per process, when the first graph is compiled, and needs an absolute path.

On Ascend ``RuntimeSwitch`` decides what is written (not tested on a device). A CPU writes every run of every graph, so
the switch calls nothing there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msprobe.adapters.mindspore.runtime_facts import graph_compiled, runtime_facts, settle
from msprobe.adapters.mindspore.versions import wait_for_device
from msprobe.core.backend.mindspore_modes import RuntimeFacts, mode_problems
from msprobe.core.config import DumpConfig
from msprobe.core.errors import ConfigError, InterfaceError, MsprobeException
from msprobe.core.interruption import let_through
from msprobe.core.kernel_dumps.runtime_request import Document, request_of
from msprobe.core.log import logger
from msprobe.core.store.journal import dumps
from msprobe.core.store.safe_files import make_folder, write_atomic

VARIABLE = "MINDSPORE_DUMP_CONFIG"
_OTHER_VARIABLE = "MS_ACL_DUMP_CFG_PATH"


class MindSporeKernelDump:
    """Implements ``KernelDump``: the request and the switch of the runtime's dump.

    Args:
        config: a configuration of level L2.

    Raises:
        InterfaceError: a graph has been compiled already.
        MsprobeException: the request cannot be written.
    """

    def __init__(self, config: DumpConfig) -> None:
        self._request = RuntimeDumpRequest(config)
        self._switch = RuntimeSwitch(self._request.facts)
        self._switch.prepare()

    @property
    def facts(self) -> RuntimeFacts:
        return self._request.facts

    @property
    def substitute(self) -> bool:
        return self._request.substitute

    def refresh(self) -> None:
        self._request.refresh()

    def settle(self) -> None:
        settle()

    def start(self) -> None:
        self._switch.start()

    def stop(self) -> None:
        self._switch.stop()

    def step(self) -> None:
        self._switch.step()

    def withdraw(self) -> None:
        self._request.withdraw()


class RuntimeDumpRequest:
    """What the runtime is asked to dump; the request is made when this object is.

    Args:
        config: a configuration of level L2.

    Raises:
        InterfaceError: a graph has been compiled already, so the runtime would not read the request any more.
        MsprobeException: the request cannot be written.
    """

    def __init__(self, config: DumpConfig) -> None:
        if graph_compiled():
            raise InterfaceError(
                "level L2: a graph has been compiled in this process already, and MindSpore reads what to dump only at "
                "the first compilation: create PrecisionDebugger before the first call of a graph or jit function"
            )
        self._config = config
        self.facts = runtime_facts()
        self.substitute = False
        self._root = Path(config.dump_path).absolute()
        self._value = ""
        self._written: list[str] = []
        self._write_request()

    def refresh(self) -> None:
        """Make the request again when the mode or the jit level has changed since, and no graph was compiled yet.

        Raises:
            ConfigError: the configuration does not fit the new mode.
        """
        facts = runtime_facts()
        if facts == self.facts or graph_compiled():
            return
        problems = mode_problems(self._config, facts)
        if problems:
            raise ConfigError(problems)
        self.facts = facts
        self._write_request()

    def withdraw(self) -> None:
        """Remove the variable, so that programs that this one starts do not dump."""
        withdraw_request(self._value)

    def _write_request(self) -> None:
        request = request_of(self._config, self.facts)
        for stale in self._written:  # files of the request for another mode
            (self._root / stale).unlink(missing_ok=True)
        self._written.clear()
        self.substitute = request.served != request.document
        self._write(request.name, request.document)
        if self.substitute:
            self._write(request.served_name, request.served)
        before, self._value = os.environ.get(VARIABLE, self._value), str(self._root / request.served_name)
        os.environ[VARIABLE] = self._value
        os.environ.pop(_OTHER_VARIABLE, None)
        if before and before != self._value:
            logger.warning("%s was %s: it is replaced for this process", VARIABLE, before)
        logger.info("MindSpore is asked to dump kernels: %s", self._value)
        if self.facts.on_cpu and not self.facts.graph_mode:
            logger.warning(
                "on a CPU MindSpore dumps kernels of compiled code only: in this dynamic graph that is functions under "
                "ms.jit; for all others use level L1 or mix"
            )

    def _write(self, name: str, document: Document) -> None:
        try:
            make_folder(self._root)
            write_atomic(self._root / name, [dumps(document, indent=4)])
            self._written.append(name)
        except OSError as error:
            let_through(error)
            raise MsprobeException(0, f"{self._root / name}: cannot be written ({error.strerror})") from error


def withdraw_request(value: str) -> None:
    """Remove the environment variable when it still names the request ``value``."""
    if os.environ.get(VARIABLE) == value:
        del os.environ[VARIABLE]


class RuntimeSwitch:
    """Starts and stops the kernel dump of a device."""

    def __init__(self, facts: RuntimeFacts) -> None:
        self._calls: Any = None
        if not facts.on_cpu:
            from mindspore import _c_expression

            self._calls = _c_expression

    def prepare(self) -> None:
        """Allow the dump to be switched, and count iterations from 0; called before the first compilation."""
        self._call("_dump_set_dynamic")
        self._call("_set_init_iter", 0)

    def start(self) -> None:
        """Write what runs from now on."""
        self._call("_dump_start")

    def stop(self) -> None:
        """Wait for the device, and write nothing more."""
        if self._calls is not None:
            wait_for_device()
        self._call("_dump_stop")

    def step(self) -> None:
        """Begin a new iteration."""
        self._call("_dump_step", 1)

    def _call(self, name: str, *arguments: int) -> None:
        function = getattr(self._calls, name, None)
        if function is not None:
            function(*arguments)
