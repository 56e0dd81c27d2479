"""A job of several ranks: one process each, on this machine."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests import forked
from tests.rules.tree import ROOT

SECONDS = 240


def run_ranks(module: str, size: int, arguments: Callable[[int], Sequence[object]], **environment: str) -> list[str]:
    """Run ``python -m module`` with the arguments of each rank, all at once, until the last has ended.

    Return the output of each rank. A rank that fails or takes longer than ``SECONDS`` fails the test with all outputs.
    """
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    processes = [forked.start(["-m", module, *arguments(rank)], cwd=ROOT, env=surroundings) for rank in range(size)]
    logs = _outputs_of(processes)
    assert [process.returncode for process in processes] == [0] * size, "\n".join(logs)
    return logs


def run_mindspore_ranks(program: Path, size: int, *arguments: object) -> None:
    """Run a program in the processes that MindSpore's launcher makes: a scheduler, and a worker for each rank.

    A rank that fails fails the test with what all of them wrote.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    job = {"MS_WORKER_NUM": str(size), "MS_SCHED_HOST": "127.0.0.1", "MS_SCHED_PORT": str(port), "RANK_SIZE": str(size)}
    ranks = [{"MS_ROLE": "MS_WORKER", **dict.fromkeys(("MS_NODE_ID", "RANK_ID"), str(rank))} for rank in range(size)]
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            forked.start(
                [program, *arguments],
                env={**os.environ, "PYTHONPATH": str(ROOT), **job, **role},
                cwd=Path(folder),
                preloaded=forked.MINDSPORE,
            )
            for role in ({"MS_ROLE": "MS_SCHED"}, *ranks)
        ]
        scheduler, *workers = processes
        with scheduler.stdout:
            try:
                logs = _outputs_of(workers)
            finally:
                scheduler.kill()  # it would wait for some seconds
                scheduler.wait()
    assert [worker.returncode for worker in workers] == [0] * size, "\n".join(logs)


def _outputs_of(processes: Sequence[forked.ForkedProcess]) -> list[str]:
    """Wait for the end of all processes; none of them goes on after an error here."""
    try:
        return [process.communicate(timeout=SECONDS)[0].decode(errors="replace") for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
