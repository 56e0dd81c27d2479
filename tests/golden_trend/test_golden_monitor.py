"""Recorded trend databases of what a monitor wrote: every cell of every published table must come out as recorded.

Tags were numbered in the order of a set, so they are compared by name; the columns of statistics and of
``global_stats`` were in such an order too.
"""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from msprobe.monitor.recorded.trend_job import write_monitor_trend

CASE = Path(__file__).parent / "monitor"
QUERIES = {
    "trend_data": "SELECT rank, step, target_id, metric_id, norm, min, max, nans FROM trend_data",
    "targets": "SELECT * FROM monitoring_targets",
    "metrics": "SELECT * FROM monitoring_metrics",
    "tags": "SELECT tag_name, category, metric_id FROM monitoring_tags",
    "mapping": """SELECT tag_name, category, metric_id, target_id FROM tag_target_mapping
        JOIN monitoring_tags USING (tag_id)""",
    "ends": "SELECT min_step, max_step, max_rank FROM global_stats",
}
KINDS = [pytest.param(True, id="micro-steps"), pytest.param(False, id="training-steps")]


def _recorded(divided: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.executescript((CASE / f"expected_micro_step_{str(divided).lower()}.sql").read_text())
    return connection


def _content(connection: sqlite3.Connection) -> dict[str, list[Any]]:
    return {name: sorted(connection.execute(query), key=str) for name, query in QUERIES.items()}


@pytest.mark.parametrize("divided", KINDS)
def test_every_table_is_as_recorded(divided: bool, tmp_path: Path) -> None:
    trend = write_monitor_trend(CASE / "output", tmp_path, divided=divided)
    found, expected = _content(sqlite3.connect(trend.path)), _content(_recorded(divided))
    assert len(expected["trend_data"]) == 768
    for name, rows in expected.items():
        assert found[name] == rows, name


@pytest.mark.parametrize("divided", KINDS)
def test_a_viewer_finds_the_same_columns(divided: bool, tmp_path: Path) -> None:
    ours = sqlite3.connect(write_monitor_trend(CASE / "output", tmp_path, divided=divided).path)
    for table in ("monitoring_targets", "monitoring_metrics", "monitoring_tags", "trend_data", "global_stats"):
        columns = [
            {row[1:4] for row in connection.execute(f"PRAGMA table_info({table})")}
            for connection in (ours, _recorded(divided))
        ]
        assert columns[0] == columns[1], table
    for connection in (ours, _recorded(divided)):
        for row in connection.execute("SELECT actv, exp_avg FROM global_stats"):
            assert [set(text.split(",")) for text in row] == [{"norm", "min", "max", "nans"}] * 2


def test_what_the_record_cannot_say_is_in_a_further_table(tmp_path: Path) -> None:
    """NULL stands for NaN and for a gradient that is not there; the further table has the NaN alone."""
    connection = sqlite3.connect(write_monitor_trend(CASE / "output", tmp_path).path)
    query = """SELECT kind FROM msprobe_nonfinite JOIN monitoring_targets USING (target_id)
        JOIN monitoring_metrics USING (metric_id)
        WHERE rank = 0 AND step = ? AND target_name = ? AND micro_step = ? AND metric_name = ? AND statistic = 'max'"""
    asked = [(2, "embed.input", 0, "actv"), (2, "embed.input", 1, "actv"), (0, "embed.input", 0, "actv_grad")]
    assert [connection.execute(query, one).fetchall() for one in asked] == [[("nan",)], [("inf",)], []]


def test_foreign_keys_hold(tmp_path: Path) -> None:
    connection = sqlite3.connect(write_monitor_trend(CASE / "output", tmp_path).path)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
