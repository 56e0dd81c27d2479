"""The tables of a graph database, and the row of its settings.

``tb_nodes``, ``tb_config`` and ``tb_stack`` are those of the published format; ``tb_msprobe_nodes``,
``tb_msprobe_values`` and ``tb_msprobe_meta`` are of this tool. A database is a plain file in rollback mode, so that it
can be copied, and read from a folder without write permission.

``settings_row`` makes the row of tb_config: what viewers need before they draw, in the words and colours of the
published format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

NODE_COLUMNS = (
    "id",
    "graph_id",
    "node_order",
    "node_name",
    "node_type",
    "up_node",
    "sub_nodes",
    "precision_index",
    "overflow_level",
    "micro_step_id",
    "matched_node_link",
    "stack_id",
    "parallel_merge_info",
    "matched_distributed",
    "modified",
    "input_data",
    "output_data",
    "data_source",
    "dump_data_dir",
    "step",
    "rank",
    "is_distributed",
)

TABLES = """
CREATE TABLE tb_nodes (
    id TEXT PRIMARY KEY,
    graph_id TEXT NOT NULL,
    node_order INTEGER NOT NULL,
    node_name TEXT NOT NULL,
    node_type TEXT NOT NULL,
    up_node TEXT,
    sub_nodes TEXT,
    precision_index INTEGER,
    overflow_level TEXT,
    micro_step_id INTEGER NOT NULL,
    matched_node_link TEXT,
    stack_id TEXT,
    parallel_merge_info TEXT,
    matched_distributed TEXT,
    modified INTEGER NOT NULL,
    input_data TEXT,
    output_data TEXT,
    data_source TEXT,
    dump_data_dir TEXT,
    step INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    is_distributed INTEGER
);
CREATE TABLE tb_config (
    id TEXT PRIMARY KEY,
    graph_type TEXT NOT NULL,
    task TEXT,
    tool_tip TEXT,
    micro_steps INTEGER,
    overflow_check INTEGER,
    node_colors TEXT NOT NULL,
    rank_list TEXT NOT NULL,
    step_list TEXT NOT NULL
);
CREATE TABLE tb_stack (
    id TEXT PRIMARY KEY,
    stack_info TEXT
);
CREATE TABLE tb_msprobe_nodes (
    id TEXT PRIMARY KEY,
    own_verdict TEXT,
    rollup_verdict TEXT,
    counts TEXT,
    error REAL,
    execution_order INTEGER,
    reason TEXT
) WITHOUT ROWID;
CREATE TABLE tb_msprobe_values (
    id TEXT PRIMARY KEY,
    data TEXT
) WITHOUT ROWID;
CREATE TABLE tb_msprobe_meta (
    key TEXT PRIMARY KEY,
    value TEXT
);
"""

INDEXES = """
CREATE INDEX index1 ON tb_nodes (step, rank, data_source, up_node, node_order);
CREATE INDEX index2 ON tb_nodes (step, rank, data_source, node_name);
CREATE INDEX index3 ON tb_nodes (step, rank, data_source, node_order);
CREATE INDEX index4 ON tb_nodes (step, rank, node_order);
CREATE INDEX index5 ON tb_nodes (step, rank, micro_step_id, node_order);
CREATE INDEX index6 ON tb_nodes (step, rank, modified, matched_node_link);
CREATE INDEX index7 ON tb_nodes (is_distributed);
"""

COLUMNS_OF_CONFIG = 9
COLUMNS_OF_STACK = 2
COLUMNS_OF_VERDICTS = 7
COLUMNS_OF_VALUES = 2


_COLOURS: tuple[tuple[str, list[float], str, str], ...] = (
    ("#FFFCF3", [0, 0.3], "pass", "the node passes, and in databases of msprobe everything below it"),
    ("#FFDC7F", [0.3, 0.6], "warning", "a difference that began before this node, or could not be checked"),
    ("#FF704D", [0.6, 1], "error", "a difference that begins in this node or below it"),
    ("#C7C7C7", [], "unmatched node", "the other side has no such node"),
)


def settings_row(
    compared: tuple[str, Mapping[str, str]] | None,
    micro_steps: int,
    overflow: bool,
    ranks: Sequence[int],
    steps: Sequence[int],
) -> tuple[Any, ...]:
    """Return the row of tb_config.

    Args:
        compared: the kind of comparison (``summary``, ``md5`` or ``all``) and what each of its figures means; None
            when nothing was compared.
        micro_steps: the number of micro steps.
        overflow: whether NaN and infinities are marked.
        ranks, steps: the numbers of the graphs; a number may repeat.
    """
    task, tips = compared or ("", None)
    colours = {
        colour: {"value": values, "description": text, "accuracy_level": level}
        for colour, values, level, text in _COLOURS
    }
    return (
        "1",
        "build" if compared is None else "compare",
        task,
        None if compared is None else json.dumps(tips),
        micro_steps,
        int(overflow),
        json.dumps(None if compared is None else colours),
        json.dumps(sorted(set(ranks))),
        json.dumps(sorted(set(steps))),
    )
