"""Keep the dumps of processes and of runs apart.

Two processes with the same rank must never write into one folder, so a process locks its folder (``FolderLocks``). The
lock is on the folder itself. It leaves no file behind, survives a rename, and ends with the process however that ends,
so what a finished or killed run left can be replaced while a live one is left alone. Where the file system has no such
locks, nothing is locked and every folder counts as free.

Files of an earlier run are removed with a warning, or warned of, so that two runs never mix without a message.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from msprobe.core.log import logger
from msprobe.core.store.layout import CONSTRUCT, DEBUG, DUMP, ERRORS, JOURNAL, STACK, TENSORS
from msprobe.core.store.safe_files import remove_symlink

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None

_MOST_LOCKS = 64
"""Locks held at a time: processes of one run are never that many steps apart, and open files are few."""


class FolderLocks:
    """The locks on folders that this process holds; the oldest is released first."""

    def __init__(self) -> None:
        self._held: OrderedDict[Path, int] = OrderedDict()

    def acquire(self, folder: Path) -> bool:
        """Lock an existing ``folder``; return False when another live process has locked it, True otherwise."""
        if self.holds(folder):
            return True
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return True  # it is missing or cannot be read: the error is reported when it is written
        free = _lock(handle)
        if free:
            self._held[folder] = handle
            while len(self._held) > _MOST_LOCKS:
                os.close(self._held.popitem(last=False)[1])
        else:
            os.close(handle)
        return free

    def holds(self, folder: Path) -> bool:
        """Return whether this process locked ``folder``; one that was removed and created again is another folder."""
        handle = self._held.get(folder)
        if handle is None:
            return False
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(handle), os.stat(folder)):
                return True
        os.close(self._held.pop(folder))
        return False

    def rename(self, old: Path, new: Path) -> None:
        """Note that a locked folder has another name now."""
        replaced = self._held.pop(new, None)
        if replaced is not None:
            os.close(replaced)
        handle = self._held.pop(old, None)
        if handle is not None:
            self._held[new] = handle

    def release(self) -> None:
        """Release all locks; in a forked child, leave them to the parent."""
        held, self._held = self._held, OrderedDict()
        for handle in held.values():
            os.close(handle)


def _lock(handle: int) -> bool:
    """Lock an open folder; return False when another process has locked it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


FOLDER_LOCKS = FolderLocks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=FOLDER_LOCKS.release)

_DOCUMENTS = (DUMP, DEBUG, STACK, CONSTRUCT, JOURNAL, ERRORS)
_STEP_NAME = re.compile(r"step\d+")
_PROCESS_NAME = re.compile(r"proc\d+|rank\d+(_\d+)?")
_MOST_FOLDERS = 200
"""How many folders are examined; of a larger dump only the first ones."""
_BEGIN = time.time()  # of the first process of a run: forked processes inherit it


def clear_earlier_run(folder: Path) -> None:
    """Remove the dump of an earlier run from ``folder``, with a warning. Only files that msprobe writes are removed."""
    if any(os.path.lexists(folder / name) for name in _DOCUMENTS):
        logger.warning("%s holds an earlier dump: it is replaced by this run", folder)
        remove_documents(folder)


def remove_documents(folder: Path) -> None:
    """Remove all documents and tensor files of a dump from ``folder``."""
    for name in _DOCUMENTS:
        (folder / name).unlink(missing_ok=True)
    remove_symlink(folder / TENSORS)
    if (folder / TENSORS).is_dir():
        shutil.rmtree(folder / TENSORS)


def warn_of_earlier_folders(root: Path, own: Path) -> None:
    """Warn of process folders below ``root``, except ``own``, that were written before this program began.

    Folders of steps, ranks and processes that this run does not record stay; a reader would take them for its own.
    """
    try:
        folders = itertools.islice(_process_folders(root), _MOST_FOLDERS)
        earlier = [folder for folder in folders if folder != own and _is_earlier(folder)]
    except OSError:  # another process of this run removes what it has recorded
        return
    if earlier:
        names = ", ".join(f"{folder.parent.name}/{folder.name}" for folder in earlier[:3])
        logger.warning(
            "%s holds %d folder%s written before this program began (%s%s): what this run does not record again stays "
            "beside it; remove them, or give each run a dump_path of its own",
            root,
            len(earlier),
            "s" * (len(earlier) > 1),
            names,
            ", ..." * (len(earlier) > 3),
        )


def _process_folders(root: Path) -> Iterator[Path]:
    """Yield the process folders of all steps, by number of the step and name."""
    steps = [path for path in root.iterdir() if _STEP_NAME.fullmatch(path.name)]
    for step in sorted(steps, key=lambda path: int(path.name.removeprefix("step"))):
        if step.is_dir():
            yield from sorted(path for path in step.iterdir() if _PROCESS_NAME.fullmatch(path.name))


def _is_earlier(folder: Path) -> bool:
    times = []
    for name in (DUMP, DEBUG, JOURNAL):
        with contextlib.suppress(OSError):
            times.append((folder / name).lstat().st_mtime)
    return bool(times) and max(times) < _BEGIN
