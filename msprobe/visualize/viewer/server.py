"""A small local server for the viewer: the front end as files, the databases as JSON, for reading only.

Requests under another host name than the server's own are refused: a web page from elsewhere must not read a dump
through the browser of the user. A connection that says nothing for ``IDLE_SECONDS`` is closed, and of more than
``MOST_CONNECTIONS`` at a time the later ones are refused.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from msprobe.core.errors import MsprobeException, ReadError, error_text
from msprobe.core.log import logger
from msprobe.visualize.viewer.offline_page import asset, served_page
from msprobe.visualize.viewer.queries import LARGEST_INTEGER, GraphDatabase, encode, shortened

LOCAL_HOST = "127.0.0.1"
_LOCAL_NAMES = {LOCAL_HOST, "localhost", "::1"}
_ALL_ADDRESSES = {"", "0.0.0.0", "::"}
_CACHED_ANSWERS = 8
IDLE_SECONDS = 60.0
MOST_CONNECTIONS = 64
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_ANSWER_LOCK = threading.Lock()
_TYPES = {"js": "text/javascript", "mjs": "text/javascript", "css": "text/css", "html": "text/html"}

Query = Mapping[str, Any]


class ViewServer(ThreadingHTTPServer):
    """Serves ``paths`` until ``shutdown``. Port 0 takes any free port; ``address`` says which.

    Args:
        idle_seconds: how long a connection may say nothing.
        most_connections: how many connections there may be at a time.
    """

    daemon_threads = True

    def __init__(
        self,
        paths: list[Path],
        host: str = LOCAL_HOST,
        port: int = 0,
        *,
        idle_seconds: float = IDLE_SECONDS,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        self.databases = [GraphDatabase(path) for path in paths]
        self.names = None if host in _ALL_ADDRESSES else _LOCAL_NAMES | {host}
        self.idle_seconds = idle_seconds
        self._free = threading.BoundedSemaphore(most_connections)
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own, or refuse it where there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        with contextlib.suppress(OSError):
            request.setblocking(False)
            request.send(_BUSY)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the requests of a connection until it ends."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log the end of a connection that broke; nothing is printed on the terminal of the user."""
        logger.debug("view: a connection broke", exc_info=True)

    def prepare(self) -> None:
        """Make the answer that the browser asks for first, before the browser asks."""
        first = self.databases[0].overview()
        divergences = first["meta"].get("first_divergence")
        divergence = divergences[0] if isinstance(divergences, list) and divergences else None
        place = {"db": 0, "step": first["steps"][0], "rank": first["ranks"][0]}
        if isinstance(divergence, dict):
            place |= {key: divergence[key] for key in ("step", "rank") if type(divergence.get(key)) is int}
        _graph(self.databases, place)

    @property
    def address(self) -> str:
        """Return the address to open in a browser on this machine."""
        host, port = self.server_address[:2]
        name = LOCAL_HOST if host in _ALL_ADDRESSES else str(host)
        return f"http://{name}:{port}/"


class _Handler(BaseHTTPRequestHandler):
    server: ViewServer
    protocol_version = "HTTP/1.1"
    server_version = "msprobe"
    sys_version = ""

    def setup(self) -> None:
        """Prepare the connection."""
        super().setup()
        self.connection.settimeout(self.server.idle_seconds)

    def do_GET(self) -> None:
        """Answer one request."""
        if not self._has_own_host_name():
            self._send(HTTPStatus.FORBIDDEN, _error("this server answers by its own name only"), "application/json")
            return
        try:
            address = urlsplit(self.path)
        except ValueError:
            self._send(HTTPStatus.BAD_REQUEST, _cannot_answer(self.path), "application/json")
            return
        if address.path.startswith("/api/"):
            self._answer(address.path.removeprefix("/api/"), address.query)
        elif address.path in ("/", "/index.html"):
            page, policy = served_page()
            self._send(HTTPStatus.OK, page.encode(), "text/html", policy)
        else:
            self._file(address.path.lstrip("/"))

    def log_message(self, format: str, *args: Any) -> None:
        """Log a request for debugging only."""
        logger.debug("view: " + format, *args)

    def _has_own_host_name(self) -> bool:
        if self.server.names is None:
            return True
        try:
            name = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        except ValueError:
            return False
        return name in self.server.names

    def _answer(self, question: str, query: str) -> None:
        try:
            values = {key: texts[0] for key, texts in parse_qs(query, errors="surrogateescape").items()}
            status, content = HTTPStatus.OK, _QUESTIONS[question](self.server.databases, values)
        except (KeyError, ValueError, IndexError):
            status, content = HTTPStatus.BAD_REQUEST, _cannot_answer(self.path)
        except ReadError as error:
            status, content = HTTPStatus.NOT_FOUND, _error(str(error))
        except (MsprobeException, sqlite3.Error, OSError) as error:
            status, content = HTTPStatus.INTERNAL_SERVER_ERROR, _error(error_text(error))
        self._send(status, content, "application/json")

    def _file(self, name: str) -> None:
        try:
            content = asset(name)
        except KeyError:
            self._send(HTTPStatus.NOT_FOUND, b"not found", "text/plain")
            return
        self._send(HTTPStatus.OK, content, _TYPES[name.rpartition(".")[2]])

    def _send(self, status: HTTPStatus, content: bytes, kind: str, policy: str = "default-src 'none'") -> None:
        with contextlib.suppress(OSError):  # the browser went on to something else
            self._send_whole(status, content, kind, policy)
            return
        self.close_connection = True

    def _send_whole(self, status: HTTPStatus, content: bytes, kind: str, policy: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)


def _error(text: str) -> bytes:
    return encode({"error": text})


def _cannot_answer(path: str) -> bytes:
    return _error(f"cannot answer {shortened(path)}")


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
