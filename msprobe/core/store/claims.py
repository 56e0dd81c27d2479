"""Folders that belong to one process: two processes with the same rank must never write into one folder.

A claim is a lock on the folder itself. It leaves no file behind, survives a rename, and ends with the process however
that ends, so what a finished or killed run left can be replaced while a live one is let alone. Where the file system
has no such locks nothing is known, and nothing is claimed.
"""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from pathlib import Path
from types import ModuleType

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None

_REMEMBERED = 64
"""Claims held at a time: processes of one run are never that many steps apart, and open files are few."""


class Claims:
    """The claims of this process, the oldest given up first."""

    def __init__(self) -> None:
        self._held: OrderedDict[Path, int] = OrderedDict()

    def take(self, folder: Path) -> bool:
        """Claim an existing ``folder``: False when another live process has done so, True otherwise."""
        if self.holds(folder):
            return True
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return True  # not there, or not ours to read: whoever writes into it will tell
        free = _lock(handle)
        if free:
            self._held[folder] = handle
            while len(self._held) > _REMEMBERED:
                os.close(self._held.popitem(last=False)[1])
        else:
            os.close(handle)
        return free

    def holds(self, folder: Path) -> bool:
        """Whether this process claimed ``folder``; one that was removed and made again is another folder."""
        handle = self._held.get(folder)
        if handle is None:
            return False
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(handle), os.stat(folder)):
                return True
        os.close(self._held.pop(folder))
        return False

    def renamed(self, old: Path, new: Path) -> None:
        """A claimed folder has another name now."""
        replaced = self._held.pop(new, None)
        if replaced is not None:
            os.close(replaced)
        handle = self._held.pop(old, None)
        if handle is not None:
            self._held[new] = handle

    def release(self) -> None:
        """Give up all claims; in a forked child, leave them to the parent."""
        held, self._held = self._held, OrderedDict()
        for handle in held.values():
            os.close(handle)


def _lock(handle: int) -> bool:
    """Lock an open folder; False when another process has it locked."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


CLAIMS = Claims()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CLAIMS.release)
