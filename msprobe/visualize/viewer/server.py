"""The local server of the viewer of graphs: the databases as JSON."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from msprobe.visualize.viewer.local_server import LOCAL_HOST, LocalServer, Query
from msprobe.visualize.viewer.offline_page import served_page
from msprobe.visualize.viewer.queries import LARGEST_INTEGER, GraphDatabase, encode

_CACHED_ANSWERS = 8
_ANSWER_LOCK = threading.Lock()


class ViewServer(LocalServer):
    """Serves the graph databases ``paths``; the other arguments are those of ``LocalServer``."""

    def __init__(self, paths: list[Path], host: str = LOCAL_HOST, port: int = 0, **settings: Any) -> None:
        self.databases = [GraphDatabase(path) for path in paths]
        super().__init__(host, port, **settings)

    def page(self) -> tuple[str, str]:
        """Return the document of the front end and its content policy."""
        return served_page()

    def answer(self, question: str, values: Query) -> bytes:
        """Return the answer to a question of the page as JSON."""
        return _QUESTIONS[question](self.databases, values)

    def prepare(self) -> None:
        """Make the answer that the browser asks for first, before the browser asks."""
        first = self.databases[0].overview()
        divergences = first["meta"].get("first_divergence")
        divergence = divergences[0] if isinstance(divergences, list) and divergences else None
        place = {"db": 0, "step": first["steps"][0], "rank": first["ranks"][0]}
        if isinstance(divergence, dict):
            place |= {key: divergence[key] for key in ("step", "rank") if type(divergence.get(key)) is int}
        _graph(self.databases, place)


def _selection(databases: list[GraphDatabase], query: Query) -> tuple[GraphDatabase, int, int]:
    return _database(databases, query), _number(query["step"]), _number(query["rank"])


def _database(databases: list[GraphDatabase], query: Query) -> GraphDatabase:
    number = _number(query["db"])
    if number < 0:
        raise IndexError(number)
    return databases[number]


def _number(text: str | int) -> int:
    """Return a number of a request.

    Raises:
        ValueError: it is no number, or one that SQLite cannot compare with.
    """
    number = int(text)
    if abs(number) > LARGEST_INTEGER:
        raise ValueError(f"{number} is too large")
    return number


def _index(databases: list[GraphDatabase], query: Query) -> bytes:
    return encode([database.overview() for database in databases])


def _graph(databases: list[GraphDatabase], query: Query) -> bytes:
    database, step, rank = _selection(databases, query)
    return _answer_once(database, "graph", step, rank)


def _facts(databases: list[GraphDatabase], query: Query) -> bytes:
    database, step, rank = _selection(databases, query)
    return _answer_once(database, "facts", step, rank)


def _stacks(databases: list[GraphDatabase], query: Query) -> bytes:
    database, step, rank = _selection(databases, query)
    return _answer_once(database, "stacks", step, rank)


def _grid(databases: list[GraphDatabase], query: Query) -> bytes:
    return encode(_database(databases, query).grid())


def _node(databases: list[GraphDatabase], query: Query) -> bytes:
    database, step, rank = _selection(databases, query)
    return encode(database.node(step, rank, query["side"], query["name"]))


def _children(databases: list[GraphDatabase], query: Query) -> bytes:
    database, step, rank = _selection(databases, query)
    return encode(database.children(step, rank, query["side"], query["name"]))


@lru_cache(maxsize=_CACHED_ANSWERS)
def _whole_graph_answer(database: GraphDatabase, question: str, step: int, rank: int, written: int) -> bytes:
    """Return an answer about a whole graph, from the cache where a reload or a return to a rank asks again.

    ``written`` is the time of the last change of the database.
    """
    return encode(getattr(database, question)(step, rank))


def _answer_once(database: GraphDatabase, question: str, step: int, rank: int) -> bytes:
    """Return an answer about a whole graph; a second request for the same waits for the answer of the first."""
    with _ANSWER_LOCK:
        return _whole_graph_answer(database, question, step, rank, database.path.stat().st_mtime_ns)


_QUESTIONS: dict[str, Callable[[list[GraphDatabase], Query], bytes]] = {
    "index": _index,
    "grid": _grid,
    "graph": _graph,
    "facts": _facts,
    "stacks": _stacks,
    "node": _node,
    "children": _children,
}
