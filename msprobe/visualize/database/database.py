"""Writes a graph database: graphs one after the other into a hidden file, which gets its name when it is complete."""

from __future__ import annotations

import functools
import json
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msprobe.core.errors import MsprobeException
from msprobe.core.naming.names import COMMUNICATION
from msprobe.core.store.sqlite_file import PRAGMAS, AtomicSqliteFile
from msprobe.visualize.database.row_writer import RowWriter
from msprobe.visualize.database.schema import (
    COLUMNS_OF_CONFIG,
    COLUMNS_OF_STACK,
    COLUMNS_OF_VALUES,
    COLUMNS_OF_VERDICTS,
    INDEXES,
    NODE_COLUMNS,
    TABLES,
)
from msprobe.visualize.graph.build import node_values
from msprobe.visualize.graph.node import Graph, Node
from msprobe.visualize.values.value_json import quoted

TextsOf = Callable[[Node], tuple[str, str]]
"""Inputs and outputs of a node, as JSON."""
TARGET, GOLDEN = "NPU", "Bench"
_INSERT_CONFIG = f"INSERT INTO tb_config VALUES ({','.join('?' * COLUMNS_OF_CONFIG)})"
_COUNTS = '{"pass":%d,"warning":%d,"error":%d,"unmatched":%d}'
_ATTEMPTS = 1000
_UNFINISHED = ".vis.db.tmp"
_LARGE = 4_000_000
_MAPPED = 1 << 31  # bytes; each index reads all rows again, which costs half in place
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Database(AtomicSqliteFile):
    """One database being written. Leaving the ``with`` block by an exception leaves no file behind."""

    def __init__(self, folder: Path, stem: str, size: int = 0) -> None:
        """Create the hidden file.

        Args:
            folder: where the database will lie.
            stem: the file name without ``.vis.db``; a number is added when that file exists.
            size: how many bytes of records will be written: rows of 2 kB waste less of large pages, empty tables less
                of small ones.

        Raises:
            MsprobeException: the folder cannot be made or written.
        """
        self._folder, self._stem, self._size = folder, stem, size
        self.path = folder / f"{stem}.vis.db"
        name = f".{stem}.{secrets.token_hex(8)}.{os.getpid()}{_UNFINISHED}"
        super().__init__(folder / name, functools.partial(_write_error, folder))

    def _begin(self) -> None:
        _remove_abandoned(self._folder)
        page = 32768 if self._size > _LARGE else 4096
        self._connection.executescript(f"PRAGMA page_size={page}; {PRAGMAS} PRAGMA cache_size=-65536; {TABLES}")
        self._connection.execute("BEGIN")
        self._writer = RowWriter(self._connection)

    def _close(self) -> None:
        self._writer.close()
        super()._close()

    def _finish(self) -> None:
        self._writer.finish()
        self._connection.execute("PRAGMA journal_mode=DELETE")
        self._connection.close()
        self.path = _claim(self._temporary, self._folder, self._stem)

    def write_graph(self, graph: Graph, source: str, data_dir: str | None, texts: TextsOf) -> None:
        """Write all nodes and stacks of a graph; ``source`` is ``TARGET`` or ``GOLDEN``, ``texts`` makes the values."""
        rows = _Rows(graph, source, data_dir, texts)
        self._writer.insert("tb_nodes", len(NODE_COLUMNS), rows.nodes())
        self._writer.insert("tb_stack", COLUMNS_OF_STACK, rows.stacks())
        self._writer.insert("tb_msprobe_nodes", COLUMNS_OF_VERDICTS, rows.verdicts())
        self._writer.insert("tb_msprobe_values", COLUMNS_OF_VALUES, rows.values())

    def end_graphs(self) -> None:
        """Make the indexes, in the background, after all graphs were written."""
        self._writer.run(f"PRAGMA mmap_size={_MAPPED}; {INDEXES}")

    def write_links(self, links: Iterator[tuple[str, str]]) -> None:
        """Set the communication link of nodes: (id, JSON text) each, after ``end_graphs``."""
        self._writer.finish()
        self._connection.execute("BEGIN")
        rows = ((text, key) for key, text in links)
        self._connection.executemany("UPDATE tb_nodes SET matched_distributed = ? WHERE id = ?", rows)
        self._connection.execute("COMMIT")

    def write_config(self, values: tuple[Any, ...]) -> None:
        """Write the one row of tb_config."""
        self._writer.finish()
        self._connection.execute(_INSERT_CONFIG, values)

    def write_meta(self, values: dict[str, Any]) -> None:
        """Write facts about the whole database, each as JSON."""
        rows = [(key, json.dumps(value, ensure_ascii=False)) for key, value in values.items()]
        self._writer.finish()
        self._connection.executemany("INSERT INTO tb_msprobe_meta VALUES (?,?)", rows)


def _remove_abandoned(folder: Path) -> None:
    """Delete the unfinished files of processes that were killed."""
    for path in folder.glob(f".*{_UNFINISHED}"):
        process = path.name.removesuffix(_UNFINISHED).rpartition(".")[2]
        if process.isdigit() and not Path(f"/proc/{process}").exists() and Path("/proc/self").exists():
            path.unlink(missing_ok=True)


def _claim(temporary: Path, folder: Path, stem: str) -> Path:
    """Give the complete file its final name, without ever replacing another file."""
    for number in range(_ATTEMPTS):
        path = folder / (f"{stem}.vis.db" if not number else f"{stem}_{number}.vis.db")
        try:
            os.link(temporary, path)
        except FileExistsError:
            continue
        except OSError:  # a file system without hard links
            if path.exists():
                continue
            os.replace(temporary, path)
        return path
    raise _write_error(folder, f"{_ATTEMPTS} files are named {stem} already")


def _write_error(folder: Path, reason: str | None) -> MsprobeException:
    text = f"the database cannot be written to {folder} ({reason}); choose another folder with -o"
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text)


class _Rows:
    """Makes the rows of one graph."""

    def __init__(self, graph: Graph, source: str, data_dir: str | None, texts: TextsOf) -> None:
        self._graph, self._source, self._data_dir, self._texts = graph, source, data_dir, texts
        self._id = f"{source}_{graph.step}_{graph.rank}"
        self._stacks: dict[str, str] = {}
        self._by_object: dict[int, str] = {}
        self._links: dict[Node, str] = {}
        self._order = list(graph.post_order())

    def nodes(self) -> Iterator[tuple[Any, ...]]:
        graph, head, source = self._graph, self._id, self._source
        on_target = source == TARGET
        for number, node in enumerate(self._order):
            children = node.children
            verdict = node.verdict
            yield (
                f"{head}_{node.name}",
                head,
                number,
                node.name,
                str(int(node.kind)),
                "" if node.parent is None else node.parent.name,
                f"[{','.join([quoted(child.name) for child in children])}]" if children else "",
                verdict.precision if verdict is not None and on_target else None,
                node.overflow,
                node.micro,
                "[]" if node.match is None else self._link(node.match),
                self._stack(node),
                _compact(node.merged) if node.merged else "",
                node.link,
                0,
                *self._texts(node),
                source,
                self._data_dir,
                graph.step,
                graph.rank,
                int(node.name.startswith(COMMUNICATION)),
            )

    def _link(self, match: Node) -> str:
        """Return the names from the root of the other side to the matched node, as a JSON list."""
        parent = match.parent
        if parent is None:
            return f"[{quoted(match.name)}]"
        above = self._links.get(parent)
        if above is None:
            above = self._links[parent] = ",".join(map(quoted, parent.path()))
        return f"[{above},{quoted(match.name)}]"

    def _stack(self, node: Node) -> str:
        stack_id = self._by_object.get(id(node.stack))
        if stack_id is None:
            text = _compact(list(node.stack))
            stack_id = self._stacks.setdefault(text, f"{self._id}_{len(self._stacks)}")
            self._by_object[id(node.stack)] = stack_id
        return stack_id

    def stacks(self) -> Iterator[tuple[str, str]]:
        """Yield the rows of the stacks; call it after ``nodes``, which numbers them."""
        return ((key, text) for text, key in self._stacks.items())

    def values(self) -> Iterator[tuple[str, str]]:
        """Yield what nodes get and give: ``gets`` maps values to whether their memory is recorded."""
        for name, values in node_values(self._graph).items():
            yield f"{self._id}_{name}", _compact(values._asdict())

    def verdicts(self) -> Iterator[tuple[Any, ...]]:
        head, on_golden = self._id, self._source == GOLDEN
        for node in self._order:
            verdict = node.verdict
            if verdict is None:
                yield f"{head}_{node.name}", None, None, None, None, node.order, None
                continue
            if on_golden and node.match is not None:  # its partner has the details
                yield f"{head}_{node.name}", verdict.own, verdict.rollup, None, verdict.error, node.order, None
                continue
            counts = _COUNTS % tuple(verdict.counts)
            row = (f"{head}_{node.name}", verdict.own, verdict.rollup, counts, verdict.error)
            yield *row, node.order, verdict.reason or None
