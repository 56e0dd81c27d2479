"""A job of several ranks: one process each, on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
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
    try:
        logs = [process.communicate(timeout=SECONDS)[0].decode() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0] * size, "\n".join(logs)
    return logs


def run_msrun(program: Path, size: int, *arguments: object) -> None:
    """Run a program under MindSpore's launcher. A rank that fails fails the test with what all of them wrote."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    msrun = Path(sys.executable).parent / "msrun"
    path = os.pathsep.join([str(msrun.parent), os.environ["PATH"]])
    words = [str(msrun), f"--worker_num={size}", f"--local_worker_num={size}", f"--master_port={port}", "--join=True"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*words, f"--log_dir={folder}/logs", str(program), *map(str, arguments)],
            cwd=folder,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
            timeout=SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )
        logs = [log.read_text(errors="replace")[-2000:] for log in Path(folder, "logs").glob("worker_*.log")]
    assert done.returncode == 0, "\n".join([done.stdout[-2000:], *logs])
