"""A small local server of a page: its front end as files, its data as answers to questions, for reading only.

Requests under another host name than the server's own are refused: a web page from elsewhere must not read a dump
through the browser of the user. A connection that says nothing for ``IDLE_SECONDS`` is closed, and of more than
``MOST_CONNECTIONS`` at a time the later ones are refused.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from abc import abstractmethod
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from msprobe.core.errors import MsprobeException, ReadError, error_text
from msprobe.core.log import logger
from msprobe.visualize.viewer.offline_page import asset
from msprobe.visualize.viewer.queries import encode, shortened

LOCAL_HOST = "127.0.0.1"
_LOCAL_NAMES = {LOCAL_HOST, "localhost", "::1"}
_ALL_ADDRESSES = {"", "0.0.0.0", "::"}
IDLE_SECONDS = 60.0
MOST_CONNECTIONS = 64
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_TYPES = {"js": "text/javascript", "mjs": "text/javascript", "css": "text/css", "html": "text/html"}

Query = Mapping[str, Any]


class LocalServer(ThreadingHTTPServer):
    """Serves until ``shutdown``. Port 0 takes any free port; ``address`` says which.

    Args:
        host, port: where.
        idle_seconds: how long a connection may say nothing.
        most_connections: how many connections there may be at a time.
    """

    answer_type = "application/json"
    daemon_threads = True

    def __init__(
        self,
        host: str = LOCAL_HOST,
        port: int = 0,
        *,
        idle_seconds: float = IDLE_SECONDS,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
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

    @abstractmethod
    def page(self) -> tuple[str, str]:
        """Return the document of the front end and its content policy."""

    @abstractmethod
    def answer(self, question: str, values: Query) -> bytes:
        """Return the answer to a question of the page.

        Raises:
            KeyError, ValueError, IndexError: there is no such question or place.
            ReadError: what is asked for does not exist, or cannot be read.
        """

    @property
    def address(self) -> str:
        """Return the address to open in a browser on this machine."""
        host, port = self.server_address[:2]
        name = LOCAL_HOST if host in _ALL_ADDRESSES else str(host)
        return f"http://{name}:{port}/"


class _Handler(BaseHTTPRequestHandler):
    server: LocalServer
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
            page, policy = self.server.page()
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
            status, content = HTTPStatus.OK, self.server.answer(question, values)
        except (KeyError, ValueError, IndexError):
            status, content = HTTPStatus.BAD_REQUEST, _cannot_answer(self.path)
        except ReadError as error:
            status, content = HTTPStatus.NOT_FOUND, _error(str(error))
        except (MsprobeException, sqlite3.Error, OSError) as error:
            status, content = HTTPStatus.INTERNAL_SERVER_ERROR, _error(error_text(error))
        self._send(status, content, self.server.answer_type if status is HTTPStatus.OK else "application/json")

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
