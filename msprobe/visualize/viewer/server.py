"""A small local server for the viewer: the front end as files, the databases as JSON, for reading only.

Requests under another host name than the server's own are refused: a web page from elsewhere must not read a dump
through the browser of the user.
"""

from __future__ import annotations

import json
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
from msprobe.visualize.viewer.queries import GraphDatabase

LOCAL_HOST = "127.0.0.1"
_LOCAL_NAMES = {LOCAL_HOST, "localhost", "::1"}
_ALL_ADDRESSES = {"", "0.0.0.0", "::"}
_CACHED_ANSWERS = 8
_ANSWER_LOCK = threading.Lock()
_TYPES = {"js": "text/javascript", "mjs": "text/javascript", "css": "text/css", "html": "text/html"}

Query = Mapping[str, Any]


class ViewServer(ThreadingHTTPServer):
    """Serves ``paths`` until ``shutdown``. Port 0 takes any free port; ``address`` says which."""

    daemon_threads = True

    def __init__(self, paths: list[Path], host: str = LOCAL_HOST, port: int = 0) -> None:
        self.databases = [GraphDatabase(path) for path in paths]
        self.names = None if host in _ALL_ADDRESSES else _LOCAL_NAMES | {host}
        super().__init__((host, port), _Handler)

    def prepare(self) -> None:
        """Make the answer that the browser asks for first, before the browser asks."""
        first = self.databases[0].overview()
        divergence: Query = next(iter(first["meta"].get("first_divergence") or ()), {})
        selected = {"step": divergence.get("step"), "rank": divergence.get("rank")}
        default = {"db": 0, "step": first["steps"][0], "rank": first["ranks"][0]}
        _graph(self.databases, default | {key: value for key, value in selected.items() if value is not None})

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

    def do_GET(self) -> None:
        """Answer one request."""
        if not self._has_own_host_name():
            self._send(HTTPStatus.FORBIDDEN, _error("this server answers by its own name only"), "application/json")
            return
        address = urlsplit(self.path)
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
        name = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        return name in self.server.names

    def _answer(self, question: str, query: str) -> None:
        values = {key: texts[0] for key, texts in parse_qs(query, errors="surrogateescape").items()}
        try:
            status, content = HTTPStatus.OK, _QUESTIONS[question](self.server.databases, values)
        except (KeyError, ValueError, IndexError):
            status, content = HTTPStatus.BAD_REQUEST, _error(f"cannot answer {self.path}")
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
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        try:
            self.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the browser went on to something else


def _json_answer(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _error(text: str) -> bytes:
    return _json_answer({"error": text})


def _selection(databases: list[GraphDatabase], query: Query) -> tuple[GraphDatabase, int, int]:
    return databases[int(query["db"])], int(query["step"]), int(query["rank"])


def _index(databases: list[GraphDatabase], query: Query) -> bytes:
    return _json_answer([database.overview() for database in databases])


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
    return _json_answer(databases[int(query["db"])].grid())


def _node(databases: list[GraphDatabase], query: Query) -> bytes:
    database, step, rank = _selection(databases, query)
    return _json_answer(database.node(step, rank, query["side"], query["name"]))


def _children(databases: list[GraphDatabase], query: Query) -> bytes:
    database, step, rank = _selection(databases, query)
    return _json_answer(database.children(step, rank, query["side"], query["name"]))


@lru_cache(maxsize=_CACHED_ANSWERS)
def _whole_graph_answer(database: GraphDatabase, question: str, step: int, rank: int, written: int) -> bytes:
    """Return an answer about a whole graph, from the cache where a reload or a return to a rank asks again.

    ``written`` is the time of the last change of the database.
    """
    return _json_answer(getattr(database, question)(step, rank))


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
