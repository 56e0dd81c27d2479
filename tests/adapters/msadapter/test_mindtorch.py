"""Over a real MSAdapter: mindtorch of mindnlp 0.5.1, which needs MindSpore 2.7 (see docs/developing/testing.md)."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.rules.tree import ROOT

pytestmark = [
    pytest.mark.mindspore,
    pytest.mark.skipif(importlib.util.find_spec("mindtorch") is None, reason="mindtorch is not installed"),
]

PROGRAM = """
import contextlib, sys, mindtorch
import {package} as torch, {package}.nn as nn, {package}.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.fc, self.norm = nn.Embedding(5, 4), nn.Linear(4, 3), nn.LayerNorm(3)

    def forward(self, tokens):
        return torch.exp(F.gelu(self.norm(self.fc(self.embedding(tokens)))))

net, tokens = Net(), torch.tensor([1, 2, 3])
train = torch.autograd.value_and_grad(lambda x: net(x).sum(), list(net.parameters()))

optimizer = torch.optim.SGD(net.parameters(), lr=0.5)

def gradients():
    for parameter in net.parameters():
        parameter.grad = None
    train(tokens)
    return [parameter.grad.asnumpy().tobytes() for parameter in net.parameters()]

plain = gradients()
from msprobe.pytorch import PrecisionDebugger
with PrecisionDebugger({{"dump_path": sys.argv[1], "level": "mix", "task": sys.argv[2]}}).collect(net):
    recorded = gradients()
    with contextlib.suppress(RuntimeError):  # mindtorch has no kernel for it on a CPU
        optimizer.step()
assert recorded == plain
"""
NAMES = [
    *("Functional.embedding.0.forward", "Module.embedding.Embedding.forward.0", "Functional.linear.0.forward"),
    *("Module.fc.Linear.forward.0", "Functional.layer_norm.0.forward", "Module.norm.LayerNorm.forward.0"),
    *("Functional.gelu.0.forward", "Torch.exp.0.forward", "Tensor.sum.0.forward", "Tensor.sum.0.backward"),
    *("Torch.exp.0.backward", "Functional.gelu.0.backward", "Functional.layer_norm.0.backward"),
    *("Module.norm.LayerNorm.backward.0", "Module.norm.LayerNorm.parameters_grad.0", "Functional.linear.0.backward"),
    *("Module.fc.Linear.backward.0", "Module.fc.Linear.parameters_grad.0", "Functional.embedding.0.backward"),
    *("Module.embedding.Embedding.backward.0", "Module.embedding.Embedding.parameters_grad.0"),
]


PARAMETERS = ["embedding.weight", "fc.weight", "fc.bias", "norm.weight", "norm.bias"]


def recorded(folder: Path, package: str, task: str = "statistics") -> tuple[dict[str, Any], str]:
    command = [sys.executable, "-c", PROGRAM.format(package=package), str(folder), task]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    return json.loads(next(folder.rglob("dump.json")).read_text("utf-8")), result.stderr


@pytest.mark.parametrize("package", ["torch", "mindtorch"])
def test_the_records_of_a_step_by_either_name(tmp_path: Path, package: str) -> None:
    dump, log = recorded(tmp_path, package)
    assert dump["framework"] == "mindtorch"
    assert list(dump["data"]) == NAMES
    gradients = dump["data"]["Module.fc.Linear.parameters_grad.0"]
    assert {key: (node[0]["dtype"], node[0]["shape"]) for key, node in gradients.items()} == {
        "weight": ("Float32", [3, 4]),
        "bias": ("Float32", [3]),
    }
    assert "[ERROR]" not in log
    ((group,),) = (item["groups"] for item in dump["optimizers"])
    assert group["lr"] == 0.5
    assert group["parameters"] == PARAMETERS


def test_task_tensor_writes_the_gradients(tmp_path: Path) -> None:
    recorded(tmp_path, "torch", "tensor")
    files = {path.name for path in tmp_path.rglob("*.npy")}
    assert {"Module.fc.Linear.parameters_grad.0.weight.npy", "Torch.exp.0.backward.input.0.npy"} <= files
