"""A job of several ranks: one process each, on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence

from tests.rules.tree import ROOT

SECONDS = 240


def run_ranks(module: str, size: int, arguments: Callable[[int], Sequence[object]], **environment: str) -> list[str]:
    """Run ``python -m module`` with the arguments of each rank, all at once, until the last has ended.

    Returns what each wrote. A rank that fails or takes longer than ``SECONDS`` fails the test with all they wrote.
    """
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments(rank))],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        logs = [process.communicate(timeout=SECONDS)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0] * size, "\n".join(logs)
    return logs
