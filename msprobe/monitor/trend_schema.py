"""The tables of a trend database, as the plugin TrendVis of TensorBoard reads them.

A *target* is a value of a module or function (``Module.fc1.Linear.input.0``) in the n-th of its calls. ``metric_id``
is the direction of the call (``METRICS``). ``trend_data`` has a row per rank, step, target and metric.
"""

from __future__ import annotations

from msprobe.monitor.trend_rows import COLUMN_STATISTICS

METRICS = ("forward", "backward", "recompute", "parameters_grad")
"""Names of the metrics; their ids count from 1."""

STATISTIC_COLUMNS = tuple(name.lower() for name in COLUMN_STATISTICS)
"""Columns of ``trend_data``, one per statistic."""

TABLES = f"""
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
    {", ".join(f"{name} REAL DEFAULT NULL" for name in STATISTIC_COLUMNS)},
    PRIMARY KEY (rank, step, target_id, metric_id),
    FOREIGN KEY (target_id) REFERENCES monitoring_targets(target_id),
    FOREIGN KEY (metric_id) REFERENCES monitoring_metrics(metric_id)
) WITHOUT ROWID;
CREATE TABLE global_stats (
    max_rank INTEGER DEFAULT 0, min_step INTEGER DEFAULT 0, max_step INTEGER DEFAULT 0,
    {", ".join(f"{name} TEXT DEFAULT NULL" for name in METRICS)}
);
"""
