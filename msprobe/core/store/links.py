"""Links below a dump: taken away and never followed, so that nothing is written or removed outside it.

The path of the dump itself belongs to the user and may lead through any links. Who could put one below it could also
have changed what an earlier run left there, which is replaced as well; what a link points to stays as it is.
"""

from __future__ import annotations

import os
from pathlib import Path

from msprobe.core.log import logger
from msprobe.core.store.atomic import make_folder


def take_link_away(path: Path) -> None:
    """If ``path`` is a link, remove the link. Raises OSError when that cannot be done."""
    try:
        target = os.readlink(path)
    except OSError:  # no link, or nothing
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
    """Create ``folder``, which lies below ``root``; of the folders between them none is reached through a link.

    Raises:
        OSError: a folder cannot be made, or a link cannot be taken away.
    """
    make_folder(root)
    for part in folder.relative_to(root).parts:
        root = root / part
        take_link_away(root)
        make_folder(root)
