"""Every endpoint of the viewer with odd requests, on whole and on damaged databases: an answer, and nothing printed."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msprobe.visualize.viewer.server import _QUESTIONS, ViewServer
from tests.cli.hostile import damage
from tests.visualize.viewer.graphs import diverging
from tests.visualize.viewer.raw_requests import raw

TOKEN = "token=known&"
NUMBERS = ["0", "1", "-1", "99999999999999999999999999", "9" * 5000, "x", "", "0.5", "%00", "%ff", "१"]
TEXTS = ["target", "golden", "DefaultModel", "%ff%00", "'--", "", "x" * 5000, "../../a"]
HOSTS = [
    "localhost",
    "127.0.0.1",
    "[::1]",
    "[::1",
    "[",
    "",
    "evil.example",
    "localhost:99999999",
    "a@localhost",
    "\xff",
]
LINES = ["GET", "HEAD", "POST", "get", "\xff", ""]
QUERIES = st.lists(
    st.tuples(st.sampled_from(["db", "step", "rank", "side", "name", "&", "%"]), st.sampled_from(NUMBERS + TEXTS)).map(
        "=".join
    ),
    max_size=6,
).map("&".join)
PATHS = st.one_of(
    st.tuples(st.sampled_from([*_QUESTIONS, "nothing"]), QUERIES).map(
        lambda parts: f"/api/{parts[0]}?{TOKEN}{parts[1]}"
    ),
    st.sampled_from([
        "/",
        f"/?{TOKEN}",
        "/index.html",
        "/app/main.js",
        "/../../etc/passwd",
        "/%2e%2e/x",
        "http://[::1/",
        "//",
        "*",
        "?",
    ]),
    st.text(st.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=30),
)
REQUESTS = st.tuples(st.sampled_from(LINES), PATHS, st.sampled_from(HOSTS)).map(
    lambda parts: f"{parts[0]} {parts[1]} HTTP/1.1\r\nHost: {parts[2]}\r\nConnection: close\r\n\r\n".encode(
        "latin-1", "replace"
    )
)
ANSWERS = {b"200", b"400", b"403", b"404", b"414", b"500", b"501", b"505"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ViewServer]:
    folder = tmp_path_factory.mktemp("served")
    paths = [diverging().write(folder / f"{number}.vis.db") for number in range(2)]
    viewer = ViewServer(paths, idle_seconds=10)
    viewer.token = "known"
    threading.Thread(target=viewer.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield viewer
    viewer.shutdown()
    viewer.server_close()


def check(server: ViewServer, request: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    content = raw(server.address, request)
    head = content.partition(b"\r\n")[0].split()
    if head and head[0].startswith(b"HTTP/"):
        assert head[1] in ANSWERS, content[:200]
    else:  # to a request of HTTP/0.9 there is no head
        assert content in (b"", b"not found") or b"<" in content or b"{" in content
    assert b"root:" not in content
    assert capfd.readouterr().err == ""


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(request=REQUESTS)
def test_an_odd_request_is_answered(server: ViewServer, capfd: pytest.CaptureFixture[str], request: bytes) -> None:
    check(server, request, capfd)


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32 - 1))
def test_a_damaged_database_is_answered(server: ViewServer, capfd: pytest.CaptureFixture[str], seed: int) -> None:
    path: Path = server.databases[0].path
    path.unlink()
    damage(diverging().write(path), seed)
    step = random.Random(seed).choice(["0", "1"])
    for question in _QUESTIONS:
        line = f"GET /api/{question}?{TOKEN}db=0&step={step}&rank=0&side=target&name=DefaultModel HTTP/1.1"
        check(server, f"{line}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode(), capfd)
