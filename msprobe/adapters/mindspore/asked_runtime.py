"""The request as the runtime finds it: files in ``dump_path``, and the variable that names one of them.

The runtime reads the variable once per process, when the first graph is compiled, and wants an absolute path.
"""

from __future__ import annotations

import os
from pathlib import Path

from msprobe.adapters.mindspore.runtime_facts import graph_compiled, runtime_facts
from msprobe.core.backend.mindspore_modes import mode_problems
from msprobe.core.config import DumpConfig
from msprobe.core.errors import ConfigError, InterfaceError, MsprobeException
from msprobe.core.kernels.request import Document, request_of
from msprobe.core.log import logger
from msprobe.core.store.atomic import make_folder, write_atomic
from msprobe.core.store.journal import dumps

VARIABLE = "MINDSPORE_DUMP_CONFIG"
_OTHER_VARIABLE = "MS_ACL_DUMP_CFG_PATH"


class AskedRuntime:
    """One request, made when this object is.

    Raises:
        InterfaceError: a graph has been compiled already, so the request would not be read any more.
        MsprobeException: it cannot be written.
    """

    def __init__(self, config: DumpConfig) -> None:
        if graph_compiled():
            raise InterfaceError(
                "level L2: a graph has been compiled in this process already, and MindSpore reads what to dump only at "
                "the first compilation: create PrecisionDebugger before the first call of a graph or jit function"
            )
        self._config = config
        self.facts = runtime_facts()
        self.differently = False
        self._root = Path(config.dump_path).absolute()
        self._value = ""
        self._written: list[str] = []
        self._ask()

    def refresh(self) -> None:
        """Ask anew when the mode or the jit level has changed since.

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
        self._ask()

    def withdraw(self) -> None:
        """Leave no request behind for programs that this one starts."""
        if os.environ.get(VARIABLE) == self._value:
            del os.environ[VARIABLE]

    def _ask(self) -> None:
        request = request_of(self._config, self.facts)
        for stale in self._written:  # the mode was another one
            (self._root / stale).unlink(missing_ok=True)
        self._written.clear()
        self.differently = request.served != request.document
        self._write(request.name, request.document)
        if self.differently:
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
            raise MsprobeException(0, f"{self._root / name}: cannot be written ({error.strerror})") from error
