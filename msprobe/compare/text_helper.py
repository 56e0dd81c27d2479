"""A second process that turns statistics into text while this one measures and judges.

Writing the numbers is an eighth of the work on a large rank and needs nothing but the numbers. The helper starts when
the dumps begin to be read, so that its imports cost no time; it is a plain child on two pipes, without shared memory.
Where it cannot be had, or is lost, ``plain.statistics_cells`` does the same here.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.plain import row_texts

ROWS_AT_ONCE = 4096
_ROOT = Path(__file__).parents[2]
_SIZE = struct.Struct("<q")


class TextHelper:
    """``begin`` once, then ask for ``texts``; ``close`` at the end."""

    def __init__(self) -> None:
        import subprocess  # not free, and small comparisons need no helper

        places = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
        command = [sys.executable, "-m", "msprobe.compare.text_helper"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._parts: list[bytes] = []
        self._talk: threading.Thread | None = None
        self._last: tuple[int, list[str]] = (-1, [])

    def begin(self, values: NDArray[np.float64]) -> None:
        """Have the helper write these rows of eight statistics."""
        self._talk = threading.Thread(target=self._exchange, args=(np.ascontiguousarray(values),), daemon=True)
        self._talk.start()

    def texts(self, first: int, last: int) -> list[str] | None:
        """The texts of rows ``first`` to ``last``, "" for those that are no ordinary ones; None when the helper has
        not written them. Waits for it."""
        if self._talk is None:
            return None
        self._talk.join()
        found: list[str] = []
        for part in range(first // ROWS_AT_ONCE, -(-last // ROWS_AT_ONCE)):
            lines = self._lines(part)
            start = part * ROWS_AT_ONCE
            found += lines[max(first - start, 0) : last - start]
        return found if len(found) == last - first else None

    def close(self) -> None:
        """End the helper; what it wrote stays."""
        self._process.kill()
        if self._talk is not None:
            self._talk.join()
        with self._process:
            pass

    def _lines(self, part: int) -> list[str]:
        if part >= len(self._parts):
            return []
        if self._last[0] != part:
            self._last = part, self._parts[part].decode("ascii").split("\n")
        return self._last[1]

    def _exchange(self, values: NDArray[np.float64]) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(_SIZE.pack(len(values)))
            stdin.write(values.data)
            stdin.flush()
            for _ in range(-(-len(values) // ROWS_AT_ONCE)):
                (size,) = _SIZE.unpack(stdout.read(_SIZE.size))
                self._parts.append(stdout.read(size))
        except (OSError, ValueError, struct.error):
            return  # it is gone: texts says so


_current: ContextVar[TextHelper | None] = ContextVar("_current", default=None)


def current_helper() -> TextHelper | None:
    """The helper of the comparison that runs here."""
    return _current.get()


@contextmanager
def text_helper(*, wanted: bool) -> Iterator[None]:
    """A helper for the one comparison that is made inside, where it is wanted and a process can be started."""
    try:
        helper = TextHelper() if wanted else None
    except OSError:
        helper = None
    before = _current.set(helper)
    try:
        yield
    finally:
        _current.reset(before)
        if helper is not None:
            helper.close()


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """What the helper does: rows of eight float64 in, a text for every row out, in parts of ``ROWS_AT_ONCE``."""
    head = source.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return
    (rows,) = _SIZE.unpack(head)
    values = np.frombuffer(source.read(rows * 64), np.float64).reshape(rows, 8)
    for start in range(0, rows, ROWS_AT_ONCE):
        usable, texts = row_texts(values[start : start + ROWS_AT_ONCE])
        lines = "\n".join([text if good else "" for good, text in zip(usable, texts, strict=True)]).encode("ascii")
        sink.write(_SIZE.pack(len(lines)))
        sink.write(lines)
    sink.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
