"""A SQLite database that is written into a hidden file and gets its name when it is complete, and one that is read.

An error, an interrupt or a full disk leaves no part of a database behind.
"""

from __future__ import annotations

import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from msprobe.core.errors import MsprobeException
from msprobe.core.interruption import ignored
from msprobe.core.store.safe_files import create_new, make_folder

# Nothing can be lost: the file has no name yet.
PRAGMAS = "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;"
DAMAGED = (sqlite3.Error, TypeError, ValueError, OverflowError)
"""What is raised while a database is read whose cells may hold anything."""
D = TypeVar("D", bound="AtomicSqliteFile")
Unwritable = Callable[[str | None], MsprobeException]
"""Returns the error for a reason why the database cannot be written, with what to do."""


def refuse_code(connection: sqlite3.Connection) -> None:
    """Refuse a database with views or triggers: none of ours has them, and a view may be without an end.

    Raises:
        DatabaseError: it has one, or is no database.
    """
    query = "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger')"
    if found := connection.execute(query).fetchone():
        raise sqlite3.DatabaseError(f"it has the {found[0]} {found[1]!r:.80}, and no {found[0]} is part of such a file")


class AtomicSqliteFile(ABC):
    """Base class of databases: a subclass creates its tables in ``_begin`` and renames the file in ``_finish``."""

    _connection: sqlite3.Connection

    def __init__(self, temporary: Path, unwritable: Unwritable) -> None:
        """Create the file ``temporary``, and its folder.

        Raises:
            MsprobeException: the error that ``unwritable`` returns for the reason.
        """
        self._temporary = temporary
        self._unwritable = unwritable
        try:  # before there is a file: an interrupt may come at any moment
            make_folder(temporary.parent)
            os.close(create_new(temporary))
            self._connection = sqlite3.connect(temporary, isolation_level=None, check_same_thread=False)
            self._begin()
        except BaseException as error:
            self._remove()
            if hasattr(self, "_connection"):
                self._connection.close()
            if isinstance(error, (OSError, sqlite3.Error)):
                raise unwritable(_reason(error)) from error
            raise

    @abstractmethod
    def _begin(self) -> None:
        """Create the tables."""

    @abstractmethod
    def _finish(self) -> None:
        """Rename the temporary file to its final name."""

    def _close(self) -> None:
        self._connection.close()

    def _remove(self) -> None:
        with ignored(OSError):
            self._temporary.unlink()

    def __enter__(self: D) -> D:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
        except (OSError, sqlite3.Error) as problem:
            raise self._unwritable(_reason(problem)) from problem
        finally:
            self._remove()  # first: another interrupt may end the waiting below
            self._close()
        if isinstance(error, sqlite3.Error):
            raise self._unwritable(str(error)) from error


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
