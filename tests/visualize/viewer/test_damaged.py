"""Damaged databases and malformed requests: one line about what is wrong, no traceback, and the server goes on."""

from __future__ import annotations

import http.client
import json
import socket
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from msprobe.core.errors import ReadError
from msprobe.visualize.viewer.databases import find_databases
from msprobe.visualize.viewer.offline_page import write_page
from msprobe.visualize.viewer.server import ViewServer
from tests.visualize.viewer.graphs import diverging
from tests.visualize.viewer.raw_requests import raw
from tests.visualize.viewer.test_server import ask, get

DEEP = "[" * 20_000 + "]" * 20_000
DAMAGES = [
    ("UPDATE tb_config SET step_list = '-1'", "step_list '-1' is no list of numbers"),
    ("UPDATE tb_config SET rank_list = '{\"a\": 1}'", "rank_list"),
    ("UPDATE tb_config SET step_list = '[true]'", "step_list"),
    ("UPDATE tb_config SET step_list = '[99999999999999999999]'", "too large"),
    ("UPDATE tb_config SET step_list = x'00'", "step_list holds a blob"),
    ("UPDATE tb_nodes SET node_name = x'00ff'", "node_name holds a blob"),
    ("UPDATE tb_nodes SET input_data = x'00ff'", "input_data holds a blob"),
    ("UPDATE tb_nodes SET precision_index = 'much'", "precision_index holds a text"),
    ("UPDATE tb_nodes SET precision_index = 9e999", "precision_index holds another number"),
    ("UPDATE tb_stack SET stack_info = x'00'", "stack_info holds a blob"),
    ("UPDATE tb_msprobe_nodes SET error = x'00'", "error holds a blob"),
    ("UPDATE tb_msprobe_meta SET value = x'00'", "value holds a blob"),
    ("DROP TABLE tb_msprobe_nodes; CREATE TABLE tb_msprobe_nodes (id)", "no such column"),
]
HARMLESS = [
    "UPDATE tb_nodes SET node_name = 'one name'",
    "UPDATE tb_nodes SET matched_node_link = '[[1], {\"a\": 2}]'",
    "UPDATE tb_nodes SET matched_node_link = 'no json', up_node = 'nothing'",
    "UPDATE tb_nodes SET up_node = node_name",
    f"UPDATE tb_nodes SET input_data = '{DEEP}'",
    "UPDATE tb_nodes SET output_data = CAST(x'ff41' AS TEXT)",
    "UPDATE tb_msprobe_meta SET value = '[5]' WHERE key = 'first_divergence'",
    'UPDATE tb_msprobe_meta SET value = \'[{"step": "a", "rank": 1e99}]\' WHERE key = \'first_divergence\'',
    "DELETE FROM tb_stack",
]


def damaged(path: Path, statement: str) -> Path:
    diverging().write(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statement)
    return path


@pytest.mark.parametrize(("statement", "says"), DAMAGES, ids=[says for _, says in DAMAGES])
def test_a_damaged_database_is_told_in_one_line(
    served: Callable[..., str], tmp_path: Path, statement: str, says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = damaged(tmp_path / "a.vis.db", statement)
    with pytest.raises(ReadError) as caught:
        write_page(find_databases(path), tmp_path / "a.html")
    assert says in str(caught.value) and "graph_visualize" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "a.html").exists()
    address = served(path)
    answers = [
        ask(address, question, db=0, step=0, rank=0) for question in ("index", "grid", "graph", "facts", "stacks")
    ]
    assert {status for status, _ in answers} <= {200, 404, 500}
    assert all("error" in answer for status, answer in answers if status != 200)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("statement", HARMLESS, ids=[statement[:50] for statement in HARMLESS])
def test_odd_values_are_shown(tmp_path: Path, statement: str) -> None:
    path = damaged(tmp_path / "a.vis.db", statement)
    assert write_page(find_databases(path), tmp_path / "a.html") > 0
    server = ViewServer([path])
    server.prepare()
    server.server_close()


@pytest.mark.parametrize(
    ("request_line", "host", "status"),
    [
        ("GET / HTTP/1.1", "[::1", 403),
        ("GET / HTTP/1.1", "[", 403),
        ("GET http://[::1/ HTTP/1.1", "localhost", 400),
        ("GET /api/graph?db=0&rank=0&step=99999999999999999999999999 HTTP/1.1", "localhost", 400),
        ("GET /api/graph?db=-1&rank=0&step=0 HTTP/1.1", "localhost", 400),
        (f"GET /api/grid?db={'9' * 5000} HTTP/1.1", "localhost", 400),
        ("GET /api/grid?db=%ff&db=%00 HTTP/1.1", "localhost", 400),
        ("GET /api/node?db=0&step=0&rank=0&side=target&name=%ff%00 HTTP/1.1", "localhost", 400),
        ("GET /../../etc/passwd HTTP/1.1", "localhost", 404),
        ("GET /%2e%2e/server.py HTTP/1.1", "localhost", 404),
        ("POST / HTTP/1.1", "localhost", 501),
        ("nonsense", "localhost", 400),
    ],
)
def test_a_malformed_request_is_answered(
    served: Callable[..., str],
    tmp_path: Path,
    request_line: str,
    host: str,
    status: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    address = served(diverging().write(tmp_path / "a.vis.db"))
    request_line = request_line.replace("?", f"?{urlsplit(address).query}&", 1)
    answer = raw(address, f"{request_line}\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert b" %d " % status in answer.splitlines()[0] or f"Error code: {status}".encode() in answer
    assert get(address, "/api/index")[0] == 200
    assert capfd.readouterr().err == ""


def test_a_silent_connection_is_closed(served: Callable[..., str], tmp_path: Path) -> None:
    address = urlsplit(served(diverging().write(tmp_path / "a.vis.db"), request_seconds=0.2))
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=10) as connection:
        begin = time.monotonic()
        assert connection.recv(100) == b""
        assert time.monotonic() - begin < 5


@pytest.mark.parametrize("sent", [b"", b"GET /app/main.js HTTP/1.1\r\nHost: localhost\r\n\r\n"], ids=["first", "next"])
def test_a_request_that_comes_byte_by_byte_is_ended(served: Callable[..., str], tmp_path: Path, sent: bytes) -> None:
    """Each byte comes long before a silent connection would be closed; the request as a whole takes too long."""
    address = urlsplit(served(diverging().write(tmp_path / "a.vis.db"), request_seconds=0.3, idle_seconds=30))
    begin = time.monotonic()
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=10) as connection:
        connection.sendall(sent)
        ended = False
        for byte in iter(b"GET / HTTP/1.1\r\nX: " + bytes(1000)):
            try:
                connection.sendall(bytes([byte]))
            except OSError:
                ended = True
                break
            time.sleep(0.02)
    assert ended and time.monotonic() - begin < 5


def test_a_connection_may_wait_between_two_requests(served: Callable[..., str], tmp_path: Path) -> None:
    address = served(diverging().write(tmp_path / "a.vis.db"), request_seconds=0.2, idle_seconds=10)
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)
    for _ in range(2):
        connection.request("GET", "/app/main.js")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read()
        time.sleep(0.4)
    connection.close()


def test_too_many_connections_are_refused_until_one_ends(served: Callable[..., str], tmp_path: Path) -> None:
    address = served(diverging().write(tmp_path / "a.vis.db"), most_connections=2)
    place = (urlsplit(address).hostname or "", urlsplit(address).port or 0)
    held = [socket.create_connection(place, timeout=10) for _ in range(2)]
    with socket.create_connection(place, timeout=10) as refused:
        assert refused.recv(1000).startswith(b"HTTP/1.1 503 ")
    for connection in held:
        connection.close()
    end = time.monotonic() + 10
    while json.loads(status_of(address)) != 200:
        assert time.monotonic() < end


def status_of(address: str) -> str:
    try:
        return str(get(address, "/api/index")[0])
    except OSError:
        return "0"
