"""Call stacks, numbered: the same stack costs one walk over code objects; its text is made once.

The text of a frame is ``File PATH, line N, in FUNC, \\n SOURCE``, and the innermost frame comes first. Frames of this
tool and frames without source (``<string>``, the interpreter's own) are left out.
"""

from __future__ import annotations

import itertools
import linecache
import os
import sys
from types import CodeType, FrameType

from msprobe.core.naming.frames import frame_text

OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
"""What the paths of the files of this tool begin with."""
UNKNOWN = ["The call stack is not available."]


class StackTable:
    """Numbers for call stacks. Two stacks with the same text share a number, so calls on one line group together."""

    def __init__(self) -> None:
        self._by_frames: dict[tuple[int, ...], int] = {}
        self._by_text: dict[tuple[str, ...], int] = {}
        self._texts: dict[int, list[str]] = {}
        self._lines: dict[tuple[int, int], str | None] = {}
        self._numbers = itertools.count()
        self._alive: list[CodeType] = []  # a code object in a key must not be freed: its id would be used again

    def capture(self, passed: int = 0) -> int:
        """Return the number of the caller's stack without its ``passed`` innermost frames.

        Skipping them saves time: the interpreter makes an object of each frame that is looked at, and frames of the
        tool are left out anyway.
        """
        frame: FrameType | None = sys._getframe(1 + passed)
        start = frame
        key: list[int] = []
        while frame is not None:
            key.append(id(frame.f_code))
            key.append(frame.f_lasti)
            frame = frame.f_back
        number = self._by_frames.get(tuple(key))
        return self._add(tuple(key), start) if number is None else number

    def innermost(self) -> str | None:
        """Return the text of the innermost frame of the program; None where it has no source."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            key = id(code), frame.f_lasti
            if key not in self._lines:
                self._alive.append(code)
                self._lines[key] = _frame_text(frame)
            text = self._lines[key]
            if text is not None:
                return text
            frame = frame.f_back
        return None

    def text(self, number: int) -> list[str]:
        """Return the frames of the stack with this number, one text each."""
        return self._texts[number]

    def _add(self, key: tuple[int, ...], frame: FrameType | None) -> int:
        texts: list[str] = []
        while frame is not None:
            self._alive.append(frame.f_code)
            text = _frame_text(frame)
            if text is not None:
                texts.append(text)
            frame = frame.f_back
        number = self._by_text.get(tuple(texts))
        if number is None:
            number = next(self._numbers)
            self._texts[number] = texts or UNKNOWN  # before another thread can meet the number
            number = self._by_text.setdefault(tuple(texts), number)
        self._by_frames[key] = number
        return number


def _frame_text(frame: FrameType) -> str | None:
    code = frame.f_code
    if code.co_filename.startswith(OWN):
        return None
    source = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip()
    if not source:
        return None
    return frame_text(code.co_filename, frame.f_lineno, code.co_name, source)
