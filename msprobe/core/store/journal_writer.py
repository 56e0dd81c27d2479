"""Writes a journal: its index, the buffered bytes, and the file.

An interrupt (Ctrl-C) may happen between any two instructions of the training's thread, and must not lose anything.
Bytes leave the buffer after they are in the file; the size of the file is the end of an interrupted write. An index
that may hold half a line is rebuilt from the file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msprobe.core.store.atomic import open_private
from msprobe.core.store.journal import JournalIndex, encode, publish, scan


class JournalWriter:
    """Appends lines to a journal. One thread adds at a time, and one flushes: not necessarily the same."""

    def __init__(self) -> None:
        self.index = JournalIndex()
        self.doubtful = False
        self._buffer: list[bytes] = []
        self._file = -1
        self._written = 0
        self._published = -1

    def open(self, path: Path) -> None:
        """Create an empty journal at ``path``. Raises OSError."""
        self._file = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def add(self, line: dict[str, Any]) -> None:
        """Serialize one line and buffer it for the next flush."""
        indexed, text = encode(line)
        length = text.index(b"\n") + 1
        try:
            self._buffer.append(text)
            self.index.note(indexed, length)
        except BaseException:
            self.doubtful = True
            raise

    def flush(self) -> None:
        """Write the buffered lines to the file. Raises OSError."""
        pending = self._buffer[:]
        if not pending:
            return
        data = b"".join(pending)
        count, end = len(pending), self._written + len(data)
        rest = memoryview(data)[max(os.fstat(self._file).st_size - self._written, 0) :]
        while rest:
            rest = rest[os.write(self._file, rest) :]
        del self._buffer[:count]
        self._written = end

    def repair(self, path: Path) -> None:
        """Rebuild the index from the file at ``path``, after an interrupt, while nothing is added. Raises OSError."""
        self.flush()
        with open(path, "rb") as file:
            self.index = scan(file)
        self.doubtful = False

    def announce(self, path: Path) -> None:
        """Write a document without entries beside the journal at ``path``, so that readers find a dump from now on.

        The other documents follow with the first content, because creating a file is slow. Raises OSError.
        """
        publish(path, self.index, extra_info=False)

    def publish(self, path: Path, extra_info: bool) -> None:
        """Write the documents beside the journal at ``path``, unless nothing is new. Raises OSError."""
        if self.index.size != self._published:
            publish(path, self.index, extra_info)
            self._published = self.index.size

    def close(self) -> None:
        """Let go of the file without writing."""
        if self._file >= 0:
            file, self._file = self._file, -1
            os.close(file)
