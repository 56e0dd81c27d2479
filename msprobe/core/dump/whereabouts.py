"""Where this process records: the folder of its rank, or of its process id as long as it has no rank.

A rank that another live process records under as well gets a folder of its own, ``rank{R}_{pid}``. A process that is
given its rank while a step is open takes the folder along.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.core.log import logger
from msprobe.core.store.claims import CLAIMS
from msprobe.core.store.earlier_run import tell_of_earlier_folders
from msprobe.core.store.layout import process_folder, step_folder
from msprobe.core.store.links import make_folder_below

if TYPE_CHECKING:
    from msprobe.core.dump.step import Step


class Whereabouts:
    """The folders of one session."""

    def __init__(self) -> None:
        self._shared: set[int] = set()
        self._looked: set[Path] = set()

    def folder(self, root: Path, number: int, rank: int | None) -> Path:
        """The folder to record step ``number`` into, claimed for this process."""
        step = step_folder(root, number)
        folder = process_folder(step, rank, os.getpid(), shared=rank in self._shared)
        try:
            make_folder_below(root, folder)
        except OSError:
            return folder  # the sink says what is wrong with it
        if not CLAIMS.take(folder):
            folder = self._own(step, rank)
        if root not in self._looked:
            self._looked.add(root)
            tell_of_earlier_folders(root, folder)
        return folder

    def move(self, step: Step, rank: int) -> None:
        """The process of an open ``step`` has been given a rank: rename its folder and go on there."""
        old = step.sink.folder
        new = process_folder(old.parent, rank, os.getpid(), shared=rank in self._shared)
        if old.name != process_folder(old.parent, None, os.getpid()).name:
            return
        if not CLAIMS.take(new):
            new = self._own(old.parent, rank)
        if not step.move(new):
            new = self._own(old.parent, rank)
            if not step.move(new):
                logger.warning("%s cannot be renamed to %s: this step stays there", old, new.name)
                return
        CLAIMS.renamed(old, new)
        logger.info("this process is rank %d now: %s has become %s", rank, old, new.name)

    def leave(self, rank: int | None) -> None:
        """In a forked child: the folders of the parent's rank are the parent's, whether or not it has them yet."""
        if rank is not None:
            self._shared.add(rank)

    def _own(self, step: Path, rank: int | None) -> Path:
        """The folder of a rank that is taken already."""
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
