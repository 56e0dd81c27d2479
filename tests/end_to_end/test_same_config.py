"""One config.json, one network in three frameworks, one set of weights: the dumps agree entry by entry."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.core.store.reader import Dump, find_dumps, load_dump
from msprobe.core.store.tensor_reader import read_tensor
from msprobe.jobs.compare import compare
from tests import forked
from tests.rules.tree import ROOT

pytestmark = [pytest.mark.torch, pytest.mark.mindspore]

ALL = {"scope": [], "list": [], "data_mode": ["all"]}


def config(level: str, task: str, **section: Any) -> dict[str, Any]:
    return {"task": task, "rank": [], "step": [0], "level": level, task: {**ALL, **section}}


CONFIGS = {
    "mix-statistics": config("mix", "statistics", tensor_list=["relu"]),
    "mix-tensor-md5": config("mix", "tensor", summary_mode="md5"),
    "L0-statistics": config("L0", "statistics"),
    "L0-statistics-md5": config("L0", "statistics", summary_mode="md5"),
    "L0-tensor": config("L0", "tensor"),
    "L0-list": config("L0", "statistics", summary_mode=["max", "l2norm"]),
    "L1-tensor-xor": config("L1", "tensor", summary_mode="xor"),
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
import json, sys
import numpy as np
values = np.load("values.npz")
for config in sys.argv[1:]:
    net = Net()
    {weights}
    PrecisionDebugger._instance = None
    debugger = PrecisionDebugger(config, dump_path="dump/" + config.removesuffix(".json"))
    for _ in range(2):
        debugger.start(net)
        work(x)
        debugger.stop()
        debugger.step()
"""


def program(imports: str, weights: str, module: str, ops: str, forward: str = "forward") -> str:
    """``weights`` gives the network its weights and defines ``x`` and ``work(x)``, its forward and backward pass."""
    training = TRAINING.format(weights=weights.strip().replace("\n", "\n    "))
    return imports + NETWORK.format(module=module, ops=ops, forward=forward) + training


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
def loss(x):
    return mint.sum(net(x))
work = mindspore.value_and_grad(loss, 0, net.trainable_params())
""",
    module="mindspore.nn.Cell",
    ops="mint",
    forward="construct",
)
STATIC = MINDSPORE.replace(
    "import mindspore\n", "import mindspore\nmindspore.set_context(mode=mindspore.GRAPH_MODE)\n", 1
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
NUMBERS = {"Max", "Min", "Mean", "Norm"}


def as_in_pytorch(name: str) -> str:
    for theirs, ours in OPERATORS.items():
        name = name.replace(theirs, ours)
    prefix, _, rest = name.partition(".")
    return f"{PREFIXES.get(prefix, prefix)}.{rest}"


PROGRAMS = {"pytorch": PYTORCH, "mindspore": MINDSPORE, "static": STATIC, "msadapter": MSADAPTER}
CASES = [
    pytest.param(framework, name, id=f"{framework}-{name}")
    for framework in ("mindspore", "msadapter", "static")
    for name in CONFIGS
    if framework != "static" or name.startswith("L0")  # the compiler leaves no calls of functions to record
]


class Runs:
    """Run each program when its result is first needed, once with every configuration."""

    def __init__(self, root: Path) -> None:
        draw = np.random.default_rng(7).normal
        shapes = {"x": (3, 4), "fc1.weight": (8, 4), "fc1.bias": (8,), "fc2.weight": (2, 8), "fc2.bias": (2,)}
        self._values = {name: draw(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
        self._root = root
        self._folders: dict[str, Path] = {}

    def folder(self, framework: str, name: str) -> Path:
        if framework not in self._folders:
            self._folders[framework] = self._run(framework)
        return self._folders[framework] / name

    def dump(self, framework: str, name: str) -> Dump:
        (place,) = find_dumps(self.folder(framework, name))
        return load_dump(place)

    def _run(self, framework: str) -> Path:
        folder = self._root / framework
        folder.mkdir(exist_ok=True)
        np.savez(folder / "values.npz", **self._values)
        chosen = [name for name in CONFIGS if framework != "static" or name.startswith("L0")]
        for name in chosen:
            (folder / f"{name}.json").write_text(json.dumps(CONFIGS[name]))
        (folder / "train.py").write_text(PROGRAMS[framework])
        words = ["train.py", *(f"{name}.json" for name in chosen)]
        environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
        preloaded = forked.TORCH if framework == "pytorch" else forked.MINDSPORE
        result = forked.run(words, cwd=folder, env=environment, preloaded=preloaded)
        assert result.returncode == 0, (result.stdout[-3000:] + result.stderr).decode()
        return folder / "dump"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("same"))


def tensors(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict) and "shape" in node:
        yield path, node
    elif isinstance(node, (dict, list)):
        parts = node.items() if isinstance(node, dict) else enumerate(node)
        for key, part in parts:
            yield from tensors(part, f"{path}.{key}")


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize(("framework", "name"), CASES)
def test_entries_shapes_and_values_agree(runs: Runs, framework: str, name: str) -> None:
    expected, dump = runs.dump("pytorch", name), runs.dump(framework, name)
    written = {"static": "mindspore", "msadapter": "mindtorch"}.get(framework, framework)
    assert (expected.framework, dump.framework, dump.level) == ("pytorch", written, CONFIGS[name]["level"])
    data = {as_in_pytorch(entry): body for entry, body in dump.data.items()}
    assert set(data) == set(expected.data)
    compared = 0
    for entry, body in expected.data.items():
        found = dict(tensors(data[entry]))
        for path, node in tensors(body):
            assert_alike(found[path], node, f"{entry} {path}")
            assert_files_alike(dump, found[path], expected, node)
            compared += 1
    assert compared >= {"L0": 20, "L1": 20, "mix": 40}[name.split("-")[0]]
    parents = {as_in_pytorch(entry): parent and as_in_pytorch(parent) for entry, parent in dump.construct.items()}
    assert parents == {entry: parent for entry, parent in expected.construct.items() if entry in parents}
    assert len(parents) == {"L0": 6, "mix": 16, "L1": 0}[name.split("-")[0]]


def assert_alike(ours: dict[str, Any], theirs: dict[str, Any], where: str) -> None:
    """The same fields with the same shape and nearly the same numbers; files and checksums are looked at elsewhere."""
    only = {"requires_grad", "data_name"}  # the first is PyTorch's, the second is a name in each framework's spelling
    assert ours.keys() - only == theirs.keys() - only, where
    assert list(ours["shape"]) == list(theirs["shape"]), where
    for number in NUMBERS & theirs.keys():
        assert math.isclose(ours[number], theirs[number], rel_tol=1e-5, abs_tol=1e-6), (where, number)


def assert_files_alike(ours: Dump, node: dict[str, Any], theirs: Dump, other: dict[str, Any]) -> None:
    """Both sides or none have a file; checksums of the same bytes are the same."""
    assert ("data_name" in node) == ("data_name" in other)
    if "data_name" in node:
        here, there = array(ours, node["data_name"]), array(theirs, other["data_name"])
        np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-6)
        if "md5" in node:
            assert (node["md5"] == other["md5"]) == (here.tobytes() == there.tobytes())


def array(dump: Dump, name: str) -> Any:
    return read_tensor(dump.place.document.parent / "dump_tensor_data" / name)


@pytest.mark.parametrize("framework", ["mindspore", "msadapter", "static"])
def test_checksums_of_what_is_given_are_the_same(runs: Runs, framework: str) -> None:
    """Weights and the input have the same bits everywhere, whoever counts them."""
    name = "L0-statistics-md5"
    data = {as_in_pytorch(entry): body for entry, body in runs.dump(framework, name).data.items()}
    for module in ("Module.fc1.Linear", "Module.fc2.Linear"):
        body, expected = data[f"{module}.forward.0"], runs.dump("pytorch", name).data[f"{module}.forward.0"]
        assert {key: node["md5"] for key, node in body["parameters"].items()} == {
            key: node["md5"] for key, node in expected["parameters"].items()
        }
    first = [
        dump["Module.fc1.Linear.forward.0"]["input_args"][0]["md5"] for dump in (data, runs.dump("pytorch", name).data)
    ]
    assert first[0] == first[1]


@pytest.mark.parametrize("framework", ["mindspore", "msadapter"])
def test_listed_tensors_are_kept(runs: Runs, framework: str) -> None:
    assert sorted(path.name for path in runs.folder(framework, "mix-statistics").rglob("*relu*.npy"))


@pytest.mark.parametrize("name", ["mix-statistics", "L0-tensor"])
def test_a_dump_of_msadapter_compares_with_one_of_pytorch(runs: Runs, name: str) -> None:
    """Numbers differ in the last digits only, dtypes in their spelling only."""
    ours, theirs = (runs.dump(framework, name).place.document for framework in ("msadapter", "pytorch"))
    summary = compare(ours, theirs).summary
    assert (summary.verdict, summary.first_divergence) == ("same", None)
