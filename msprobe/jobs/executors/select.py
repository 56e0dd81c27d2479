"""From the text of ``--executor`` to an executor."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate

from msprobe.core.errors import MsprobeException
from msprobe.core.host import cpu_count
from msprobe.jobs.executors.protocol import Executor

_WORTH_BYTES = 4_000_000
_DASK = re.compile(r"dask://(local|[^/\s]+:\d+)/?")
_PROCESSES = re.compile(r"processes(?::([1-9]\d*))?")
KNOWN = "auto, serial, processes, processes:N, dask://HOST:PORT, dask://local"


def executor_named(name: str, ranks: int, sizes: Iterable[int]) -> Executor | None:
    """The executor for ``ranks`` ranks with documents of these sizes in bytes; None to work in this process.

    ``auto`` uses processes as soon as starting them costs less than they save, and asks for no more sizes than tell.

    Raises:
        MsprobeException: there is no such executor.
    """
    processes, dask = _PROCESSES.fullmatch(name), _DASK.fullmatch(name)
    if dask:
        from msprobe.jobs.executors.dask import DaskExecutor

        return DaskExecutor(dask[1])
    if processes:
        return _processes(int(processes[1] or cpu_count()))
    if name == "serial":
        return None
    if name != "auto":
        reason = f"executor {name!r}; known executors: {KNOWN}"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason)
    if min(ranks, cpu_count()) == 1 or not any(total > _WORTH_BYTES for total in accumulate(sizes)):
        return None
    return _processes(cpu_count())


def _processes(workers: int) -> Executor:
    from msprobe.jobs.executors.processes import ProcessExecutor  # not free, and one rank needs none

    return ProcessExecutor(workers)
