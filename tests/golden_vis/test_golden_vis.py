"""Recorded graph databases: nodes, parents, order, types, matches, values and levels come out as recorded.

Departures on purpose are listed in ``DEPARTURES``; everything else must agree to 98 % in each column of each case.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from msprobe.compare.alignment.options import MappingOptions
from msprobe.visualize.job import Request, visualize

HERE = Path(__file__).parent
CASES = sorted(folder.name for folder in HERE.iterdir() if (folder / "command.txt").exists())
AGREEMENT = 0.98
PLAIN = ("node_order", "node_name", "node_type", "up_node", "precision_index", "overflow_level", "micro_step_id")
PLAIN += ("stack_id", "modified", "is_distributed", "graph_id", "data_source", "step", "rank", "parallel_merge_info")
JSON = ("sub_nodes", "matched_node_link", "matched_distributed")
DEPARTURES = {
    # Batched sends and receives are linked; the record has no link.
    ("build_multirank_distributed", "matched_distributed", "NPU_0_0_Distributed.batch_isend_irecv.0.forward"),
    ("build_multirank_distributed", "matched_distributed", "NPU_0_1_Distributed.batch_isend_irecv.0.forward"),
    # A record that construct.json forgot is shown, below the root.
    ("build_recompute", "nodes", "NPU_0_0_Functional.layer_norm.2.forward"),
    ("build_recompute", "node_order", "NPU_0_0_DefaultModel"),
    ("build_recompute", "sub_nodes", "NPU_0_0_DefaultModel"),
    # A collection has the level of its worst child in tensor mode too.
    ("compare_tensor", "precision_index", "NPU_0_0_Apis_Between_Modules.0"),
}
Fact = tuple[str, str, Any, Any]


def draw(case: str, output: Path) -> sqlite3.Connection:
    folder = HERE / case
    words = (folder / "command.txt").read_text(encoding="utf-8").split()
    golden = folder / words[words.index("-gp") + 1] if "-gp" in words else None
    path = visualize(
        Request(
            target=folder / words[words.index("-tp") + 1],
            golden=golden,
            output=output,
            policy="reference",
            mapping=MappingOptions("-fm" in words),
            overflow="-oc" in words,
        )
    )
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    return connection


def rows(connection: sqlite3.Connection, table: str) -> dict[str, dict[str, Any]]:
    return {row["id"]: dict(row) for row in connection.execute(f"SELECT * FROM {table}")}


def same(left: Any, right: Any) -> bool:
    texts = str(left).strip(), str(right).strip()
    if left == right or texts[0] == texts[1]:
        return True
    try:
        numbers = [float(text.rstrip("%")) for text in texts]
    except ValueError:
        return False
    return math.isclose(*numbers, rel_tol=1e-6, abs_tol=1e-9)


def facts(got: dict[str, Any], want: dict[str, Any]) -> Iterator[Fact]:
    """(column, node, found, recorded) for everything a node says."""
    name = want["id"]
    for column in PLAIN:
        yield column, name, got[column], want[column]
    for column in JSON:
        yield column, name, json.loads(got[column] or "[]"), json.loads(want[column] or "[]")
    for column in ("input_data", "output_data"):
        found, recorded = json.loads(got[column]), json.loads(want[column])
        yield "names of values", name, list(found), list(recorded)
        for key, fields in recorded.items():
            yield "fields", name, list(found.get(key, {})), list(fields)
            for field, value in fields.items():
                yield f"values of {field}", name, found.get(key, {}).get(field), value


@pytest.mark.parametrize("case", CASES)
def test_recorded_graph(case: str, tmp_path: Path) -> None:
    recorded = json.loads((HERE / case / "db.json").read_text(encoding="utf-8"))
    connection = draw(case, tmp_path)
    nodes = rows(connection, "tb_nodes")
    wanted = {row["id"]: row for row in recorded["tb_nodes"]}
    assert set(wanted) <= set(nodes)
    extra = set(nodes) - set(wanted)
    assert extra == {name for of, column, name in DEPARTURES if of == case and column == "nodes"}
    seen: Counter[str] = Counter()
    right: Counter[str] = Counter()
    wrong = []
    for key, want in wanted.items():
        for column, name, found, value in facts(nodes[key], want):
            if (case, column, name) in DEPARTURES:
                assert not same(found, value), "a departure that is none"
                continue
            seen[column] += 1
            right[column] += same(found, value)
            if not same(found, value):
                wrong.append((column, name, found, value))
    assert min(right[column] / seen[column] for column in seen) >= AGREEMENT, wrong[:5]


@pytest.mark.parametrize("case", CASES)
def test_recorded_stacks_and_settings(case: str, tmp_path: Path) -> None:
    recorded = json.loads((HERE / case / "db.json").read_text(encoding="utf-8"))
    connection = draw(case, tmp_path)
    found = {key: json.loads(row["stack_info"]) for key, row in rows(connection, "tb_stack").items()}
    wanted = {row["id"]: json.loads(row["stack_info"]) for row in recorded["tb_stack"]}
    assert {key: found[key] for key in wanted} == wanted
    (settings,), (want,) = rows(connection, "tb_config").values(), recorded["tb_config"]
    assert {key: settings[key] for key in want} == want
    tips, colours = (json.loads(settings[column] or "null") for column in ("tool_tip", "node_colors"))
    assert settings["node_colors"] is not None
    if colours is not None:
        assert all({*told} == {"value", "description", "accuracy_level"} for told in colours.values())
        colours = [[colour, told["value"], told["accuracy_level"]] for colour, told in colours.items()]
    assert {"tool_tip": tips and list(tips), "node_colors": colours} == recorded["settings"]


@pytest.mark.parametrize("case", CASES)
def test_recorded_schema(case: str, tmp_path: Path) -> None:
    recorded = json.loads((HERE / case / "db.json").read_text(encoding="utf-8"))
    connection = draw(case, tmp_path)
    statements = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE '%msprobe%'"
    found = {" ".join(sql.split()) for (sql,) in connection.execute(statements)}
    assert found == {" ".join(sql.split()) for sql in recorded["schema"]}
