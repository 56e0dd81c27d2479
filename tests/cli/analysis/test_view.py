"""``msprobe view``: what it says, what it leaves, how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import click
import pytest

from msprobe.cli.analysis.view import open_page
from msprobe.cli.main import run
from tests.visualize.viewer.graphs import diverging


def test_a_page_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diverging().write(tmp_path / "graphs" / "compare_1.vis.db")
    page = tmp_path / "new" / "page.html"
    assert run(["view", str(tmp_path / "graphs"), "--html", str(page)]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"Page: {page} (")
    assert "compare_1.vis.db: step 0, rank 1" in said.err
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_server_answers_until_it_is_interrupted(tmp_path: Path) -> None:
    path = diverging().write(tmp_path / "compare_1.vis.db")
    command = [sys.executable, "-u", "-m", "msprobe", "view", str(path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"Graph: {path}\n"
        address = process.stdout.readline().split()[1]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address.replace("?", "api/index?"), timeout=10) as answer:
            assert json.load(answer)[0]["name"] == "compare_1.vis.db"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert errors == ""


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "does not exist"), ("folder", "no .vis.db in"), (b"text, no database", "no SQLite database")],
    ids=["missing", "empty-folder", "no-database"],
)
def test_bad_input_is_one_line(
    content: bytes | str | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.vis.db"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        path.mkdir()
    assert run(["view", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("msprobe: error: ")
    assert says in line
    assert "graph_visualize" in line


def test_the_browser_is_given_a_file_of_this_user_and_not_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words of a program are seen by every user of the machine."""
    opened: list[str] = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(click, "launch", opened.append)
    open_page("http://127.0.0.1:1/?token=secret")
    (address,) = opened
    assert "secret" not in address
    page = Path(urlsplit(address).path)
    assert page.parent.stat().st_mode & 0o077 == 0
    assert 'content="0;url=http://127.0.0.1:1/?token=secret"' in page.read_text()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("compare_result.csv", "a table, which opens in a spreadsheet"),
        ("empty.xlsx", "a table, which opens in a spreadsheet"),
        ("report.HTML", "a page, which opens in a browser"),
        ("dump.json", "msprobe graph_visualize DUMP -o FOLDER makes one"),
    ],
)
def test_other_results_are_named_with_what_can_be_viewed(
    name: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").mkdir()
    path = tmp_path / "results" / name
    path.write_text("text, no database" * (10 if name != "empty.xlsx" else 0))
    assert run(["view", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line and ".vis.db of msprobe graph_visualize, and a .trend.db of msprobe data2db" in line
    assert run(["view", str(path.parent)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert (says in line) is (name != "dump.json")
    assert (f"msprobe graph_visualize {path.parent} -o FOLDER" in line) is (name == "dump.json")


def test_a_port_in_use_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    path = diverging().write(tmp_path / "compare_1.vis.db")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(["view", str(path), "--port", str(port)]) == 2
    assert f"cannot serve on 127.0.0.1:{port}" in capsys.readouterr().err
