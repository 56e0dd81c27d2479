"""Choose the executor that ``--executor`` names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate

from msprobe.core.errors import MsprobeException
from msprobe.core.host import cpu_count
from msprobe.jobs.executors.protocol import Executor

_WORTH_BYTES = 4_000_000  # documents of all ranks; below, starting processes costs what it saves
_DASK = re.compile(r"dask://(local|[^/\s]+:\d+)/?")
_PROCESSES = re.compile(r"processes(?::([1-9]\d*))?")
KNOWN = "auto, serial, processes, processes:N, dask://HOST:PORT, dask://local"


def find_executor(name: str, ranks: int, sizes: Iterable[int]) -> Executor | None:
    """Return the executor of a name; None to work in this process.

    ``auto`` chooses processes where they save more time than their start costs.

    Args:
        name: one of ``KNOWN``.
        ranks: the number of ranks, which is the number of tasks.
        sizes: the sizes of the documents in bytes; no more of them are read than decide.

    Raises:
        MsprobeException: there is no such executor.
    """
    processes, dask = _PROCESSES.fullmatch(name), _DASK.fullmatch(name)
    if dask:
        from msprobe.jobs.executors.dask import DaskExecutor

        return DaskExecutor(dask[1])
    if processes:
        return _process_executor(int(processes[1] or cpu_count()))
    if name == "serial":
        return None
    if name != "auto":
        reason = f"executor {name!r}; known executors: {KNOWN}"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason)
    if min(ranks, cpu_count()) == 1 or not any(total > _WORTH_BYTES for total in accumulate(sizes)):
        return None
    return _process_executor(cpu_count())


def _process_executor(workers: int) -> Executor:
    from msprobe.jobs.executors.processes import ProcessExecutor  # loads subprocess; a single rank needs none

    return ProcessExecutor(workers)
