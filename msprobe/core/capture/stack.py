"""Call stacks, interned: the same stack costs one walk over code objects; its text is made once.

A frame reads ``File PATH, line N, in FUNC, \\n SOURCE``, innermost first. Frames of this tool and frames without source
(``<string>``, the interpreter's own) are left out.
"""

from __future__ import annotations

import linecache
import os
import sys
from types import CodeType, FrameType

_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
UNKNOWN = ["The call stack is not available."]


class StackTable:
    """Numbers for call stacks. Two stacks with the same text share a number, so calls on one line group together."""

    def __init__(self) -> None:
        self._by_frames: dict[tuple[int, ...], int] = {}
        self._by_text: dict[tuple[str, ...], int] = {}
        self._texts: list[list[str]] = []
        self._alive: list[CodeType] = []  # a code object in a key must not be freed: its id would be used again

    def capture(self, passed: int = 0) -> int:
        """The number of the stack of the caller, without its ``passed`` innermost frames.

        The interpreter makes an object of each frame that is looked at, and frames of the tool are not shown.
        """
        frame: FrameType | None = sys._getframe(1 + passed)
        start = frame
        key: list[int] = []
        while frame is not None:
            key.append(id(frame.f_code))
            key.append(frame.f_lasti)
            frame = frame.f_back
        number = self._by_frames.get(tuple(key))
        return self._intern(tuple(key), start) if number is None else number

    def text(self, number: int) -> list[str]:
        return self._texts[number]

    def _intern(self, key: tuple[int, ...], frame: FrameType | None) -> int:
        texts: list[str] = []
        while frame is not None:
            self._alive.append(frame.f_code)
            text = _frame_text(frame)
            if text is not None:
                texts.append(text)
            frame = frame.f_back
        number = self._by_text.setdefault(tuple(texts), len(self._texts))
        if number == len(self._texts):
            self._texts.append(texts or UNKNOWN)
        self._by_frames[key] = number
        return number


def _frame_text(frame: FrameType) -> str | None:
    code = frame.f_code
    if code.co_filename.startswith(_OWN):
        return None
    source = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip()
    if not source:
        return None
    return f"File {code.co_filename}, line {frame.f_lineno}, in {code.co_name}, \n {source}"
