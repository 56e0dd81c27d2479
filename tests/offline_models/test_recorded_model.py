"""What is recorded of a model: every node, whatever its values are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from msprobe.core.errors import ReadError
from msprobe.offline_models.model_file import read_model
from msprobe.offline_models.recorded_model import RecordedModel, RecordingPlan, record_model
from tests.offline_models.exported import save

X = np.arange(8, dtype=np.float32).reshape(2, 4)
W = np.eye(4, dtype=np.float32) * 2


def recorded(path: Path, output: Path, **plan: Any) -> tuple[RecordedModel, dict[str, Any]]:
    run = record_model(read_model(path), {"x": X}, output, 0, RecordingPlan(**plan))
    document: dict[str, Any] = json.loads((run.folder / "dump.json").read_text())
    return run, document


def test_writes_inputs_and_outputs_of_each_node(tmp_path: Path) -> None:
    path = save(
        tmp_path,
        [helper.make_node("MatMul", ["x", "w"], ["t"], "/fc/MatMul"), helper.make_node("Relu", ["t"], ["y"], "/Relu")],
        {"w": W},
    )
    run, document = recorded(path, tmp_path / "out", rank=3)
    assert list(document["data"]) == ["Onnx.fc.MatMul.0.forward", "Module.fc.Module.forward.0", "Onnx.Relu.0.forward"]
    assert run.folder.name == "rank3" and document["framework"] == "onnx" and document["model_file"] == str(path)
    node = document["data"]["Onnx.fc.MatMul.0.forward"]
    assert node["node"] == "/fc/MatMul" and node["output"][0]["Max"] == 14.0
    tensors = run.folder / "dump_tensor_data"
    np.testing.assert_array_equal(np.load(tensors / node["output"][0]["data_name"]), X @ W)
    np.testing.assert_array_equal(np.load(tensors / node["input_args"][1]["data_name"]), W)
    assert document["data"]["Module.fc.Module.forward.0"]["output"][0]["Norm"] == node["output"][0]["Norm"]


def test_statistics_leave_no_files(tmp_path: Path) -> None:
    run, document = recorded(
        save(tmp_path, [helper.make_node("Abs", ["x"], ["y"])], {}), tmp_path / "out", task="statistics"
    )
    assert document["task"] == "statistics" and not (run.folder / "dump_tensor_data").exists()


def test_bfloat16_keeps_its_type(tmp_path: Path) -> None:
    nodes = [helper.make_node("Cast", ["x"], ["b"], to=TensorProto.BFLOAT16)]
    nodes.append(helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT))
    _, document = recorded(save(tmp_path, nodes, {}), tmp_path / "out")
    assert document["data"]["Onnx.Cast.0.forward"]["output"][0]["dtype"] == "bfloat16"


def test_a_sequence_is_a_list(tmp_path: Path) -> None:
    nodes = [helper.make_node("SplitToSequence", ["x"], ["s"], axis=1)]
    nodes.append(helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=1))
    _, document = recorded(save(tmp_path, nodes, {}), tmp_path / "out")
    assert len(document["data"]["Onnx.SplitToSequence.0.forward"]["output"][0]) == 4


def test_counts_the_nodes_of_branches(tmp_path: Path) -> None:
    result = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
    branches = [helper.make_graph([helper.make_node(op, ["x"], ["r"])], op, [], [result]) for op in ("Neg", "Abs")]
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])]
    run, document = recorded(save(tmp_path, nodes, {"c": np.array(True)}), tmp_path / "out")
    assert run.inner_nodes == 2
    assert document["data"]["Onnx.If.0.forward"]["output"][0]["Max"] == 0.0


def test_reads_weights_beside_the_model(tmp_path: Path) -> None:
    options = {"save_as_external_data": True, "location": "w.data", "size_threshold": 0}
    path = save(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": W}, **options)
    _, document = recorded(path, tmp_path / "out")
    assert document["data"]["Onnx.MatMul.0.forward"]["input_args"][1]["Max"] == 2.0
    (tmp_path / "w.data").unlink()
    with pytest.raises(ReadError, match=r"file of weights w\.data is missing"):
        read_model(path)


def test_local_functions_are_recorded_inside(tmp_path: Path) -> None:
    import onnx

    path = save(tmp_path, [helper.make_node("Twice", ["x"], ["y"], domain="own")], {})
    model = onnx.load(path)
    body = [helper.make_node("Add", ["a", "a"], ["b"])]
    model.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 18)]))
    model.opset_import.append(helper.make_opsetid("own", 1))
    onnx.save(model, path)
    _, document = recorded(path, tmp_path / "out")
    assert list(document["data"]) == ["Onnx.Add.0.forward"]


def test_onnxruntime_says_why_it_cannot_run(tmp_path: Path) -> None:
    path = save(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": np.ones((3, 3), np.float32)})
    with pytest.raises(ReadError, match="onnxruntime cannot"):
        record_model(read_model(path), {"x": X}, tmp_path / "out", 0, RecordingPlan())
