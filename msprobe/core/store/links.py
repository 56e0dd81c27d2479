"""Symlinks below a dump: they are removed and never followed, so that nothing is written or removed outside the dump.

The path of the dump itself belongs to the user and may lead through any symlinks. What a removed symlink points to
stays as it is.
"""

from __future__ import annotations

import os
from pathlib import Path

from msprobe.core.log import logger
from msprobe.core.store.atomic import make_folder


def take_link_away(path: Path) -> None:
    """Remove ``path`` if it is a symlink; what it points to stays.

    Raises:
        OSError: the symlink cannot be removed.
    """
    try:
        target = os.readlink(path)
    except OSError:  # no symlink, or no such path
        return
    try:
        path.unlink()
    except FileNotFoundError:
        return
    except OSError:
        if path.is_symlink():
            raise
        return  # another process has put its folder there in the meantime
    logger.warning("%s was a link to %s: it is replaced, and what it led to stays as it is", path, target)


def make_folder_below(root: Path, folder: Path) -> None:
    """Create ``folder``, which is below ``root``, and the folders between them; symlinks among them are replaced.

    Raises:
        OSError: a folder cannot be created, or a symlink cannot be removed.
    """
    make_folder(root)
    for part in folder.relative_to(root).parts:
        root = root / part
        take_link_away(root)
        make_folder(root)
