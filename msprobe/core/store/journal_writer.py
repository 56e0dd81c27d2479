"""A journal while it is written: its index, the bytes on their way to the file, and the file.

An interrupt (Ctrl-C) may fall between any two steps of the training's thread, and nothing may be lost by it: bytes
leave the buffer after they are in the file, whose size tells how far an interrupted write came, and an index that may
have taken in half a line is made anew from the file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msprobe.core.store import journal
from msprobe.core.store.atomic import open_private


class JournalWriter:
    """Appends lines to a journal. One thread adds at a time, and one flushes: not necessarily the same."""

    def __init__(self) -> None:
        self.index = journal.Index()
        self.doubtful = False
        self._buffer: list[bytes] = []
        self._file = -1
        self._written = 0
        self._published = -1

    def open(self, path: Path) -> None:
        """Begin an empty journal at ``path``. Raises OSError."""
        self._file = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def add(self, line: dict[str, Any]) -> None:
        """Lay out one line, for the next flush."""
        noted, text = journal.encode(line)
        length = text.index(b"\n") + 1
        try:
            self._buffer.append(text)
            self.index.note(noted, length)
        except BaseException:
            self.doubtful = True
            raise

    def flush(self) -> None:
        """Bring what was added into the file. Raises OSError."""
        taken = self._buffer[:]
        if not taken:
            return
        data = b"".join(taken)
        count, end = len(taken), self._written + len(data)
        rest = memoryview(data)[max(os.fstat(self._file).st_size - self._written, 0) :]
        while rest:
            rest = rest[os.write(self._file, rest) :]
        del self._buffer[:count]
        self._written = end

    def repair(self, path: Path) -> None:
        """After an interrupt, while nothing is added: take the index from the file, which lies at ``path`` now.

        Raises OSError.
        """
        self.flush()
        with open(path, "rb") as file:
            self.index = journal.scan(file)
        self.doubtful = False

    def announce(self, path: Path) -> None:
        """Write the document of no entries beside the journal at ``path``: there is something to read from now on.

        The others follow with the first content; a new file is what costs here. Raises OSError.
        """
        journal.publish(path, self.index, extra_info=False)

    def publish(self, path: Path, extra_info: bool) -> None:
        """Write the documents beside the journal, which lies at ``path`` now, unless nothing is new. Raises OSError."""
        if self.index.size != self._published:
            journal.publish(path, self.index, extra_info)
            self._published = self.index.size

    def close(self) -> None:
        """Let go of the file without writing."""
        if self._file >= 0:
            file, self._file = self._file, -1
            os.close(file)
