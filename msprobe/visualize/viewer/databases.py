"""Finds the graph databases at a path, opens them for reading only without leaving a file beside them, and reads rows.

A database comes from anywhere and may be damaged, so ``rows_of`` checks the type of every cell. What it returns can be
used as the query says:

    t  text or null        T  text        a  text, number or null
    n  number or null      i  whole number
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import NoneType
from typing import Any
from urllib.parse import quote

from msprobe.core.errors import ReadError
from msprobe.core.store.sqlite_file import refuse_code

_PATTERN = "*.vis.db"
_DEPTH = 2
_NEEDED = {"tb_nodes", "tb_config", "tb_stack"}
_KINDS: dict[str, frozenset[type]] = {
    "t": frozenset({str, NoneType}),
    "T": frozenset({str}),
    "a": frozenset({str, int, float, NoneType}),
    "n": frozenset({int, float, NoneType}),
    "i": frozenset({int}),
}
_WORDS = {"t": "text", "T": "text", "a": "text", "n": "a number", "i": "a whole number"}
_TABLE = "a table, which opens in a spreadsheet"
_OTHER_FILES: dict[str, str] = {
    ".csv": _TABLE,
    ".xlsx": _TABLE,
    ".html": "a page, which opens in a browser as it is",
    ".json": "a document and no graph; of a dump msprobe graph_visualize DUMP -o FOLDER makes one",
}
"""By ending, what other results of this tool are, and how they are looked at."""
_VIEWED = "msprobe view shows a .vis.db of msprobe graph_visualize, and a .trend.db of msprobe data2db or a monitor"
REMEDY = "make it again with msprobe graph_visualize"


def find_databases(path: Path) -> list[Path]:
    """Return the databases at ``path``: itself, or those in the folder and two levels below it, newest first.

    Raises:
        ReadError: there is nothing at ``path``, or nothing in the folder, or a file is no graph database.
    """
    if path.is_file():
        databases = [path]
    elif path.is_dir():
        databases = list(_files(path, _PATTERN))
        databases.sort(key=lambda file: (-file.stat().st_mtime_ns, str(file)))
    else:
        raise ReadError(f"{path} does not exist; {_VIEWED}")
    if not databases:
        raise ReadError(_without_databases(path))
    for file in databases:
        _check(file)
    return databases


@contextmanager
def open_read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection that cannot write.

    A file without a write-ahead log is opened as immutable, so that SQLite makes no log beside it.
    """
    log = path.with_name(path.name + "-wal")
    unchanging = not log.exists() or log.stat().st_size == 0
    address = f"file:{quote(str(path.absolute()))}?mode=ro{'&immutable=1' if unchanging else ''}"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        connection.text_factory = _text
        refuse_code(connection)
        yield connection


def _text(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace")


def rows_of(connection: sqlite3.Connection, query: str, kinds: str, values: Sequence[object] = ()) -> Iterator[Any]:
    """Yield the rows of a query as tuples; ``kinds`` has a letter per column.

    Raises:
        ReadError: a cell has another type, or is infinite.
        sqlite3.Error: the file is damaged, or has no such column.
    """
    allowed = tuple(_KINDS[kind] for kind in kinds)
    numbers = tuple(index for index, kind in enumerate(kinds) if kind in "an")
    cursor = connection.execute(query, values)
    for row in cursor:
        for index, cell in enumerate(row):
            if type(cell) not in allowed[index]:
                raise _wrong_cell(cursor, kinds, index, cell)
        for index in numbers:
            if type(row[index]) is float and not math.isfinite(row[index]):
                raise _wrong_cell(cursor, kinds, index, row[index])
        yield row


def _wrong_cell(cursor: sqlite3.Cursor, kinds: str, index: int, cell: object) -> ReadError:
    (_, _, file), *_ = cursor.connection.execute("PRAGMA database_list")
    column = cursor.description[index][0]
    what = {bytes: "a blob", NoneType: "null", str: "a text", int: "a number"}.get(type(cell), "another number")
    name = Path(file).name if file else "the database"
    return ReadError(f"{name}: its column {column} holds {what} in the place of {_WORDS[kinds[index]]}; {REMEDY}")


def _kind(path: Path) -> str:
    """Return what another result of this tool is, by its ending; "" for other files."""
    return _OTHER_FILES.get(path.suffix.lower(), "")


def _files(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the files of a name in a folder and two levels below it."""
    for depth in range(_DEPTH + 1):
        yield from (file for file in folder.glob("/".join(["*"] * depth + [pattern])) if file.is_file())


def _without_databases(folder: Path) -> str:
    """Return what to do with a folder without graphs: draw its dump, or open the tables and pages that it has."""
    if any(_files(folder, "dump.json")):
        return f"{folder} is a dump and no graph; msprobe graph_visualize {folder} -o FOLDER draws it for msprobe view"
    others = sorted(filter(_kind, folder.glob("*")))
    found = f" ({others[0].name} in it is {_kind(others[0])})" if others else ""
    return f"no .vis.db in {folder} or two levels below{found}; msprobe graph_visualize DUMP -o {folder} makes one"


def _check(path: Path) -> None:
    try:
        with open_read_only(path) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            missing = sorted(_NEEDED - tables)
            configured = not missing and connection.execute("SELECT count(*) FROM tb_config").fetchone()[0]
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the text of an error may hold bytes of a damaged schema
        raise ReadError(f"{path} is {_kind(path) or f'no SQLite database ({error})'}; {_VIEWED}") from error
    if missing and (kind := _kind(path)):
        raise ReadError(f"{path} is {kind}; {_VIEWED}")
    if missing or not configured:
        lack = f"it has no table {', '.join(missing)}" if missing else "its table tb_config is empty"
        raise ReadError(f"{path} is no graph database: {lack}; make it again with msprobe graph_visualize")
