"""Draws two dumps in this process, which has one thread, with a copy of it that makes texts, and without.

    python -m tests.visualize.run_with_json_worker TARGET GOLDEN OUTPUT CORES [what to lose]

Prints as JSON: the number of processes that were made, what was logged, and the processes that are left.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

from msprobe.compare.workers import fork_channel
from msprobe.core.log import logger
from msprobe.visualize import job
from msprobe.visualize.values import json_worker

MAIN = os.getpid()


def lost(original: Callable[..., Any], first: int) -> Callable[..., Any]:
    """The function, which kills a copy of this process that calls it once more than ``first`` times."""
    calls = 0

    def function(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if os.getpid() != MAIN and calls > first:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments)

    return function


if __name__ == "__main__":
    target, golden, output, cores, *lose = sys.argv[1:]
    job._LARGE, job.cpu_count = 0, lambda: int(cores)
    made: list[Any] = []
    warnings: list[str] = []
    forked = fork_channel.ForkedWorker
    fork_channel.ForkedWorker = lambda *given: made.append(forked(*given)) or made[-1]
    logger.warning = lambda text, *values: warnings.append(text % values)
    for name in lose:
        function, _, first = name.partition(":")
        setattr(json_worker, function, lost(getattr(json_worker, function), int(first or 0)))
    job.visualize(job.Request(target, output, golden))
    try:
        left = int(os.waitpid(-1, os.WNOHANG)[0] == 0)
    except ChildProcessError:
        left = 0
    json.dump({"made": len(made), "warnings": warnings, "left": left}, sys.stdout)
