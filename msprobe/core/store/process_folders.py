"""Keep the dumps of processes and of runs apart.

Two processes with the same rank must never write into one folder, so a process locks the first folder that it records
into (``FolderLock``), and looks whether another one has locked those that follow. A second process of the same rank
finds the lock there, and uses folders of its own from then on. The lock is on the folder itself. It leaves no file
behind, survives a rename, and ends with the process however that ends, so what a finished or killed run left can be
replaced while a live one is left alone. Where the file system has no such locks, nothing is locked and every folder
counts as free.

Files of an earlier run in the same folder are removed with a warning. What it left in other folders stays, and is told
apart by readers (``runs.py``).
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from msprobe.core.interruption import ignored, let_through
from msprobe.core.log import logger
from msprobe.core.store.layout import DOCUMENTS, ERRORS, JOURNAL, TENSORS, root_of
from msprobe.core.store.safe_files import mode_of, remove_symlink

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None


class FolderLock:
    """The lock that this process holds: on the first folder that it records into below a dump_path."""

    def __init__(self) -> None:
        self._folder = Path()
        self._handle: int | None = None

    def acquire(self, folder: Path) -> bool:
        """Return False when another live process has locked ``folder``, True otherwise.

        The folder is locked, unless this process still holds the lock on another one below the same dump_path.
        """
        if self.holds(folder):
            return True
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            let_through(error)
            return True  # it is missing or cannot be read: the error is reported when it is written
        try:
            free = _lock(handle)
            keeps = free and not (root_of(self._folder) == root_of(folder) and self.holds(self._folder))
            if keeps:
                self.release()
        except BaseException:  # a lock that nobody knows of would keep out this process itself
            os.close(handle)
            raise
        if keeps:
            self._folder, self._handle = folder, handle
        else:
            os.close(handle)
        return free

    def holds(self, folder: Path) -> bool:
        """Return whether this process locked ``folder``; one that was removed and created again is another folder."""
        if self._handle is None or folder != self._folder:
            return False
        with ignored(OSError):
            if os.path.samestat(os.fstat(self._handle), os.stat(folder)):
                return True
        self.release()
        return False

    def rename(self, old: Path, new: Path) -> None:
        """Note that a folder has another name now."""
        if self._folder == old:
            self._folder = new

    def release(self) -> None:
        """Release the lock; in a forked child, leave it to the parent."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


def _lock(handle: int) -> bool:
    """Lock an open folder; return False when another process has locked it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        let_through(error)
    return True


FOLDER_LOCK = FolderLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=FOLDER_LOCK.release)

_WRITTEN = (*DOCUMENTS, JOURNAL, ERRORS)


def clear_earlier_run(folder: Path) -> None:
    """Remove the dump of an earlier run from ``folder``, with a warning. Only files that msprobe writes are removed."""
    if any(mode_of(folder.joinpath(name), follow=False) for name in _WRITTEN):
        logger.warning("%s holds an earlier dump: it is replaced by this run", folder)
        remove_documents(folder)


def remove_documents(folder: Path) -> None:
    """Remove all documents and tensor files of a dump from ``folder``."""
    for name in _WRITTEN:
        with ignored(FileNotFoundError):  # with missing_ok that of a handler would be lost
            folder.joinpath(name).unlink()
    remove_symlink(folder.joinpath(TENSORS))
    if stat.S_ISDIR(mode_of(folder.joinpath(TENSORS))):
        shutil.rmtree(folder.joinpath(TENSORS))


def rank_numbers(processes: Iterable[tuple[str, int | None]]) -> list[int]:
    """Return a number for each process: its own for a rank, the next free one for any other.

    Args:
        processes: kind (``rank`` or ``proc``) and number of each process.
    """
    processes = list(processes)
    last = max((number for kind, number in processes if kind == "rank" and number is not None), default=-1)
    numbers = []
    for kind, number in processes:
        if kind == "rank" and number is not None:
            numbers.append(number)
        else:
            last += 1
            numbers.append(last)
    return numbers
