"""The offline page as a file: nothing in it from elsewhere, everything in it whole, libraries as published."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe.core.errors import ReadError
from msprobe.visualize.viewer.offline_page import NODES_PER_PART, asset, asset_names, write_page
from msprobe.visualize.viewer.queries import GraphDatabase
from tests.compare.dumps import call, tensor
from tests.rules.tree import ROOT
from tests.visualize.viewer.graphs import built, diverging

PART = re.compile(r'<script type="text/plain" id="([^"]+)">([^<]*)</script>')
ASSETS = ROOT / "msprobe" / "visualize" / "viewer" / "assets"


def parts(page: Path) -> dict[str, object]:
    return {
        name: json.loads(gzip.decompress(base64.b64decode(packed)))
        for name, packed in PART.findall(page.read_text(encoding="utf-8"))
    }


def test_every_graph_and_node_is_in_the_page(tmp_path: Path) -> None:
    run = {f"Functional.linear.{number}.forward": call([tensor()], [tensor()]) for number in range(NODES_PER_PART + 5)}
    path = built(tmp_path / "a.vis.db", run, run)
    size = write_page([path], tmp_path / "page.html")
    assert size == (tmp_path / "page.html").stat().st_size
    found = parts(tmp_path / "page.html")
    database = GraphDatabase(path)
    assert found["graph-0-0-0"] == database.graph(0, 0)
    assert found["facts-0-0-0"] == database.facts(0, 0)
    name = database.graph(0, 0)["golden"]["names"][NODES_PER_PART + 1]
    assert found["nodes-0-0-0-golden-1"][1] == database.node(0, 0, "golden", name)


def test_the_page_names_no_other_place(tmp_path: Path) -> None:
    write_page([diverging().write(tmp_path / "a.vis.db")], tmp_path / "page.html")
    page = PART.sub("", (tmp_path / "page.html").read_text(encoding="utf-8"))
    head = re.sub(r"data:text/javascript;base64,[A-Za-z0-9+/=]+", "", page)
    assert not re.search(r"(src|href)=", head)
    assert "https:" not in head
    assert "connect-src" not in head  # default-src 'none' stands for it


def test_the_same_graph_makes_the_same_page(tmp_path: Path) -> None:
    path = diverging().write(tmp_path / "a.vis.db")
    for name in ("one", "two"):
        write_page([path], tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    path = diverging().write(tmp_path / "a.vis.db")
    path.write_bytes(path.read_bytes()[:6000])
    with pytest.raises(ReadError, match=r"a\.vis\.db.*graph_visualize"):
        write_page([path], tmp_path / "page.html")
    assert [file.name for file in tmp_path.iterdir()] == ["a.vis.db"]


def test_a_table_without_its_columns_is_an_error_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.vis.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("tb_nodes", "tb_config", "tb_stack"):
            connection.execute(f"CREATE TABLE {table} (id TEXT)")
        connection.execute("INSERT INTO tb_config VALUES ('1')")
    with pytest.raises(ReadError, match=r"a\.vis\.db: no such column"):
        write_page([path], tmp_path / "page.html")


def test_libraries_are_those_of_the_list() -> None:
    listed = re.findall(
        r"^\| (\S+) \| \S+ \| [\d.]+ \| (MIT|Apache-2.0) \| ([0-9a-f]{64}) \|$",
        (ASSETS / "vendor" / "LICENSES.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (ASSETS / "vendor").iterdir()}
    del found["LICENSES.md"]
    assert {name: digest for name, _, digest in listed} == found


@pytest.mark.parametrize("name", sorted(name for name in asset_names() if name.startswith("app/")))
def test_front_end_files_are_short_say_their_idea_and_make_no_markup(name: str) -> None:
    text = asset(name).decode()
    assert text.startswith(("// ", "/* "))
    assert len(text.splitlines()) <= 300
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|dangerously|\beval\(|new Function", text)
