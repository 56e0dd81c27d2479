"""Our databases in the viewer inside mindstudio-probe: its TensorBoard plugin shows, filters and changes them.

Matching by hand in tensor mode, which imports torch in the viewer, is not tried here.
"""

from __future__ import annotations

import sqlite3
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.separate_packages import CannotInstallError
from tests.visualize.example_databases import BLOCK, NORM, RELU, write_databases
from tests.visualize.tensorboard import BUNDLED, TensorBoard

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_databases(tmp_path_factory.mktemp("bundled") / "logs")


@pytest.fixture(scope="module")
def board(databases: dict[str, Path]) -> Iterator[TensorBoard]:
    try:
        with TensorBoard(BUNDLED, databases["build"].parents[1]) as running:
            yield running
    except CannotInstallError as error:
        pytest.skip(f"{BUNDLED.package} cannot be installed: {error}")


def test_all_databases_are_found(board: TensorBoard, databases: dict[str, Path]) -> None:
    found = {run: told["tags"] for run, told in board.runs().items()}
    assert found == {name: [path.name.removesuffix(".vis.db")] for name, path in databases.items()}


@pytest.mark.parametrize(
    ("run", "task", "tip"),
    [
        pytest.param("compare", "summary", "L2norm diff", id="statistics"),
        pytest.param("md5", "md5", "md5", id="md5"),
        pytest.param("tensor", "all", "Cosine", id="tensor"),
    ],
)
def test_settings(board: TensorBoard, run: str, task: str, tip: str) -> None:
    settings = board.ask("loadGraphConfigInfo", run)
    assert (settings["isSingleGraph"], settings["task"], settings["overflowCheck"]) == (False, task, False)
    assert tip in settings["tooltips"]
    assert [told["accuracy_level"] for told in settings["colors"].values()] == [
        "pass", "warning", "error", "unmatched node",
    ]  # fmt: skip


def test_ranks_of_one_run(board: TensorBoard) -> None:
    settings = board.ask("loadGraphConfigInfo", "build")
    assert (settings["isSingleGraph"], settings["ranks"], settings["steps"]) == (True, [0, 1], [0])
    root = {"nodeName": "root", "nodeType": "Single"}
    assert BLOCK in board.ask("changeNodeExpandState", "build", rank=1, nodeInfo=root)


def test_every_node_is_listed_with_its_partner(board: TensorBoard) -> None:
    listed = board.ask("loadGraphAllNodeList", "compare")
    matched = board.ask("loadGraphMatchedRelations", "compare")
    assert len(listed["npuNodeList"]) == len(matched["npuMatchNodes"]) == 56
    assert matched["npuMatchNodes"][NORM] == NORM
    assert matched["npuUnMatchNodes"] == matched["benchUnMatchNodes"] == []


def test_children_appear_when_a_node_is_expanded(board: TensorBoard) -> None:
    for side in ("NPU", "Bench"):
        root = board.ask("changeNodeExpandState", "compare", nodeInfo={"nodeName": "root", "nodeType": side})
        assert BLOCK in root and NORM not in root
        block = board.ask("changeNodeExpandState", "compare", nodeInfo={"nodeName": BLOCK, "nodeType": side})
        assert "Module.layers.0.norm.LayerNorm.forward.0" in block
        assert block[BLOCK]["matchedNodeLink"] == ["DefaultModel", BLOCK]
        assert block[BLOCK]["precisionIndex"] == (1 if side == "NPU" else None)


def test_values_and_stacks_of_a_node(board: TensorBoard) -> None:
    told = board.ask("getNodeInfo", "compare", nodeInfo={"nodeName": NORM, "nodeType": "NPU"})
    weight = told["npu"]["input_data"][f"{NORM}.input.2"]
    assert (weight["NormRelativeErr"], weight["Result"]) == ("50.0%", "error")
    assert any("train.py" in frame for frame in told["npu"]["stack_info"])
    assert told["bench"]["node_name"] == NORM


@pytest.mark.parametrize("endpoint", ["filterNodes", "screen"])
def test_filters(board: TensorBoard, endpoint: str) -> None:
    def found(run: str, kind: str, *values: str) -> dict[str, str]:
        return {one["name"]: one["status"] for one in board.ask(endpoint, run, type=kind, values=list(values))}

    assert found("compare", "precision", "error") == {NORM: "error"}
    assert NORM not in found("compare", "precision", "warning")
    assert RELU in found("compare", "precision", "pass")
    levels = found("overflow", "overflow", "critical", "high")
    assert levels["Functional.linear.1.forward"] == "high"
    assert set(levels.values()) == {"critical", "high"}


@pytest.mark.parametrize("run", ["compare", "md5"])
def test_manual_matching_is_written_back(board: TensorBoard, databases: dict[str, Path], run: str) -> None:
    def link() -> str:
        with sqlite3.connect(databases[run]) as connection:
            query = "SELECT matched_node_link FROM tb_nodes WHERE data_source = 'NPU' AND node_name = ?"
            (found,) = connection.execute(query, (RELU,)).fetchone()
        return str(found)

    names = {"npuNodeName": RELU, "benchNodeName": RELU}
    assert RELU in link()
    board.ask("loadGraphMatchedRelations", run)
    parted = board.ask("deleteMatchNodes", run, **names, isUnMatchChildren=False)
    assert RELU not in parted["npuMatchNodes"] and RELU in parted["npuUnMatchNodes"]
    assert link() == "[]"
    joined = board.ask("addMatchNodes", run, **names, isMatchChildren=False)
    assert joined["npuMatchNodes"][RELU] == RELU
    assert RELU in link()
    assert (databases[run].parent / board.ask("saveMatchedRelations", run)).exists()


def test_parts_in_tensor_mode(board: TensorBoard) -> None:
    board.ask("loadGraphMatchedRelations", "tensor")
    names = {"npuNodeName": RELU, "benchNodeName": RELU}
    parted = board.ask("deleteMatchNodes", "tensor", **names, isUnMatchChildren=False)
    assert RELU in parted["npuUnMatchNodes"]


def test_its_page_is_there(board: TensorBoard) -> None:
    with urllib.request.urlopen(board.address + "index.html", timeout=30) as answer:
        assert b"<!DOCTYPE html>" in answer.read()
