"""Permissions of new files and folders: private, unless ``MSPROBE_FILE_MODE`` allows more.

    MSPROBE_FILE_MODE=640     files 0640, folders 0750: the group may read

Whoever may read files may enter folders. The umask of the process applies as usual. The permissions of existing folders
are not changed.
"""

from __future__ import annotations

import os
import re

from msprobe.core.log import logger

VARIABLE = "MSPROBE_FILE_MODE"
PRIVATE = 0o600


def file_mode(text: str | None) -> int:
    """Return the permissions of files for a value of ``MSPROBE_FILE_MODE``.

    The value has three octal digits: 6, then 0, 4 or 6 twice. Another value is private, and a warning is logged.
    """
    if not text:
        return PRIVATE
    if re.fullmatch("0?6[046]{2}", text) is None:
        logger.warning(
            "%s=%s is not used, files stay private (600): give 640, 644, 660, 664 or 666",
            VARIABLE,
            text,
        )
        return PRIVATE
    return int(text, 8)


def folder_mode(files: int) -> int:
    """Return the permissions of folders for files with the permissions ``files``."""
    return files | (files & 0o444) >> 2


FILE_MODE = file_mode(os.environ.get(VARIABLE))
FOLDER_MODE = folder_mode(FILE_MODE)
