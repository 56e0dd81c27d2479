"""Who may read what is written: the user alone, or whom ``MSPROBE_FILE_MODE`` adds.

    MSPROBE_FILE_MODE=640     files 0640, folders 0750: the group may read

Folders can be entered by whoever may read files. The process's umask takes its part off as ever. What is written into
a folder that is there already does not change that folder.
"""

from __future__ import annotations

import os
import re

from msprobe.core.log import logger

VARIABLE = "MSPROBE_FILE_MODE"
PRIVATE = 0o600


def file_mode(text: str | None) -> int:
    """The mode of files that ``text`` asks for: three octal digits, the first one 6, the others 0, 4 or 6.

    Private with one warning when it is something else.
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
    """The mode of folders beside files of that mode."""
    return files | (files & 0o444) >> 2


FILE_MODE = file_mode(os.environ.get(VARIABLE))
FOLDER_MODE = folder_mode(FILE_MODE)
