"""Lines of source in recorded call stacks: which frame of a stack a person wants to see, and its text.

A frame is recorded as ``File PATH, line N, in FUNCTION, CODE``. It is shown as ``PATH:N in FUNCTION: CODE``, which
terminals and editors open at the line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

from msprobe.core.naming.frames import FRAME, FRAMEWORK, frame_text, is_installed

AROUND = 2
_MOST_BYTES = 8_000_000
_PASSES_ON = "super().__call__("


class Frame(NamedTuple):
    """One frame of a call stack. A recorded text that is no frame is ``code``; ``line`` is 0 then."""

    path: str
    line: int
    function: str
    code: str

    @property
    def text(self) -> str:
        """The frame on one line."""
        if not self.line:
            return self.code
        where = f"{self.path}:{self.line}" + (f" in {self.function}" if self.function else "")
        return f"{where}: {self.code}" if self.code else where

    @property
    def recorded(self) -> str:
        """The frame as a stack records it."""
        return frame_text(self.path, self.line, self.function, self.code)

    @property
    def is_library(self) -> bool:
        """Whether the frame is code of a framework or of another installed package."""
        return is_installed(self.path)

    @property
    def passes_on(self) -> bool:
        """Whether the frame is code of a framework, or only hands a call on to the class above."""
        return bool(re.search(FRAMEWORK, self.path)) or (_PASSES_ON in self.code and self.function == "__call__")


def frame_of(text: str) -> Frame:
    """Return the parts of a recorded frame."""
    found = FRAME.match(text)
    if found is None:
        return Frame("", 0, "", " ".join(text.split()))
    path, line, function, code = found.groups()
    return Frame(path, int(line), (function or "").strip(), " ".join(code.split()))


def source_frame(stack: Sequence[str]) -> Frame | None:
    """Return the innermost frame that is code of the user or of a library, and not of the framework.

    It is the innermost frame at all where every frame is one of the framework; None for an empty stack.
    """
    shown = from_source(stack)
    return frame_of(shown[0]) if shown else None


def from_source(stack: Sequence[str]) -> list[str]:
    """Return a stack from ``source_frame`` on, without the frames of the framework inside it."""
    for number, text in enumerate(stack):
        if not frame_of(text).passes_on:
            return list(stack[number:])
    return list(stack)


def source_line(stack: Sequence[str]) -> str:
    """Return ``source_frame`` on one line, or "" for an empty stack."""
    frame = source_frame(stack)
    return frame.text if frame is not None else ""


def excerpt(stack: Sequence[str]) -> list[str]:
    """Return the line of ``source_frame`` with ``AROUND`` lines before and after it, numbered, the line itself marked.

    The list is empty where the file is not here, or does not hold the recorded line any more.
    """
    frame = source_frame(stack)
    lines = _lines_of(frame) if frame is not None and frame.line else []
    if frame is None or not 0 < frame.line <= len(lines) or " ".join(lines[frame.line - 1].split()) != frame.code:
        return []
    first, last = max(1, frame.line - AROUND), min(len(lines), frame.line + AROUND)
    width = len(str(last))
    shown = dedent("\n".join(lines[first - 1 : last])).split("\n")
    return [
        f"{'>' if number == frame.line else ' '} {number:{width}} | {code}".rstrip()
        for number, code in enumerate(shown, first)
    ]


def _lines_of(frame: Frame) -> list[str]:
    path = Path(frame.path)
    try:
        if not path.is_file() or not 0 < path.stat().st_size <= _MOST_BYTES:  # a pipe, or a file of /proc, may not end
            return []
        text = path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return []
    return ["".join(filter(str.isprintable, line.expandtabs(4))) for line in text.removesuffix("\n").split("\n")]
