"""A small local server of a page: its front end as files, its data as answers to questions, for reading only.

Every user of a machine reaches its ports, so that the page and its data are given only to who knows the token of the
server, which its ``address`` holds; the files of the front end hold nothing of a run. Requests under another host name
than the server's own are refused: a web page from elsewhere must not read a dump through the browser of the user.

A request has to arrive within ``REQUEST_SECONDS``, as a whole, and the next one of a connection has to begin within
``IDLE_SECONDS``; else the connection is closed. Of more than ``MOST_CONNECTIONS`` at a time the later ones are refused.
"""

from __future__ import annotations

import contextlib
import io
import re
import secrets
import socket
import sqlite3
import threading
import time
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
REQUEST_SECONDS = 10.0
MOST_CONNECTIONS = 64
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_TOKEN = "token"
_NO_TOKEN = "the address needs the token of this server: open the address that msprobe view has printed"
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
_TYPES = {"js": "text/javascript", "mjs": "text/javascript", "css": "text/css", "html": "text/html"}

Query = Mapping[str, Any]


class LocalServer(ThreadingHTTPServer):
    """Serves until ``shutdown``. Port 0 takes any free port; ``address`` says which.

    Args:
        host, port: where.
        idle_seconds: how long a connection may say nothing between two requests.
        request_seconds: how long a request may take to arrive.
        most_connections: how many connections there may be at a time.

    Attributes:
        token: what a request for the page or its data has to know.
    """

    answer_type = "application/json"
    daemon_threads = True

    def __init__(
        self,
        host: str = LOCAL_HOST,
        port: int = 0,
        *,
        idle_seconds: float = IDLE_SECONDS,
        request_seconds: float = REQUEST_SECONDS,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        self.names = None if host in _ALL_ADDRESSES else _LOCAL_NAMES | {host}
        self.token = secrets.token_urlsafe(24)
        self.idle_seconds, self.request_seconds = idle_seconds, request_seconds
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
        """Return the address to open in a browser on this machine, with the token."""
        host, port = self.server_address[:2]
        name = LOCAL_HOST if host in _ALL_ADDRESSES else str(host)
        return f"http://{name}:{port}/?{_TOKEN}={self.token}"


class _TimedInput(io.RawIOBase):
    """What a connection sends, until a request has had its time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._end = self._whole = 0.0
        self._begun = False

    def expect(self, wait: float, whole: float) -> None:
        """Begin a request: its first byte has ``wait`` seconds, the rest of it ``whole`` seconds from then on."""
        self._end, self._whole, self._begun = time.monotonic() + wait, whole, False

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what has arrived.

        Raises:
            TimeoutError: the time is over.
        """
        left = self._end - time.monotonic()
        if left <= 0.0:
            raise TimeoutError("the request took too long")
        self._connection.settimeout(left)
        count = self._connection.recv_into(buffer)
        if not self._begun:
            self._end, self._begun = time.monotonic() + self._whole, True
        return count


class _Handler(BaseHTTPRequestHandler):
    server: LocalServer
    protocol_version = "HTTP/1.1"
    server_version = "msprobe"
    sys_version = ""

    def setup(self) -> None:
        """Prepare the connection."""
        super().setup()
        self.rfile.close()
        self._input = _TimedInput(self.connection)
        self.rfile = io.BufferedReader(self._input)
        self._wait = self.server.request_seconds

    def handle_one_request(self) -> None:
        """Read a request in the time that it has, and answer it."""
        self._input.expect(self._wait, self.server.request_seconds)
        self._wait = self.server.idle_seconds
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answer one request."""
        if not self._has_own_host_name():
            self._send(HTTPStatus.FORBIDDEN, _error("this server answers by its own name only"), "application/json")
            return
        try:
            address = urlsplit(self.path)
            values = {key: texts[0] for key, texts in parse_qs(address.query, errors="surrogateescape").items()}
        except ValueError:
            self._send(HTTPStatus.BAD_REQUEST, self._cannot_answer(), "application/json")
            return
        given = values.pop(_TOKEN, "").encode("utf-8", "surrogateescape")
        is_file = address.path not in ("/", "/index.html") and not address.path.startswith("/api/")
        if not is_file and not secrets.compare_digest(given, self.server.token.encode()):
            self._send(HTTPStatus.FORBIDDEN, _error(_NO_TOKEN), "application/json")
        elif address.path.startswith("/api/"):
            self._answer(address.path.removeprefix("/api/"), values)
        elif not is_file:
            page, policy = self.server.page()
            self._send(HTTPStatus.OK, page.encode(), "text/html", policy)
        else:
            self._file(address.path.lstrip("/"))

    def log_message(self, format: str, *args: Any) -> None:
        """Log a request for debugging only, without the token."""
        logger.debug("view: %s", (format % args).replace(self.server.token, "..."))

    def _has_own_host_name(self) -> bool:
        if self.server.names is None:
            return True
        given = self.headers.get_all("Host", [])
        host = _HOST.fullmatch(given[0]) if len(given) == 1 else None
        return host is not None and (host["v6"] or host["name"]).lower() in self.server.names

    def _answer(self, question: str, values: Query) -> None:
        try:
            status, content = HTTPStatus.OK, self.server.answer(question, values)
        except (KeyError, ValueError, IndexError):
            status, content = HTTPStatus.BAD_REQUEST, self._cannot_answer()
        except ReadError as error:
            status, content = HTTPStatus.NOT_FOUND, _error(str(error))
        except (MsprobeException, sqlite3.Error, OSError) as error:
            status, content = HTTPStatus.INTERNAL_SERVER_ERROR, _error(error_text(error))
        self._send(status, content, self.server.answer_type if status is HTTPStatus.OK else "application/json")

    def _cannot_answer(self) -> bytes:
        return _error(f"cannot answer {shortened(self.path.replace(self.server.token, '...'))}")

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
        self.connection.settimeout(self.server.idle_seconds)
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)


def _error(text: str) -> bytes:
    return encode({"error": text})
