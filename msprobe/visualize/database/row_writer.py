"""Writes rows into a database from a second thread, many in one statement.

SQLite needs no interpreter while it stores rows, so the next rows are made meanwhile.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from queue import Queue
from typing import Any

_PARAMETERS = 8_000  # SQLite takes 32 766, but a third slower: that many do not stay in the cache of the processor
_WAITING = 4
Row = Sequence[Any]


class RowWriter:
    """Writes tables row by row, in the order of the calls.

    The connection must allow other threads, and nobody else may use it until ``finish``.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._queue: Queue[tuple[str, str, list[Row]] | None] = Queue(_WAITING)
        self._error: sqlite3.Error | None = None
        self._statements: dict[str, str] = {}
        self._thread = threading.Thread(target=self._work, name="msprobe-rows", daemon=True)
        self._thread.start()

    def insert(self, table: str, columns: int, rows: Iterable[Row]) -> None:
        """Write rows of ``columns`` columns in the background.

        Raises:
            sqlite3.Error: earlier rows could not be written.
        """
        placeholders, size = f"({','.join('?' * columns)})", _PARAMETERS // columns
        rest = iter(rows)
        while batch := list(islice(rest, size)):
            if self._error is not None:
                raise self._error
            self._queue.put((table, placeholders, batch))

    def run(self, script: str) -> None:
        """Run statements in the background after the rows so far; the transaction of these rows ends with them."""
        self._queue.put((script, "", []))

    def finish(self) -> None:
        """Wait until everything is written, and end the thread.

        Raises:
            sqlite3.Error: something could not be written.
        """
        self.close()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread, also after an error."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (part := self._queue.get()) is not None:
            if self._error is None:
                try:
                    self._write(*part)
                except sqlite3.Error as error:
                    self._error = error

    def _write(self, table: str, placeholders: str, rows: list[Row]) -> None:
        if not rows:
            self._connection.executescript(table)
            return
        if len(rows) < _PARAMETERS // len(rows[0]):
            self._connection.executemany(f"INSERT INTO {table} VALUES {placeholders}", rows)
            return
        statement = self._statements.get(table)
        if statement is None:
            statement = self._statements[table] = f"INSERT INTO {table} VALUES {','.join([placeholders] * len(rows))}"
        self._connection.execute(statement, list(chain.from_iterable(rows)))
