"""One config.json, one network in three frameworks, one set of weights: the dumps agree entry by entry."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.core.store.reader import Dump, find_dumps, load_dump
from msprobe.report.comparison import compare
from tests.rules.tree import ROOT

pytestmark = [pytest.mark.torch, pytest.mark.mindspore]

CONFIG = {
    "task": "statistics",
    "dump_path": "./dump",
    "rank": [],
    "step": [0],
    "level": "mix",
    "statistics": {"scope": [], "list": [], "tensor_list": ["relu"], "data_mode": ["all"]},
}
NETWORK = """
class Net({module}):
    def __init__(self):
        super().__init__()
        self.fc1, self.act, self.fc2 = {ops}.nn.Linear(4, 8), {ops}.nn.ReLU(), {ops}.nn.Linear(8, 2)
    def {forward}(self, x):
        return {ops}.exp(self.fc2(self.act(self.fc1(x))))
"""
TRAINING = """
import numpy as np
values = np.load("values.npz")
net = Net()
{weights}
debugger = PrecisionDebugger("config.json")
for _ in range(2):
    debugger.start(net)
    work(x)
    debugger.stop()
    debugger.step()
"""


def program(imports: str, weights: str, module: str, ops: str, forward: str = "forward") -> str:
    """``weights`` gives the network its weights and defines ``x`` and ``work(x)``, its forward and backward pass."""
    return imports + NETWORK.format(module=module, ops=ops, forward=forward) + TRAINING.format(weights=weights)


PYTORCH = program(
    """
import torch
from msprobe.pytorch import PrecisionDebugger
""",
    """
with torch.no_grad():
    for name, parameter in net.named_parameters():
        parameter.copy_(torch.from_numpy(values[name]))
x = torch.from_numpy(values["x"]).requires_grad_()
work = lambda x: torch.sum(net(x)).backward()
""",
    module="torch.nn.Module",
    ops="torch",
)
MINDSPORE = program(
    """
import mindspore
from mindspore import mint
from msprobe.mindspore import PrecisionDebugger
""",
    """
for name, parameter in net.parameters_and_names():
    parameter.set_data(mindspore.Tensor(values[name]))
x = mindspore.Tensor(values["x"])
work = mindspore.value_and_grad(lambda x: mint.sum(net(x)), 0, net.trainable_params())
""",
    module="mindspore.nn.Cell",
    ops="mint",
    forward="construct",
)
MSADAPTER = program(
    """
from tests.msadapter_stand_in import install
install()
import mindspore
import torch
from msprobe.pytorch import PrecisionDebugger
""",
    """
for layer in ("fc1", "fc2"):
    for name, parameter in getattr(net, layer)._parameters.items():
        parameter.set_data(mindspore.Tensor(values[f"{layer}.{name}"]))
x = mindspore.Tensor(values["x"])
work = mindspore.value_and_grad(lambda x: torch.sum(net(x)), 0, list(net.parameters()))
""",
    module="torch.nn.Module",
    ops="torch",
)
PREFIXES = {"Cell": "Module", "Mint": "Torch", "MintFunctional": "Functional"}
OPERATORS = {"Primitive.dense.Dense": "Functional.linear", "Primitive.relu.ReLU": "Functional.relu"}
"""What MindSpore's cells call where PyTorch's modules call a function."""
NUMBERS = ("Max", "Min", "Mean", "Norm")


def as_in_pytorch(name: str) -> str:
    for theirs, ours in OPERATORS.items():
        name = name.replace(theirs, ours)
    prefix, _, rest = name.partition(".")
    return f"{PREFIXES.get(prefix, prefix)}.{rest}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    draw = np.random.default_rng(7).normal
    shapes = {"x": (3, 4), "fc1.weight": (8, 4), "fc1.bias": (8,), "fc2.weight": (2, 8), "fc2.bias": (2,)}
    values = {name: draw(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}

    def collect(program: str) -> Path:
        folder = tmp_path_factory.mktemp("same")
        np.savez(folder / "values.npz", **values)
        (folder / "config.json").write_text(json.dumps(CONFIG))
        (folder / "train.py").write_text(program)
        command = [sys.executable, "train.py"]
        environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
        result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return folder / "dump"

    return collect


@pytest.fixture(scope="module")
def of_pytorch(run: Callable[[str], Path]) -> Dump:
    return only_dump(run(PYTORCH))


def only_dump(folder: Path) -> Dump:
    (place,) = find_dumps(folder)
    return load_dump(place)


def tensors(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict) and "shape" in node:
        yield path, node
    elif isinstance(node, (dict, list)):
        parts = node.items() if isinstance(node, dict) else enumerate(node)
        for key, part in parts:
            yield from tensors(part, f"{path}.{key}")


@pytest.mark.parametrize(
    ("program", "framework"),
    [pytest.param(MINDSPORE, "mindspore", id="mindspore"), pytest.param(MSADAPTER, "mindtorch", id="msadapter")],
)
def test_entries_shapes_and_statistics_agree(
    run: Callable[[str], Path], of_pytorch: Dump, program: str, framework: str
) -> None:
    folder = run(program)
    dump = only_dump(folder)
    assert (of_pytorch.framework, dump.framework, dump.level) == ("pytorch", framework, "mix")
    data = {as_in_pytorch(name): entry for name, entry in dump.data.items()}
    assert set(data) == set(of_pytorch.data)
    compared = 0
    for name, expected in of_pytorch.data.items():
        found = dict(tensors(data[name]))
        for path, node in tensors(expected):
            assert list(found[path]["shape"]) == list(node["shape"]), (name, path)
            for number in NUMBERS:
                assert math.isclose(found[path][number], node[number], rel_tol=1e-5, abs_tol=1e-6), (name, path, number)
            compared += 1
    assert compared >= 40
    parents = {as_in_pytorch(name): parent and as_in_pytorch(parent) for name, parent in dump.construct.items()}
    assert parents == {name: parent for name, parent in of_pytorch.construct.items() if name in parents}
    assert len(parents) == 16
    assert sorted(path.name for path in folder.rglob("*relu*.npy"))


def test_a_dump_of_msadapter_compares_with_one_of_pytorch(run: Callable[[str], Path], of_pytorch: Dump) -> None:
    """Numbers differ in the last digits only, dtypes in their spelling only."""
    summary = compare(only_dump(run(MSADAPTER)).place.document, of_pytorch.place.document).summary
    assert (summary.verdict, summary.first_divergence) == ("same", None)
