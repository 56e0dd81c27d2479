"""Models for the tests of model files: one of PyTorch, exported by both exporters and recorded, and small graphs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests import forked
from tests.rules.tree import ROOT

INPUTS = {"ids": np.arange(6).reshape(2, 3), "mask": np.ones((2, 3), np.float32)}
EXPORTERS = ("legacy", "dynamo")
PROGRAM = """
import sys, warnings
warnings.filterwarnings("ignore")
import torch
from torch import nn
from msprobe.pytorch import PrecisionDebugger

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.fc1, self.act = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU()
        self.fc2, self.drop = nn.Linear(4 * width, width), nn.Dropout(0.5)
    def forward(self, x):
        return x + self.drop(self.fc2(self.act(self.fc1(self.norm(x)))))

class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.emb = nn.Embedding(11, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.head = nn.Linear(width, 11)
    def forward(self, ids, mask):
        return self.head(self.blocks(self.emb(ids) * mask.unsqueeze(-1))).softmax(-1)

torch.manual_seed(0)
model, inputs = Net().eval(), (torch.arange(6).reshape(2, 3), torch.ones(2, 3))
names = ["ids", "mask"]
axes = {"ids": {0: "rows"}, "mask": {0: "rows"}}
torch.onnx.export(model, inputs, "legacy.onnx", dynamo=False, input_names=names, dynamic_axes=axes)
torch.onnx.export(model, inputs, "dynamo.onnx", dynamo=True, input_names=names, verbose=False, external_data=False)
debugger = PrecisionDebugger(dump_path="run", level="mix", task=sys.argv[1])
with torch.no_grad():
    debugger.start(model=model)
    model(*inputs)
    debugger.stop()
    debugger.step()
"""


def export(folder: Path, task: str) -> None:
    """Write legacy.onnx, dynamo.onnx, the dump ``run`` of the program, and its inputs."""
    for name, array in INPUTS.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "program.py").write_text(PROGRAM)
    environment = {"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(folder)}
    subprocess.run([forked.python(), "program.py", task], cwd=folder, env=environment, check=True, capture_output=True)


def input_files(folder: Path) -> tuple[Path, ...]:
    """Return the files of the inputs."""
    return tuple(folder / f"{name}.npy" for name in INPUTS)


def save(folder: Path, nodes: list[Any], weights: dict[str, Any], **options: Any) -> Path:
    """Write a model from ``x``, floats of shape [n, 4], to ``y``."""
    path = folder / "model.onnx"
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, path, **options)
    return path


def planted(path: Path, to: Path, op: str, place: int, change: Any) -> str:
    """Write a copy of a model in which ``change(model, node)`` has been called for one node; return the node's name."""
    model = onnx.load(path)
    node = [node for node in model.graph.node if node.op_type == op][place]
    change(model, node)
    onnx.save(model, to)
    return str(node.name)


def other_attribute(name: str, value: Any) -> Any:
    """Return the change of an attribute."""

    def change(_: Any, node: Any) -> None:
        kept = [each for each in node.attribute if each.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(name, value)])

    return change


def other_weight(model: Any, node: Any) -> None:
    """Change the first row of the second input of a node by a hundredth."""
    tensor = next(each for each in model.graph.initializer if each.name == node.input[1])
    array = numpy_helper.to_array(tensor).copy()
    array[0] *= 1.01
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
