"""Ask or change the machine and the process that every framework shares: processors, free memory, random seeds.

``is_url`` tells locations in an object store from paths of this machine; ``program_start`` says when the process
began, ``process_count`` how many processes its job has.

``trim_memory`` is needed because the C library keeps the memory of large texts and arrays after they are freed, in each
process for itself. ``check_seed`` and ``seed_host`` are the part of ``seed_all`` that does not depend on a framework.
"""

from __future__ import annotations

import gc
import os
import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from msprobe.core.errors import MsprobeException, argument_text


def cpu_count() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_fork() -> bool:
    """Return whether this process may be copied by ``fork``: no other thread of it runs."""
    try:
        return hasattr(os, "fork") and len(os.listdir("/proc/self/task")) == 1
    except OSError:  # a system that does not list threads
        return False


@contextmanager
def paused_gc() -> Iterator[None]:
    """Pause cyclic garbage collection: loading records, or modules, creates many objects and next to no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_KEPT_FREE = 0.25
"""The part of the free memory that computations of files from others leave to the rest of the machine."""
_GROUP_LIMIT = "/sys/fs/cgroup/memory.max"


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let what computes in this block fail to get memory before the machine runs out of it, and the process is killed.

    A system that does not say how much is free, or has no such limit, sets none.
    """
    free, used = free_memory(), _kilobytes("/proc/self/status", "VmData:")
    if free is None or used is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = used + int(free * (1.0 - _KEPT_FREE))
    others = [each for each in (soft, hard) if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([limit, *others]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def free_memory() -> int | None:
    """Return how many bytes of memory this process may still take (Linux, also in a container); None if unknown."""
    free = _kilobytes("/proc/meminfo", "MemAvailable:")
    try:
        with open(_GROUP_LIMIT, encoding="ascii") as file:
            group = file.read().strip()
    except OSError:
        return free
    return min(free, int(group)) if free is not None and group.isdecimal() else free


def _kilobytes(path: str, field: str) -> int | None:
    """Return the bytes of a line ``Field:  123 kB``."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            line = next((line for line in file if line.startswith(field)), "")
    except OSError:
        return None
    return int(line.split()[1]) << 10 if line else None


_DIGITS = 10
"""A number of processes has fewer digits."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


LOCAL_ONLY = "give a path of this machine (a dump can be copied to a store afterwards: compare reads it there)"
"""What to do where a URL stands for a folder to write to."""


def is_url(location: object) -> bool:
    """Return True for the text ``protocol://...``."""
    return isinstance(location, str) and _URL.match(location) is not None


def require_local(location: object, name: str) -> None:
    """Check that the folder to write to is no URL; ``name`` names the argument in the message.

    Raises:
        MsprobeException: it is one.
    """
    if is_url(location):
        raise MsprobeException(0, f"{name} {location}: is a URL; {LOCAL_ONLY}")


_PROCESS_COUNTS = "WORLD_SIZE", "RANK_SIZE"
"""The variables in which launchers of PyTorch and of MindSpore say how many processes a job has."""


def process_count() -> int | None:
    """Return how many processes the job has; None where its launcher does not say so."""
    texts = (os.environ.get(name, "") for name in _PROCESS_COUNTS)
    return next((int(text) for text in texts if text.isdecimal() and len(text) < _DIGITS), None)


def program_start() -> float:
    """Return when this process began, in seconds since 1970; a system that does not say so gives the present time."""
    now = time.time()
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return now
    return now - max(age, 0.0)


def trim_memory() -> None:
    """Return the free memory of the C library to the system, where it can (glibc); takes a few milliseconds."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    import ctypes

    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # a system whose C library has no such name
        return None


_LARGEST_SEED = 2**32 - 1


def check_seed(seed: Any, **switches: Any) -> None:
    """Raise MsprobeException unless ``seed`` is an int from 0 to 2**32 - 1 and every switch a bool."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _LARGEST_SEED:
        raise MsprobeException(0, f"seed_all: seed is an integer from 0 to {_LARGEST_SEED}, got {argument_text(seed)}")
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise MsprobeException(0, f"seed_all: {name} is True or False, got {argument_text(value)}")


def seed_host(seed: int) -> None:
    """Seed the shared generators of Python and numpy, and the hashes of the processes this one starts."""
    os.environ["PYTHONHASHSEED"] = str(seed)
    random.seed(seed)
    import numpy as np  # nobody else who asks for the host needs numpy

    np.random.seed(seed)


def memory_size() -> int:
    """Return the bytes of memory of this machine; a very large number where the system does not tell."""
    try:
        return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return 1 << 62
