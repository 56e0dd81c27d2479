"""Runs a command and says what it took: wall and CPU seconds with its children, peak memory of its process tree."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLE_SECONDS = 0.02
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Taken:
    """``status`` is None when the command was stopped at the time limit; memory in 10^6 bytes."""

    status: int | None
    wall: float
    cpu: float
    peak_mb: float
    output: str


class _PeakOfTree(threading.Thread):
    """Samples the resident memory of a process and its descendants until told to stop."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root = root
        self.over = threading.Event()
        self.bytes = 0

    def run(self) -> None:
        while not self.over.is_set():
            self.bytes = max(self.bytes, sum(_resident(process) for process in _tree(self.root)))
            self.over.wait(SAMPLE_SECONDS)


def take(command: Sequence[str], limit: float, environment: dict[str, str] | None = None) -> Taken:
    """Run ``command`` to its end or until ``limit`` seconds are over."""
    with tempfile.TemporaryFile() as log:
        earlier = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        variables = {**os.environ, **(environment or {})}
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=variables, start_new_session=True)
        watcher = _PeakOfTree(process.pid)
        watcher.start()
        status = _wait(process, limit)
        wall = time.perf_counter() - began
        watcher.over.set()
        watcher.join()
        later = resource.getrusage(resource.RUSAGE_CHILDREN)
        log.seek(0)
        output = log.read().decode(errors="replace")
    cpu = later.ru_utime + later.ru_stime - earlier.ru_utime - earlier.ru_stime
    return Taken(status, wall, cpu, watcher.bytes / 1e6, output)


def _wait(process: subprocess.Popen[bytes], limit: float) -> int | None:
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)  # its own session: nothing else is in the group
        process.wait()
        return None


def _tree(root: int) -> list[int]:
    found, index = [root], 0
    while index < len(found):
        try:
            tasks = list(Path(f"/proc/{found[index]}/task").iterdir())
            found += [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except OSError:
            pass  # it ended while we looked
        index += 1
    return found


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0
