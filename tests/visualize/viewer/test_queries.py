"""What the front end is told about a database, ours or another writer's."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe.core.errors import ReadError
from msprobe.visualize.viewer.databases import find_databases
from msprobe.visualize.viewer.queries import VERDICTS, GraphDatabase, fact_of, parent_indexes
from tests.compare.dumps import call, tensor
from tests.visualize.viewer.graphs import built, diverging, overflowing


def verdicts(graph: dict, side: str = "target") -> dict[str, str]:
    return {name: VERDICTS[code] for name, code in zip(graph[side]["names"], graph[side]["verdicts"], strict=True)}


@pytest.mark.parametrize("ours", [True, False], ids=["our-tables", "published-only"])
def test_verdicts_of_both_kinds_of_database(tmp_path: Path, ours: bool) -> None:
    graph = GraphDatabase(diverging().write(tmp_path / "a.vis.db", ours)).graph(0, 1)
    target = verdicts(graph)
    assert target["Functional.linear.1.forward"] == "error"
    assert target["Module.head.Linear.forward.0"] == "warning"
    assert target["Functional.linear.0.forward"] == "pass"
    assert target["Module.layers.1.fc.MLP.forward.0"] == "unmatched"
    assert target["DefaultModel"] == "no_data"
    golden = verdicts(graph, "golden")
    assert golden["Module.layers.1.mlp.MLP.forward.0"] == "unmatched"


def test_partners_are_indexes_of_the_other_side(tmp_path: Path) -> None:
    graph = GraphDatabase(diverging().write(tmp_path / "a.vis.db")).graph(0, 0)
    target, golden = graph["target"], graph["golden"]
    for index, partner in enumerate(target["matches"]):
        if partner >= 0:
            assert golden["names"][partner] == target["names"][index]
            assert golden["matches"][partner] == index
    assert target["matches"][target["names"].index("Module.layers.1.fc.MLP.forward.0")] == -1


def test_every_parent_but_the_root_s_is_known(tmp_path: Path) -> None:
    side = GraphDatabase(diverging().write(tmp_path / "a.vis.db")).graph(0, 0)["target"]
    up = {
        name: side["names"][parent] if parent >= 0 else None
        for name, parent in zip(side["names"], side["parents"], strict=True)
    }
    assert [name for name, parent in up.items() if parent is None] == ["DefaultModel"]
    assert up["Functional.linear.1.forward"] == "Module.layers.0.fc.down.Linear.forward.0"


def test_a_level_that_was_not_computed_is_no_pass(tmp_path: Path) -> None:
    path = diverging().write(tmp_path / "a.vis.db", ours=False)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE tb_nodes SET precision_index = NULL")
    found = set(verdicts(GraphDatabase(path).graph(0, 0)).values())
    assert found == {"not_compared", "no_data", "unmatched"}


@pytest.mark.parametrize("ours", [True, False], ids=["our-tables", "published-only"])
def test_the_grid_counts_verdicts_of_each_step_and_rank(tmp_path: Path, ours: bool) -> None:
    grid = GraphDatabase(diverging().write(tmp_path / "a.vis.db", ours)).grid()
    counts = {cell["rank"]: dict(zip(VERDICTS, cell["counts"], strict=True)) for cell in grid}
    assert [(counts[rank]["error"], counts[rank]["warning"]) for rank in (0, 1)] == [(0, 0), (2, 1)]
    assert counts[0]["unmatched"] == counts[1]["unmatched"] == 2


def test_a_single_run_is_not_compared(tmp_path: Path) -> None:
    database = GraphDatabase(overflowing(tmp_path / "a.vis.db", ours=False))
    graph = database.graph(0, 0)
    assert graph["golden"] is None
    assert "unmatched" not in verdicts(graph).values()
    assert graph["target"]["overflow"] == ["medium", "critical", None, None]
    assert database.overview()["overflow"] is True


def test_infinite_errors_survive_json(tmp_path: Path) -> None:
    target, golden = ({"Functional.exp.0.forward": call([tensor()], [tensor(Max=most)])} for most in (math.inf, 2.0))
    errors = GraphDatabase(built(tmp_path / "a.vis.db", target, golden)).graph(0, 0)["target"]["errors"]
    assert max(error for error in json.loads(json.dumps(errors, allow_nan=False)) if error is not None) > 1e299


def test_facts_name_the_dtypes_and_the_worst_difference(tmp_path: Path) -> None:
    database = GraphDatabase(diverging().write(tmp_path / "a.vis.db"))
    names, facts = database.graph(0, 1)["target"]["names"], database.facts(0, 1)
    gelu, linear = names.index("Functional.gelu.0.forward"), names.index("Functional.linear.1.forward")
    assert facts["dtypes"][facts["dtype"][gelu]] == ["torch.bfloat16"]
    assert facts["errors"][linear] == pytest.approx(0.5)
    assert facts["errors"][names.index("DefaultModel")] is None


@pytest.mark.parametrize(
    ("shown", "error"),
    [("12.5%", 0.125), ("0.0%", 0.0), ("N/A", None), ("Nan", None), ("inf%", None), ("-0.25", 0.25)],
    ids=["percent", "zero", "not-available", "nan", "infinite", "plain"],
)
def test_a_difference_that_is_no_number_is_unknown(shown: str, error: float | None) -> None:
    assert fact_of(json.dumps({"a": {"MaxRelativeErr": shown}})).error == error


def test_data_of_a_node_and_of_what_is_inside(tmp_path: Path) -> None:
    database = GraphDatabase(diverging().write(tmp_path / "a.vis.db"))
    node = database.node(0, 1, "target", "Functional.linear.1.forward")
    assert node["output"]["Functional.linear.1.forward.output.0"]["Norm"] == "1.5"
    assert "model.py" in node["stack"][1]
    inside = database.children(0, 1, "golden", "Module.layers.0.Block.forward.0")
    assert [next(iter(one["input"])) for one in inside] == [
        "Module.layers.0.fc.up.Linear.forward.0.input.0",
        "Functional.gelu.0.forward.input.0",
        "Module.layers.0.fc.down.Linear.forward.0.input.0",
    ]
    with pytest.raises(ReadError, match="no node nothing"):
        database.node(0, 1, "target", "nothing")


def test_a_node_without_its_stack_row_is_still_found(tmp_path: Path) -> None:
    path = diverging().write(tmp_path / "a.vis.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM tb_stack")
    assert GraphDatabase(path).node(0, 1, "target", "Functional.linear.1.forward")["stack"] == []


@pytest.mark.parametrize(
    ("ups", "parents"),
    [
        (["c", "c", ""], [2, 2, -1]),
        (["gone", "c", ""], [2, 2, -1]),
        (["b", "a", ""], [2, 0, -1]),
        (["a", "c", ""], [2, 2, -1]),
        (["b", "c", "a"], None),
    ],
    ids=["as-stored", "unknown-parent", "circle", "its-own-parent", "no-root"],
)
def test_no_node_is_lost(ups: list[str], parents: list[int] | None) -> None:
    found = parent_indexes(["a", "b", "c"], ups)
    if parents is not None:
        assert found == parents
    for start in range(3):
        node, steps = start, 0
        while found[node] >= 0:
            node, steps = found[node], steps + 1
            assert steps < 3


def test_databases_of_a_folder_newest_first(tmp_path: Path) -> None:
    import os

    for age, name in enumerate(["new.vis.db", "deep/er/old.vis.db"]):
        path = diverging().write(tmp_path / name)
        os.utime(path, (1e9 - age, 1e9 - age))
    (tmp_path / "other.db").write_text("not one")
    assert [path.name for path in find_databases(tmp_path)] == ["new.vis.db", "old.vis.db"]


def test_reading_leaves_nothing_beside_a_database_in_log_mode(tmp_path: Path) -> None:
    path = diverging().write(tmp_path / "a.vis.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    before = path.read_bytes()
    GraphDatabase(path).graph(0, 0)
    assert [file.name for file in tmp_path.iterdir()] == ["a.vis.db"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"no database", b""], ids=["text", "empty"])
def test_what_is_no_graph_database_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.vis.db"
    path.write_bytes(content)
    with pytest.raises(ReadError, match=r"broken\.vis\.db"):
        find_databases(tmp_path)


def test_nothing_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="graph_visualize"):
        find_databases(tmp_path)
    with pytest.raises(ReadError, match="does not exist"):
        find_databases(tmp_path / "none")
