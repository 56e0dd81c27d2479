"""Finds the graph databases at a path, and opens them for reading only, without leaving a file beside them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from msprobe.core.errors import ReadError

_PATTERN = "*.vis.db"
_DEPTH = 2
_NEEDED = {"tb_nodes", "tb_config", "tb_stack"}


def find_databases(path: Path) -> list[Path]:
    """Return the databases at ``path``: itself, or those in the folder and two levels below it, newest first.

    Raises:
        ReadError: there is nothing at ``path``, or nothing in the folder, or a file is no graph database.
    """
    if path.is_file():
        databases = [path]
    elif path.is_dir():
        patterns = ["/".join(["*"] * depth + [_PATTERN]) for depth in range(_DEPTH + 1)]
        databases = [file for pattern in patterns for file in path.glob(pattern) if file.is_file()]
        databases.sort(key=lambda file: (-file.stat().st_mtime_ns, str(file)))
    else:
        raise ReadError(f"{path} does not exist; give a .vis.db or the output folder of msprobe graph_visualize")
    if not databases:
        raise ReadError(
            f"no .vis.db in {path} or two levels below; msprobe graph_visualize -tp DUMP -o {path} makes one"
        )
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
        yield connection


def _check(path: Path) -> None:
    try:
        with open_read_only(path) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            missing = sorted(_NEEDED - tables)
            configured = not missing and connection.execute("SELECT count(*) FROM tb_config").fetchone()[0]
    except sqlite3.Error as error:
        raise ReadError(f"{path} is no SQLite database ({error}); give a .vis.db of msprobe graph_visualize") from error
    if missing or not configured:
        lack = f"it has no table {', '.join(missing)}" if missing else "its table tb_config is empty"
        raise ReadError(f"{path} is no graph database: {lack}; make it again with msprobe graph_visualize")
