"""What tests ask of a graph database."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Tables:
    """The tables of one database; nodes by (source, step, rank, name)."""

    nodes: dict[tuple[str, int, int, str], dict[str, Any]]
    ours: dict[str, dict[str, Any]]
    config: dict[str, Any]
    stacks: dict[str, list[str]]
    meta: dict[str, Any]

    def side(self, source: str = "NPU", step: int = 0, rank: int = 0) -> dict[str, dict[str, Any]]:
        """Nodes of one graph by name, in their order."""
        return {key[3]: row for key, row in self.nodes.items() if key[:3] == (source, step, rank)}

    def verdicts(self, source: str = "NPU", step: int = 0, rank: int = 0) -> dict[str, str]:
        """Own verdicts of one graph."""
        return {name: self.ours[row["id"]]["own_verdict"] for name, row in self.side(source, step, rank).items()}


def read(path: Path) -> Tables:
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        connection.row_factory = sqlite3.Row

        def rows(query: str) -> list[dict[str, Any]]:
            return [dict(row) for row in connection.execute(query)]

        nodes = rows("SELECT * FROM tb_nodes ORDER BY data_source DESC, step, rank, node_order")
        tables = Tables(
            {(row["data_source"], row["step"], row["rank"], row["node_name"]): row for row in nodes},
            {row["id"]: row for row in rows("SELECT * FROM tb_msprobe_nodes")},
            rows("SELECT * FROM tb_config")[0],
            {row["id"]: json.loads(row["stack_info"]) for row in rows("SELECT * FROM tb_stack")},
            {row["key"]: json.loads(row["value"]) for row in rows("SELECT * FROM tb_msprobe_meta")},
        )
    connection.close()
    assert len(tables.nodes) == len(nodes)
    return tables


def check(tables: Tables) -> None:
    """What every viewer relies on: one root per graph, parents and children that agree, stacks that exist."""
    graphs = {key[:3] for key in tables.nodes}
    for graph in graphs:
        side = tables.side(*graph)
        assert [name for name, row in side.items() if row["up_node"] == ""] == ["DefaultModel"]
        for name, row in side.items():
            assert row["stack_id"] in tables.stacks
            children = json.loads(row["sub_nodes"] or "[]")
            assert all(side[child]["up_node"] == name for child in children)
            assert name == "DefaultModel" or name in json.loads(side[row["up_node"]]["sub_nodes"])
        assert [row["node_order"] for row in side.values()] == list(range(len(side)))
    assert set(tables.ours) == {row["id"] for row in tables.nodes.values()}
