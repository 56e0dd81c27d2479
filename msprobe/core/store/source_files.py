"""The files of a program, as they were when they ran: ``source.json``.

They are those in which recorded calls are made, and those from which these import: what makes the data makes no call.
A stack shows the lines of calls. What stands between them (an index, a loop, a constant, a constructor) is nowhere
else: with the files, two programs can be laid side by side. Files of installed packages are left out.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType

from msprobe.core.naming.frames import FRAME, is_installed

_OWN = f"{Path(__file__).parents[2]}/"
"""Where the tool itself lies, which may be no installed package."""

MOST_CHARACTERS = 1_000_000
"""Characters beyond which a file is data rather than a program."""


def source_document(stacks: Iterable[Iterable[str]]) -> dict[str, str]:
    """Return the content of source.json: the text of each file of the program that a frame is in, or that such a file
    imports from, by its path."""
    paths = frozenset(_program_path(frame) for frame in {frame for stack in stacks for frame in stack})
    return {path: text for path in sorted(paths | _imported(paths, len(sys.modules))) if (text := _text(path))}


@lru_cache(maxsize=64)  # those of one step are those of the next, unless modules were loaded
def _imported(paths: frozenset[str], _loaded: int) -> frozenset[str]:
    """Return the files of the program from which some of its files import."""
    modules = [module for module in list(sys.modules.values()) if (path := _file(module)) and path in paths]
    found = (_file(used) for module in modules for used in _modules_in(module))
    return frozenset(path for path in found if not (path.startswith(_OWN) or is_installed(path)))


def _modules_in(module: ModuleType) -> Iterator[ModuleType | None]:
    """Yield the modules that a module has imported, or imported a class or function from."""
    for value in list(vars(module).values()):
        kind = type(value)  # what an object of the program says of its class may run its code
        if issubclass(kind, ModuleType):
            yield value
        elif issubclass(kind, (type, FunctionType)):
            yield sys.modules.get(str(vars(value).get("__module__") if issubclass(kind, type) else value.__module__))


def _file(module: ModuleType | None) -> str:
    path = vars(module).get("__file__") if type(module) is ModuleType else None
    return path if isinstance(path, str) and path.endswith(".py") else ""


@lru_cache(maxsize=1 << 15)  # the frames of one step are those of the next
def _program_path(frame: str) -> str:
    """Return the path of the file that a frame is in; "" for one of an installed package."""
    found = FRAME.match(frame)
    return "" if found is None or is_installed(found[1]) else found[1]


def _text(path: str) -> str:
    """Return a file as the frames were taken from it: the running program may have been edited since."""
    text = "".join(linecache.getlines(path))
    return text if len(text) <= MOST_CHARACTERS else ""
