"""Task ``exception_dump``: Ascend's runtime keeps the operands of a kernel that fails; here is what asks it to.

A CPU has no such service. There the first failing call is recorded at the level of API calls, and the header says so:
``producer: cpu-fallback``, ``record_level: api``. Operators are launched one after the other for it, so that an error
is raised by the call that made it and not by a later one.
"""

from __future__ import annotations

import os

import mindspore

from msprobe.adapters.mindspore.graph_tap import in_graph_mode
from msprobe.adapters.mindspore.launching import launch_at_once
from msprobe.adapters.mindspore.runtime_facts import runtime_facts
from msprobe.adapters.mindspore.runtime_switch import RuntimeSwitch
from msprobe.core.config import DumpConfig
from msprobe.core.config.watch import ConfigWatch
from msprobe.core.dump.session import DumpSession, MakeBackend
from msprobe.core.dump.watched import open_session
from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.kernels.exception_request import write_exception_request
from msprobe.core.log import logger

FALLBACK = {"producer": "cpu-fallback", "record_level": "api"}
VARIABLE = "MINDSPORE_DUMP_CONFIG"


def open_exception_session(config: DumpConfig, make: MakeBackend, watch: ConfigWatch | None) -> DumpSession:
    """Ask the runtime, and record calls where it does not answer.

    Raises:
        MsprobeException: the request cannot be written.
    """
    try:
        request = write_exception_request(config)
    except OSError as error:
        raise MsprobeException(
            0, f"dump_path {config.dump_path}: cannot write the dump request ({error_text(error)})"
        ) from error
    on_cpu = mindspore.get_context("device_target") == "CPU"
    asked = not (on_cpu and in_graph_mode())  # there the runtime would only write the parameters, with many warnings
    if asked:
        os.environ[VARIABLE] = str(request)
    if on_cpu:
        _explain(in_graph_mode())
        launch_at_once()
    else:
        switch = RuntimeSwitch(runtime_facts())
        switch.prepare()
        switch.start()
    session = open_session(config, make, watch)
    if asked:
        session.closing.callback(_withdraw, str(request))
    session.label.update(FALLBACK if on_cpu else {"producer": "runtime"})
    return session


def _explain(graph: bool) -> None:
    if graph:
        logger.warning(
            "exception_dump: kernels of a static graph are watched on Ascend only; on a CPU the calls outside of "
            "compiled graphs are recorded. To find the call inside, run with mindspore.PYNATIVE_MODE"
        )
    else:
        logger.info("exception_dump on a CPU records API calls, not kernels (producer: cpu-fallback)")


def _withdraw(request: str) -> None:
    """Leave no request behind for programs that this one starts."""
    if os.environ.get(VARIABLE) == request:
        del os.environ[VARIABLE]
