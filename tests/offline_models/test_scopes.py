"""Modules of nodes, from the names and the metadata that PyTorch's exporters write."""

from __future__ import annotations

import pytest

from msprobe.offline_models.scopes import Scope, scopes_of


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("/blocks.0/fc1/MatMul", ["blocks.0", "blocks.0.fc1"]),
        ("/layer1/layer1.0/conv1/Conv", ["layer1", "layer1.0", "layer1.0.conv1"]),
        ("/encoder/layer.0/attention/Add_1", ["encoder", "encoder.layer.0", "encoder.layer.0.attention"]),
        ("/Mul", []),
        ("Identity_3", []),
    ],
)
def test_paths_from_names(name: str, paths: list[str]) -> None:
    assert [scope.path for scope in scopes_of([name], [{}], set())[0]] == paths


def test_a_weight_tells_a_container_from_a_child_of_that_name() -> None:
    plain, known = (scopes_of(["/a/a.0/Add"], [{}], weights)[0] for weights in (set(), {"a.a.0.weight"}))
    assert [plain[-1].path, known[-1].path] == ["a.0", "a.a.0"]


def test_a_module_that_is_left_and_entered_is_called_twice() -> None:
    names = ["/act/Relu", "/fc/MatMul", "/fc/Add", "/act/Relu_1", "/act/Relu_1_output_0_QuantizeLinear"]
    scopes = [scope[-1] for scope in scopes_of(names, [{}] * 5, set())]
    assert [(scope.path, scope.call) for scope in scopes] == [("act", 0), ("fc", 0), ("fc", 0), ("act", 1), ("act", 1)]


def test_classes_and_calls_from_metadata() -> None:
    metadata = {
        "pkg.torch.onnx.name_scopes": "['', 'fc', 'act@1', 'relu']",
        "pkg.torch.onnx.class_hierarchy": "['m.Net', 'torch.nn.Linear', 'm.Act', 'aten.relu.default']",
    }
    assert scopes_of(["n"], [metadata], set()) == [(Scope("fc", "Linear", 0), Scope("act", "Act", 1))]


@pytest.mark.parametrize("text", ["__import__('os')", "[", "3", "[1, 2"])
def test_damaged_metadata_is_no_module(text: str) -> None:
    assert scopes_of(["n"], [{"pkg.torch.onnx.name_scopes": text}], set()) == [()]
