"""Ask MindSpore's runtime for what task ``exception_dump`` records: the operands of a kernel that fails.

Only the runtime on Ascend does that. In a dynamic graph on a CPU the first failing call is recorded at the level of API
calls instead, and the header says so: ``producer: cpu-fallback``, ``record_level: api``. Operators are launched one
after the other for it, so that an error is raised by the call that made it and not by a later one. In a static graph on
a CPU a ``KernelSession`` looks at all kernels.
"""

from __future__ import annotations

import os

from msprobe.adapters.mindspore.kernel.runtime_dump import VARIABLE, RuntimeSwitch
from msprobe.adapters.mindspore.launch_mode import launch_at_once
from msprobe.adapters.mindspore.runtime_facts import on_cpu, runtime_facts
from msprobe.core.config import DumpConfig
from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.interruption import let_through
from msprobe.core.kernel_dumps.runtime_request import write_exception_request
from msprobe.core.log import logger


def ask_for_failed_kernels(config: DumpConfig) -> str:
    """Ask the runtime to keep the operands of a kernel that fails.

    Returns:
        The request, for ``withdraw_request`` at the end.

    Raises:
        MsprobeException: the request cannot be written.
    """
    try:
        request = str(write_exception_request(config))
    except OSError as error:
        let_through(error)
        raise MsprobeException(
            0, f"dump_path {config.dump_path}: cannot write the dump request ({error_text(error)})"
        ) from error
    os.environ[VARIABLE] = request
    if on_cpu():
        logger.info("exception_dump on a CPU records API calls, not kernels (producer: cpu-fallback)")
        launch_at_once()
    else:
        switch = RuntimeSwitch(runtime_facts())
        switch.prepare()
        switch.start()
    return request
