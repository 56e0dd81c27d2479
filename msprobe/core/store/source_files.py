"""The files of a program in which its recorded calls are made, as they were when they ran: ``source.json``.

A stack shows the lines of calls. What stands between them (an index, a loop, a constant, a constructor) is nowhere
else: with the files, two programs can be laid side by side. Files of installed packages are left out.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from functools import lru_cache

from msprobe.core.naming.frames import FRAME, is_installed

MOST_CHARACTERS = 1_000_000
"""Characters beyond which a file is data rather than a program."""


def source_document(stacks: Iterable[Iterable[str]]) -> dict[str, str]:
    """Return the content of source.json: the text of each file of the program that a frame is in, by its path."""
    paths = {_program_path(frame) for frame in {frame for stack in stacks for frame in stack}}
    return {path: text for path in sorted(paths) if (text := _text(path))}


@lru_cache(maxsize=1 << 15)  # the frames of one step are those of the next
def _program_path(frame: str) -> str:
    """Return the path of the file that a frame is in; "" for one of an installed package."""
    found = FRAME.match(frame)
    return "" if found is None or is_installed(found[1]) else found[1]


def _text(path: str) -> str:
    """Return a file as the frames were taken from it: the running program may have been edited since."""
    text = "".join(linecache.getlines(path))
    return text if len(text) <= MOST_CHARACTERS else ""
