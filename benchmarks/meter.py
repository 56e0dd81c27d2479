"""What a process can say about itself: CPU seconds, bytes handed to write, resident memory."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Reading:
    """Since the process began: CPU seconds of all threads, of the calling one, wall seconds, bytes given to write."""

    cpu: float
    caller: float
    wall: float
    written: int


def read() -> Reading:
    """The meters now."""
    return Reading(time.process_time(), time.thread_time(), time.perf_counter(), written_bytes())


def written_bytes() -> int:
    """Bytes this process gave to write calls (Linux); 0 where the system does not say."""
    return _field(Path("/proc/self/io"), "wchar:")


def peak_resident_mb() -> float:
    """Highest resident memory of this process since it began, in 10^6 bytes; 0 where the system does not say."""
    return _field(Path("/proc/self/status"), "VmHWM:") * 1024 / MEGABYTE


def folder_size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _field(path: Path, name: str) -> int:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
