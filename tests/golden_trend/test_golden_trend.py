"""Recorded trend databases: every table must come out as recorded.

Tags were numbered in the order of a set, which changes from run to run, so they are compared by name. One departure on
purpose: the foreign key of ``tag_target_mapping`` names ``monitoring_targets``, the recorded one a table that does not
exist. The micro steps of the record are those of a model whose outermost module was not dumped; ours are the same,
and a note says so.
"""

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from msprobe.trend.job import write_trend

CASE = Path(__file__).parent / "27_data2db"
KINDS = [pytest.param(True, id="micro-steps"), pytest.param(False, id="dump-steps")]


def _recorded(divided: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.executescript((CASE / f"expected_micro_step_{str(divided).lower()}.sql").read_text())
    return connection


def _content(connection: sqlite3.Connection) -> dict[str, list[Any]]:
    """All rows of all tables; tags by name, category and metric."""
    names = {row[0]: row[1:] for row in connection.execute("SELECT * FROM monitoring_tags")}
    tables = list(_definitions(connection))
    content = {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=str) for name in tables}
    content["monitoring_tags"] = sorted(names.values())
    content["tag_target_mapping"] = sorted((names[tag], target) for tag, target in content["tag_target_mapping"])
    return content


def _definitions(connection: sqlite3.Connection) -> dict[str, str]:
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL")
    return {name: re.sub(r"\s+", " ", text) for name, text in rows if not name.startswith("msprobe_")}


@pytest.mark.parametrize("divided", KINDS)
def test_every_table_is_as_recorded(divided: bool, tmp_path: Path) -> None:
    trend = write_trend(CASE / "target", tmp_path, divided=divided)
    found, expected = _content(sqlite3.connect(trend.path)), _content(_recorded(divided))
    assert list(found) and found.keys() == expected.keys()
    for name, rows in expected.items():
        assert found[name] == rows, name


def test_tables_are_defined_as_recorded(tmp_path: Path) -> None:
    trend = write_trend(CASE / "target", tmp_path, divided=True)
    found, expected = _definitions(sqlite3.connect(trend.path)), _definitions(_recorded(True))
    squeezed = {name: text.replace("( ", "(").replace(" )", ")") for name, text in expected.items()}
    wrong = "REFERENCES monitoring_target(target_id)"
    assert wrong in squeezed["tag_target_mapping"]
    squeezed["tag_target_mapping"] = squeezed["tag_target_mapping"].replace(wrong, wrong.replace("get(", "gets("))
    assert {name: text.replace("( ", "(").replace(" )", ")") for name, text in found.items()} == squeezed


def test_foreign_keys_hold(tmp_path: Path) -> None:
    connection = sqlite3.connect(write_trend(CASE / "target", tmp_path, divided=True).path)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_what_the_record_leaves_out_is_told(tmp_path: Path) -> None:
    """Two training steps became six: the outermost module is missing, and what it calls itself is in no micro step."""
    trend = write_trend(CASE / "target", tmp_path, divided=True)
    first, second = trend.notes
    assert trend.steps == 6 and "micro step of its own" in first and second.startswith("8 calls are outside")
    assert write_trend(CASE / "target", tmp_path, divided=False).notes == []
