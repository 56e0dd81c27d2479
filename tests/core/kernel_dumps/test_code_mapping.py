"""The table of files and source lines, against a recorded one."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from msprobe.core.errors import ReadError
from msprobe.core.kernel_dumps.code_mapping import map_code
from msprobe.core.kernel_dumps.dump_folder import NativeFolder
from msprobe.core.kernel_dumps.importer import ImportPlan, import_iterations

RECORDED = Path(__file__).parent / "recorded"
GRAPH = RECORDED / "graph/rank_0/graphs/ms_output_trace_code_graph_0.ir"


def rows(path: Path) -> dict[str, list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return {Path(row[0]).name: row[1:] for row in csv.reader(file)}


def test_the_recorded_table_is_reproduced(tmp_path: Path) -> None:
    mapped = map_code(GRAPH, RECORDED / "graph/rank_0/Net/0/0", tmp_path)
    assert mapped.table is not None
    assert rows(mapped.table) == rows(RECORDED / "code_mapping.csv")
    assert (mapped.matched, mapped.seen) == (9, 9)


def test_every_graph_has_its_own_names(tmp_path: Path) -> None:
    mapped = map_code(RECORDED / "jit_grad/rank_0/graphs", RECORDED / "jit_grad", tmp_path)
    assert mapped.table is not None and (mapped.matched, mapped.seen) == (6, 6)
    scopes = {name.split(".")[0]: row[1] for name, row in rows(mapped.table).items() if "Grad" not in name}
    assert scopes["MatMul"] == "Default/MatMul-op2" and scopes["Parameter"] == ""


def test_a_graph_of_another_number_matches_nothing(tmp_path: Path) -> None:
    other = tmp_path / "ms_output_trace_code_graph_5.ir"
    shutil.copyfile(GRAPH, other)
    assert map_code(other, RECORDED / "graph/rank_0/Net", tmp_path / "out").matched == 0


def test_statistics_get_two_columns_once(tmp_path: Path) -> None:
    source = tmp_path / "native"
    shutil.copytree(RECORDED / "graph", source)
    native = NativeFolder(source / "rank_0")
    import_iterations(native, native.iterations(), tmp_path / "out", ImportPlan("statistics", reduce=True))
    table = source / "rank_0/Net/0/0/statistic.csv"
    with table.open(newline="") as file:
        before = list(csv.reader(file))
    for _ in range(2):
        mapped = map_code(GRAPH, table, tmp_path / "out")
    with table.open(newline="") as file:
        after = list(csv.reader(file))
    assert mapped.table is None and mapped.statistics == (table,)
    assert [row[:-2] for row in after] == before and after[0][-2:] == ["Code Stack", "Scope Name"]
    assert {row[-1] for row in after[1:]} == {"Default/fc1-Dense/MatMul-op0", "Default/fc1-Dense/BiasAdd-op0"}


def test_nothing_to_link_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"no \.npy file of a kernel"):
        map_code(GRAPH, tmp_path, tmp_path / "out")
