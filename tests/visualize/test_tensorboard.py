"""Our databases in the real viewer: TensorBoard with tb_graph_ascend shows, filters and changes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.separate_packages import CannotInstallError
from tests.visualize.example_databases import BLOCK, NORM, RELU, write_databases
from tests.visualize.tensorboard import STANDALONE, TensorBoard

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_databases(tmp_path_factory.mktemp("viewer") / "logs")


@pytest.fixture(scope="module")
def board(databases: dict[str, Path]) -> Iterator[TensorBoard]:
    try:
        with TensorBoard(STANDALONE, databases["build"].parents[1]) as running:
            yield running
    except CannotInstallError as error:
        pytest.skip(f"{STANDALONE.package} cannot be installed: {error}")


def test_all_databases_are_found(board: TensorBoard, databases: dict[str, Path]) -> None:
    found = {run: told["tags"] for run, told in board.runs().items()}
    assert found == {name: [path.name.removesuffix(".vis.db")] for name, path in databases.items()}


def test_settings(board: TensorBoard) -> None:
    settings = board.ask("loadGraphConfigInfo", "compare")
    assert settings["isSingleGraph"] is False
    assert (settings["task"], settings["ranks"], settings["steps"]) == ("summary", [0], [0])
    assert settings["overflowCheck"] is False
    assert board.ask("loadGraphConfigInfo", "overflow")["overflowCheck"] is True
    single = board.ask("loadGraphConfigInfo", "build")
    assert (single["isSingleGraph"], single["ranks"]) == (True, [0, 1])


def test_every_node_is_listed_with_its_partner(board: TensorBoard) -> None:
    listed = board.ask("loadGraphAllNodeList", "compare")
    assert listed["npuMatchNodes"][NORM] == NORM
    assert len(listed["npuMatchNodes"]) == len(listed["benchMatchNodes"]) == 56  # calls before and after the loss apart


def test_children_appear_when_a_node_is_expanded(board: TensorBoard) -> None:
    root = board.ask("changeNodeExpandState", "compare", nodeInfo={"nodeName": "root", "nodeType": "NPU"})
    assert BLOCK in root and NORM not in root
    assert root[BLOCK]["precisionIndex"] == 1
    block = board.ask("changeNodeExpandState", "compare", nodeInfo={"nodeName": BLOCK, "nodeType": "NPU"})
    assert "Module.layers.0.norm.LayerNorm.forward.0" in block
    assert BLOCK in board.ask("changeNodeExpandState", "compare", nodeInfo={"nodeName": "root", "nodeType": "Bench"})
    other = board.ask("changeNodeExpandState", "compare", nodeInfo={"nodeName": BLOCK, "nodeType": "Bench"})
    assert "Module.layers.0.fc1.Linear.forward.0" in other
    single = board.ask("changeNodeExpandState", "build", rank=1, nodeInfo={"nodeName": "root", "nodeType": "Single"})
    assert BLOCK in single


def test_values_and_stacks_of_a_node(board: TensorBoard) -> None:
    told = board.ask("getNodeInfo", "compare", nodeInfo={"nodeName": NORM, "nodeType": "NPU"})
    weight = told["npu"]["input_data"][f"{NORM}.input.2"]
    assert weight["NormRelativeErr"] == "50.0%"
    assert weight["Result"] == "error"  # a weight that nothing before it explains
    assert any("train.py" in frame for frame in told["npu"]["stack_info"])
    assert told["bench"]["node_name"] == NORM


def test_filters(board: TensorBoard) -> None:
    assert "Functional.linear.1.forward" in board.ask("screen", "overflow", type="precision", values=[[0.6, 1]])
    wrong = board.ask("screen", "compare", type="precision", values=[[0.6, 1]])
    assert NORM in wrong
    assert RELU not in wrong
    assert NORM not in board.ask("screen", "compare", type="precision", values=[[0.3, 0.6]])
    assert RELU in board.ask("screen", "compare", type="precision", values=[[0, 0.3]])
    critical = board.ask("screen", "overflow", type="overflow", values=["critical", "high"])
    assert "Functional.linear.1.forward" in critical


def test_manual_matching_is_written_back(board: TensorBoard, databases: dict[str, Path]) -> None:
    def link() -> str:
        with sqlite3.connect(databases["compare"]) as connection:
            query = "SELECT matched_node_link FROM tb_nodes WHERE data_source = 'NPU' AND node_name = ?"
            (found,) = connection.execute(query, (RELU,)).fetchone()
        return str(found)

    names = {"npuNodeName": RELU, "benchNodeName": RELU}
    assert RELU in link()
    board.ask("loadGraphAllNodeList", "compare")
    parted = board.ask("deleteMatchNodes", "compare", **names, isUnMatchChildren=False)
    assert RELU not in parted["npuMatchNodes"]
    assert link() == "[]"
    joined = board.ask("addMatchNodes", "compare", **names, isMatchChildren=False)
    assert joined["npuMatchNodes"][RELU] == RELU
    assert RELU in link()
    saved = board.ask("saveMatchedRelations", "compare")
    assert (databases["compare"].parent / saved).exists()
