"""msprobe import and msprobe code_mapping: what they print and write."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from msprobe.cli.main import run
from tests.rules.tree import ROOT

RECORDED = ROOT / "tests/core/kernel_dumps/recorded"


def test_import_names_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", str(RECORDED / "jit_grad"), "-o", str(tmp_path), "--md5"]) == 0
    assert capsys.readouterr().out == f"Imported: {tmp_path}/step0/rank0\n"
    assert '"md5"' in (tmp_path / "step0/rank0/dump.json").read_text()


def test_code_mapping_names_its_table_and_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = RECORDED / "graph/rank_0"
    graph = str(recorded / "graphs/ms_output_trace_code_graph_0.ir")
    assert run(["code_mapping", "--ir", graph, "--dump_data", str(recorded / "Net"), "--output", str(tmp_path)]) == 0
    (table,) = tmp_path.glob("code_mapping_*.csv")
    assert capsys.readouterr().out.splitlines() == [f"Table: {table}", "9 of 9 tensors of kernels have source lines"]


def test_analysis_names_the_kernel_that_made_the_first_nan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(RECORDED / "graph", tmp_path / "native")
    (file,) = (tmp_path / "native").rglob("BiasAdd.*output.0.*.npy")
    np.save(file, np.full((2, 3), np.nan, np.float32))
    assert run(["import", str(tmp_path / "native"), "-o", str(tmp_path / "dump")]) == 0
    assert run(["overflow_check", "-i", str(tmp_path / "dump"), "-o", str(tmp_path / "out"), "--fail-on", "found"]) == 1
    said = capsys.readouterr().out
    assert "First NaN or infinity (rank 0, step 0): Kernel.Default.fc1-Dense.BiasAdd.0.forward" in said


def test_graphs_show_kernels(tmp_path: Path) -> None:
    assert run(["import", str(RECORDED / "jit_grad"), "-o", str(tmp_path / "dump")]) == 0
    names = set(json.loads((tmp_path / "dump/step0/rank0/dump.json").read_text())["data"])
    assert (
        run(["graph_visualize", "-tp", str(tmp_path / "dump"), "-gp", str(tmp_path / "dump"), "-o", str(tmp_path)]) == 0
    )
    (file,) = tmp_path.glob("*.vis.db")
    with sqlite3.connect(file) as database:
        nodes = database.execute("SELECT data_source, node_name FROM tb_nodes").fetchall()
    for side in ("NPU", "Bench"):
        assert names <= {name for source, name in nodes if source == side}


@pytest.mark.parametrize("command", ["import", "code_mapping"])
def test_a_folder_with_nothing_in_it_is_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = str(RECORDED / "graph/rank_0/graphs")
    arguments = {
        "import": [str(tmp_path), "-o", str(tmp_path / "out")],
        "code_mapping": ["--ir", graph, "--dump_data", str(tmp_path)],
    }[command]
    assert run([command, *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("msprobe: error: ") and str(tmp_path) in line
