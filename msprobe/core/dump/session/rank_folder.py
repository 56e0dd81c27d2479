"""The folder this process records into: that of its rank, or of its process id while it has no rank.

A rank that another live process records under as well gets a folder of its own, ``rank{R}_{pid}``. When a process gets
its rank while a step is open, the folder of the step is renamed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msprobe.core.interruption import let_through
from msprobe.core.log import logger
from msprobe.core.store.layout import process_folder, step_folder
from msprobe.core.store.process_folders import FOLDER_LOCK
from msprobe.core.store.safe_files import make_folder_below


class RankFolder:
    """Choose the folders of one session, and lock them for this process."""

    def __init__(self) -> None:
        self._shared: set[int] = set()  # ranks that another process records under

    def place(self, root: Path, number: int, rank: int | None) -> Path:
        """Return the folder of step ``number`` as far as it is known now; nothing is created."""
        return process_folder(step_folder(root, number), rank, os.getpid(), shared=rank in self._shared)

    def folder(self, root: Path, number: int, rank: int | None) -> Path:
        """Return the folder to record step ``number`` into, created below ``root`` and locked for this process."""
        step = step_folder(root, number)
        folder = self.place(root, number, rank)
        try:
            make_folder_below(root, folder)
        except OSError as error:
            let_through(error)
            return folder  # the sink logs what is wrong with it
        if not FOLDER_LOCK.acquire(folder):
            folder = self._own_folder(step, rank)
        return folder

    def move(self, folder: Path, rank: int, rename: Callable[[Path], bool]) -> None:
        """Rename the folder of an open step, as the process has got its rank.

        Args:
            folder: the folder of the step; it is renamed only if it is that of the process id.
            rank: the rank of the process.
            rename: renames the folder to its argument; returns False when that is not possible.
        """
        target = process_folder(folder.parent, rank, os.getpid(), shared=rank in self._shared)
        if folder.name != process_folder(folder.parent, None, os.getpid()).name:
            return
        if not FOLDER_LOCK.acquire(target):
            target = self._own_folder(folder.parent, rank)
        if not rename(target):
            target = self._own_folder(folder.parent, rank)
            if not rename(target):
                logger.warning("%s cannot be renamed to %s: this step stays there", folder, target.name)
                return
        FOLDER_LOCK.rename(folder, target)
        logger.info("this process is rank %d now: %s has become %s", rank, folder, target.name)

    def leave(self, rank: int | None) -> None:
        """Leave the folders of ``rank`` to the parent: this process is a forked child."""
        if rank is not None:
            self._shared.add(rank)

    def _own_folder(self, step: Path, rank: int | None) -> Path:
        """Return the folder of this process for a rank that another process records under."""
        assert rank is not None
        self._shared.add(rank)
        folder = process_folder(step, rank, os.getpid(), shared=True)
        logger.warning(
            "another running process records as rank %d into %s: this one uses %s "
            "(give each process a number of its own with start(rank_id=...))",
            rank,
            step,
            folder.name,
        )
        return folder
