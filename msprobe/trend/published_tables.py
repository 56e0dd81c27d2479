"""The tables that trend viewers know, those of the published databases."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import lru_cache
from typing import Final

from msprobe.core.errors import ReadError, json_text

ENDS: Final = ("max_rank", "min_step", "max_step")
"""The first columns of ``global_stats`` in databases of dumps; those of monitors have another order."""
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_KEY_COLUMNS = {"rank", "step", "target_id", "metric_id"}


def published_tables(statistics: Sequence[str], metrics: Sequence[str], ends: Sequence[str] = ENDS) -> str:
    """Return the SQL of the published tables.

    Args:
        statistics: names of the columns of ``trend_data``.
        metrics: names of the columns of ``global_stats``.
        ends: its first columns.
    """
    values = ", ".join(f"{column_of(name)} REAL DEFAULT NULL" for name in statistics)
    texts = [f"{name} INTEGER DEFAULT 0" for name in ends] + [
        f"{column_of(name)} TEXT DEFAULT NULL" for name in metrics
    ]
    return f"""
CREATE TABLE monitoring_targets (
    target_id INTEGER PRIMARY KEY AUTOINCREMENT,
    target_name TEXT NOT NULL,
    vpp_stage INTEGER NOT NULL,
    micro_step INTEGER NOT NULL DEFAULT 0,
    UNIQUE(target_name, vpp_stage, micro_step)
);
CREATE TABLE monitoring_metrics (
    metric_id INTEGER PRIMARY KEY AUTOINCREMENT,
    metric_name TEXT UNIQUE NOT NULL
);
CREATE TABLE monitoring_tags (
    tag_id INTEGER PRIMARY KEY AUTOINCREMENT,
    tag_name TEXT NOT NULL,
    category TEXT NOT NULL,
    metric_id INTEGER NOT NULL,
    UNIQUE(tag_name, category, metric_id),
    FOREIGN KEY (metric_id) REFERENCES monitoring_metrics(metric_id)
);
CREATE TABLE tag_target_mapping (
    tag_id INTEGER NOT NULL,
    target_id INTEGER NOT NULL,
    PRIMARY KEY (tag_id, target_id),
    FOREIGN KEY (tag_id) REFERENCES monitoring_tags(tag_id),
    FOREIGN KEY (target_id) REFERENCES monitoring_targets(target_id)
);
CREATE TABLE trend_data (
    rank INTEGER NOT NULL,
    step INTEGER NOT NULL,
    target_id INTEGER NOT NULL,
    metric_id INTEGER NOT NULL,
    {values},
    PRIMARY KEY (rank, step, target_id, metric_id),
    FOREIGN KEY (target_id) REFERENCES monitoring_targets(target_id),
    FOREIGN KEY (metric_id) REFERENCES monitoring_metrics(metric_id)
) WITHOUT ROWID;
CREATE TABLE global_stats (
    {", ".join(texts)}
);
"""


def column_of(name: str) -> str:
    """Return a name as that of a column in SQL; in quotes where it is a word of SQL, such as ``update``.

    Raises:
        ReadError: it is none.
    """
    if not _COLUMN.fullmatch(name) or name.lower() in _KEY_COLUMNS:
        raise ReadError(
            f"{json_text(name)} cannot be the name of a statistic or metric; correct the titles of the file"
        )
    return f'"{name}"' if _is_word_of_sql(name) else name


@lru_cache
def _is_word_of_sql(name: str) -> bool:
    """Return whether SQLite takes a name for something else than that of a column."""
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute(f"CREATE TABLE one ({name} REAL)")
        except sqlite3.OperationalError:
            return True
    return False
