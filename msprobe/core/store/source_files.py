"""The files of a program in which its recorded calls are made, as they were when they ran: ``source.json``.

A stack shows the lines of calls. What stands between them (an index, a loop, a constant, a constructor) is nowhere
else: with the files, two programs can be laid side by side. Files of installed packages are left out.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable, Iterator

FRAMEWORK = (
    r"^<|(?:site|dist)-packages/(?:torch|torch_npu|mindspore|msadapter|mindtorch)/"
    r"|/torch/(?:nn|optim|autograd|utils|distributed)/|/torch/_|/lib/python\d[\d.]*/(?!(?:site|dist)-packages/)"
)
"""Paths of a framework, of Python itself and of generated code; the viewer has the same expression (``stacks.js``)."""
LIBRARY = r"(?:site|dist)-packages/|/lib/python\d"
"""Paths of installed packages."""
MOST_CHARACTERS = 1_000_000
"""Characters beyond which a file is data rather than a program."""
_PATH = re.compile(r"File \"?(.+?)\"?, line \d+")


def is_installed(path: str) -> bool:
    """Return whether a file belongs to a framework, to Python or to another installed package."""
    return bool(re.search(FRAMEWORK, path) or re.search(LIBRARY, path))


def source_document(stacks: Iterable[Iterable[str]]) -> dict[str, str]:
    """Return the content of source.json: the text of each file of the program that a frame is in, by its path."""
    return {path: text for path in sorted(set(_paths(stacks))) if (text := _text(path))}


def _paths(stacks: Iterable[Iterable[str]]) -> Iterator[str]:
    for frame in {frame for stack in stacks for frame in stack}:
        if (found := _PATH.match(frame)) is not None and not is_installed(found[1]):
            yield found[1]


def _text(path: str) -> str:
    """Return a file as the frames were taken from it: the running program may have been edited since."""
    text = "".join(linecache.getlines(path))
    return text if len(text) <= MOST_CHARACTERS else ""
