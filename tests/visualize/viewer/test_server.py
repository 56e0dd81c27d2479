"""What the local server answers, and whom it refuses."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest

from msprobe.visualize.viewer.server import _QUESTIONS, ViewServer, _whole_graph_answer
from tests.visualize.viewer.graphs import diverging
from tests.visualize.viewer.raw_requests import raw


@pytest.fixture
def address(served: Callable[..., str], tmp_path: Path) -> str:
    return served(diverging().write(tmp_path / "a.vis.db"))


def with_token(address: str, path: str) -> str:
    """Return the path with the token of the server at an address."""
    return f"{path}{'&' if '?' in path else '?'}{urlsplit(address).query}"


def get(address: str, path: str, host: str | None = None) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and content of an answer; the path gets the token, unless it has one."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)
    connection.request(
        "GET", path if "token=" in path else with_token(address, path), headers={"Host": host} if host else {}
    )
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.headers), content


def ask(address: str, question: str, **values: Any) -> tuple[int, Any]:
    status, _, content = get(address, f"/api/{question}?{urlencode(values)}")
    return status, json.loads(content)


def test_questions_of_the_front_end(address: str) -> None:
    status, index = ask(address, "index")
    assert (status, index[0]["ranks"], index[0]["kind"]) == (200, [0, 1], "compare")
    at = {"db": 0, "step": 0, "rank": 1}
    assert ask(address, "graph", **at)[1]["target"]["names"][-1] == "DefaultModel"
    assert ask(address, "facts", **at)[0] == 200
    name = "Functional.linear.1.forward"
    assert ask(address, "node", **at, side="golden", name=name)[1]["stack"]
    assert len(ask(address, "children", **at, side="target", name="DefaultModel")[1]) == 3


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        pytest.param("/api/nothing", 400, "nothing", id="unknown-question"),
        pytest.param("/api/graph?db=0", 400, "graph", id="missing-value"),
        pytest.param("/api/graph?db=7&step=0&rank=0", 400, "db=7", id="unknown-database"),
        pytest.param("/api/graph?db=x&step=0&rank=0", 400, "db=x", id="no-number"),
        pytest.param("/api/node?db=0&step=0&rank=0&side=target&name=no", 404, "no node no", id="unknown-node"),
        pytest.param("/api/node?db=0&step=0&rank=0&side=left&name=no", 404, "left", id="unknown-side"),
        pytest.param("/app/../server.py", 404, "not found", id="outside"),
        pytest.param("/vendor/%2e%2e/%2e%2e/server.py", 404, "not found", id="outside-encoded"),
        pytest.param("//etc/passwd", 404, "not found", id="machine"),
    ],
)
def test_what_cannot_be_answered_is_said(address: str, path: str, status: int, says: str) -> None:
    found, _, content = get(address, path)
    assert found == status
    assert says in content.decode()


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("path", ["/", "/index.html", "/api/index", "/api/nothing"])
@pytest.mark.parametrize("token", ["", "x", "%ff", "é"])
def test_who_does_not_know_the_token_learns_nothing(address: str, path: str, token: str) -> None:
    status, headers, content = get(address, f"{path}?token={quote(token, safe='%')}")
    assert (status, json.loads(content)) == (
        403,
        {"error": "the address needs the token of this server: open the address that msprobe view has printed"},
    )
    assert urlsplit(address).query.removeprefix("token=") not in str(headers)
    assert get(address, "/app/main.js?token=x")[0] == 200


def test_each_server_has_a_token_of_its_own(served: Callable[..., str], tmp_path: Path) -> None:
    path = diverging().write(tmp_path / "a.vis.db")
    first, second = served(path), served(path)
    assert urlsplit(first).query != urlsplit(second).query
    assert get(first, f"/api/index?{urlsplit(second).query}")[0] == 403


def test_the_token_is_not_logged(address: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "msprobe"):
        assert get(address, "/api/graph?db=x")[0] == 400
    assert "/api/graph?db=x" in caplog.text
    assert urlsplit(address).query.removeprefix("token=") not in caplog.text


FOREIGN = (
    "evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::1].evil", "[::1].evil:80", "[::1]evil", "::1",
    "localhost@evil", "evil@localhost", "localhost#evil", "localhost/evil", "localhost:1:2", "localhost evil",
)  # fmt: skip


@pytest.mark.parametrize("host", FOREIGN)
def test_other_names_are_refused(address: str, host: str) -> None:
    assert get(address, "/api/index", host)[0] == 403


def test_a_second_host_name_is_refused(address: str) -> None:
    line = with_token(address, "GET /api/index") + " HTTP/1.1"
    request = f"{line}\r\nHost: localhost\r\nHost: evil\r\nConnection: close\r\n\r\n".encode()
    assert b" 403 " in raw(address, request).splitlines()[0]


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost:1", "[::1]:1", "LocalHost"])
def test_own_names_are_answered(address: str, host: str) -> None:
    assert get(address, "/api/index", host)[0] == 200


def test_it_serves_this_machine_only_unless_told(tmp_path: Path) -> None:
    with ViewServer([diverging().write(tmp_path / "a.vis.db")]) as server:
        assert server.server_address[0] == "127.0.0.1"


def test_the_page_allows_nothing_from_elsewhere(address: str) -> None:
    _, headers, page = get(address, "/")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert b"http" not in page


def test_what_is_asked_first_is_read_before(tmp_path: Path) -> None:
    path = diverging().write(tmp_path / "a.vis.db")
    with ViewServer([path]) as server:
        before = _whole_graph_answer.cache_info()
        server.prepare()
        _QUESTIONS["graph"](server.databases, {"db": "0", "step": "0", "rank": "1"})
        after = _whole_graph_answer.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 1)


def test_it_only_reads(address: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)
    connection.request("POST", "/api/index")
    assert connection.getresponse().status == 501
    connection.close()


def test_a_database_made_again_is_read_again(served: Callable[..., str], tmp_path: Path) -> None:
    path = diverging().write(tmp_path / "a.vis.db")
    address = served(path)
    at = {"db": 0, "step": 0, "rank": 1}
    before = ask(address, "graph", **at)[1]
    path.unlink()
    diverging(hostile=".x").write(path)
    assert ask(address, "graph", **at)[1] != before


def test_a_database_that_went_away_is_an_error_and_not_the_end(served: Callable[..., str], tmp_path: Path) -> None:
    path = diverging().write(tmp_path / "a.vis.db")
    address = served(path)
    path.unlink()
    status, answer = ask(address, "graph", db=0, step=0, rank=0)
    assert status == 500
    assert "a.vis.db" in answer["error"]
    assert ask(address, "nothing")[0] == 400
