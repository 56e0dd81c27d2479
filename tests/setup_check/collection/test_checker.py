"""``ConfigChecker`` in real trainings: what it collects, that it disturbs nothing, and what two set-ups differ in."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.errors import MsprobeException
from msprobe.setup_check.collection.checker import ConfigChecker
from msprobe.setup_check.comparison import compare_documents
from msprobe.setup_check.pack import read_pack
from tests import forked
from tests.ranks import run_ranks
from tests.rules.tree import ROOT

pytestmark = pytest.mark.torch


def collect(path: Path, variant: str) -> str:
    process = forked.start(["-m", "tests.setup_check.collection.collect", str(path), variant], cwd=ROOT)
    output = process.communicate(timeout=120)[0].decode()
    assert process.returncode == 0, output
    return next(line for line in output.splitlines() if line.startswith("gradients:"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("setup") / "base.zip"
    collect(path, "base")
    return path


def test_what_is_collected(base: Path) -> None:
    document = read_pack(base)
    assert [(one.step, one.rank) for one in document.weights] == [(0, 0), (1, 0), (2, 0)]
    assert set(document.data[0].tensors) == {"args.0", "kwargs.mask", "kwargs.more.ids.0"}
    assert document.data[0].others == ["kwargs.scale"]
    assert set(document.weights[0].tensors) == {
        *(f"{layer}.{part}" for layer in ("first", "norm", "last") for part in ("weight", "bias")),
        "count",
    }
    calls = {call.function: call for call in document.random[0].calls}
    assert {"torch.manual_seed", "random.seed", "np.random.seed", "torch.randn"} <= set(calls)
    assert calls["torch.randn"].count == 1
    assert "x = torch.randn(5, 4)" in calls["torch.randn"].stack[0]
    assert document.framework["deterministic algorithms"] is False
    assert document.framework["seed"] == 1
    assert document.hyperparameters["arguments"] == {"lr": 0.1}


def test_gradients_stay_as_they_are(tmp_path: Path, base: Path) -> None:
    assert collect(tmp_path / "a.zip", "base") == collect(tmp_path / "off.zip", "off")
    assert not (tmp_path / "off.zip").exists()


LEVELS = {
    "base": {},
    "permuted": {"weights": "error"},
    "neighbours": {"weights": "warning"},
    "extra": {"weights": "error", "dataset": "error", "random": "error"},
    "data": {"weights": "error", "dataset": "error"},
    "draws": {"random": "error"},
}


@pytest.mark.parametrize("variant", LEVELS)
def test_differences(base: Path, tmp_path: Path, variant: str) -> None:
    collect(tmp_path / "other.zip", variant)
    comparison = compare_documents(read_pack(base), read_pack(tmp_path / "other.zip"))
    found = {section.name: section.level for section in comparison.sections if section.level != "pass"}
    found.pop("hyperparameters", None)  # the command line names the variant
    assert found == LEVELS[variant]


def test_ranks_write_one_file(tmp_path: Path) -> None:
    for _ in range(2):  # a second run replaces the first
        store = tmp_path / "store"
        store.unlink(missing_ok=True)
        run_ranks("tests.setup_check.collection.collect", 2, lambda rank: [tmp_path / "a.zip", "base", rank, 2, store])  # noqa: B023
        document = read_pack(tmp_path / "a.zip")
        assert sorted((one.step, one.rank) for one in document.weights) == [(s, r) for s in range(3) for r in (0, 1)]
        assert [one.rank for one in document.random] == [0, 1]


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert collect(tmp_path / "file" / "a.zip", "base") == collect(tmp_path / "b.zip", "base")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fmk": "jax"}, "fmk is one of pytorch, mindspore"),
        ({"output_zip_path": "a.tar"}, "give a name that ends in .zip"),
        ({"shell_path": "absent.sh"}, "absent.sh: cannot be read"),
        ({"steps": 0}, "steps is a number of forward passes"),
        ({"model": "x"}, "model is a model, or a list of its chunks, got 'x'"),
        ({"shell_path": 5}, "shell_path is a script or a list of scripts, got 5"),
        ({"arguments": 5}, "arguments holds no settings"),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else "",
)
def test_wrong_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MsprobeException, match=re.escape(message)):
        ConfigChecker(**arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_training_leaves_its_set_up(tmp_path: Path) -> None:
    code = (
        "import os, torch; from msprobe.core.config_check import ConfigChecker; m = torch.nn.Linear(2, 2);"
        f"ConfigChecker(m, output_zip_path={str(tmp_path / 'a.zip')!r});"
        "[m(torch.ones(1, 2)) for _ in range(5)]; os._exit(9)"
    )
    assert subprocess.run([forked.python(), "-c", code], cwd=ROOT).returncode == 9
    assert [one.step for one in read_pack(tmp_path / "a.zip").weights] == [0, 1, 2, 3]


TWICE = """\
import random, torch
from msprobe.core.config_check import ConfigChecker
ConfigChecker.apply_patches()
random.random()
first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
ConfigChecker(first, output_zip_path="a.zip")
first(torch.ones(1, 2))
ConfigChecker(second, output_zip_path="a.zip", arguments={"lr": 1})
for _ in range(3):
    second(first(torch.ones(1, 2)))
"""


def test_a_second_checker_takes_the_place_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TWICE)
    process = forked.run(["train.py"], cwd=tmp_path)
    assert (process.stdout + process.stderr).count(b"takes the place of the first") == 1
    document = read_pack(tmp_path / "a.zip")
    assert [(one.step, len(one.tensors)) for one in document.weights] == [(0, 2), (1, 2), (2, 2)]
    assert "random.random" in {call.function for call in document.random[0].calls}
    assert document.hyperparameters["arguments"] == {"lr": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "train.py"]


UNWRITABLE = """\
import torch
from msprobe.core.config_check import ConfigChecker
model = torch.nn.Linear(2, 2)
ConfigChecker(model, output_zip_path="file/a.zip")
for _ in range(9):
    model(torch.ones(1, 2))
"""


def test_one_reason_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(UNWRITABLE)
    (tmp_path / "file").write_text("")
    process = forked.run(["train.py"], cwd=tmp_path)
    assert (process.returncode, (process.stdout + process.stderr).count(b"is not written")) == (0, 1)


ODD = """\
import sys, os, torch, warnings
from torch import nn
from msprobe.core.config_check import ConfigChecker
warnings.simplefilter("ignore")

class Odd(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise RuntimeError("a tensor that nobody can read")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("meta", torch.empty(2, device="meta"))
        self.register_buffer("empty", torch.empty(0))
        self.register_buffer("complex", torch.ones(2, dtype=torch.complex64))
        self.register_buffer("float8", torch.ones(2).to(torch.float8_e4m3fn))
    def forward(self, x, odd=None, **more):
        return self.layer(x)

chunks = [Net(), Net()]
if sys.argv[2] == "on":
    ConfigChecker(chunks, output_zip_path=sys.argv[1])
torch.manual_seed(0)
hooks = len(chunks[0]._forward_pre_hooks)
cycle = [1]; cycle.append(cycle)
for _ in range(2):
    y = chunks[1].layer.weight.sum() + chunks[0](torch.randn(2, 3), odd=torch.ones(2).as_subclass(Odd),
        sparse=torch.eye(2).to_sparse(), cycle=cycle, none=None, text="x", strided=torch.ones(4, 4)[::2, ::2].t()).sum()
    y.backward()
child = os.fork()
if child == 0:
    chunks[0](torch.randn(2, 3))
    sys.exit(0)
os.waitpid(child, 0)
print("gradients:", chunks[0].layer.weight.grad.tolist(), torch.rand(1).item())
"""


def test_odd_values_stop_nothing(tmp_path: Path) -> None:
    program, outputs = tmp_path / "odd.py", []
    program.write_text(ODD)
    for switch in ("on", "off"):
        words = [forked.python(), str(program), str(tmp_path / "a.zip"), switch]
        environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        outputs.append([line for line in done.stdout.splitlines() if "config_check:" not in line])
        assert "is not recorded" not in done.stdout
    assert outputs[0] == outputs[1]
    document = read_pack(tmp_path / "a.zip")
    assert [one.step for one in document.weights] == [0, 1]
    weights = document.weights[0].tensors
    assert {"chunk0.layer.weight", "chunk1.layer.weight", "chunk0.complex", "chunk0.float8"} <= set(weights)
    assert weights["chunk0.layer.weight"].content and not weights["chunk0.meta"].content
    assert {"kwargs.strided", "kwargs.sparse", "kwargs.odd", "args.0"} <= set(document.data[0].tensors)
    levels = [row["level"] for row in compare_documents(document, document).sections[-2].rows]
    assert "error" not in levels


def test_a_compiled_model(tmp_path: Path) -> None:
    code = (
        "import torch; from msprobe.core.config_check import ConfigChecker; m = torch.nn.Linear(2, 2);"
        "c = torch.compile(m, backend='eager', fullgraph=True);"
        f"ConfigChecker(c if PLACE else m, output_zip_path={str(tmp_path / 'a.zip')!r});"
        "[c(torch.ones(1, 2)).sum().backward() for _ in range(2)]"
    )
    for place, steps in (("1", [0, 1]), ("0", [])):
        (tmp_path / "a.zip").unlink(missing_ok=True)
        words = [forked.python(), "-c", code.replace("PLACE", place)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        weights = read_pack(tmp_path / "a.zip").weights
        assert [(one.step, list(one.tensors)) for one in weights] == [(step, ["weight", "bias"]) for step in steps]
        assert ("the model never ran where it can be seen" in done.stdout) == (not steps)


@pytest.mark.mindspore
def test_mindspore(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, mindspore as ms, numpy as np\n"
        "from msprobe.core.config_check import ConfigChecker\n"
        "ConfigChecker.apply_patches('mindspore')\n"
        "ms.set_seed(1); np.random.seed(1)\n"
        "net = ms.nn.SequentialCell(ms.nn.Dense(4, 3), ms.nn.Dense(3, 1))\n"
        "ConfigChecker(net, None, sys.argv[1], 'mindspore')\n"
        "for _ in range(2): net(ms.ops.randn(2, 4) * float(sys.argv[2]))\n"
    )
    for name, factor in (("a", 1), ("b", 2)):
        words = [forked.python(), str(program), str(tmp_path / f"{name}.zip"), str(factor)]
        environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(words, check=True, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert "set_context" not in done.stdout + done.stderr
    first, second = (read_pack(tmp_path / f"{name}.zip") for name in "ab")
    assert set(first.weights[0].tensors) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert {"ops.randn", "mindspore.set_seed"} <= {call.function for call in first.random[0].calls}
    levels = {section.name: section.level for section in compare_documents(first, second).sections}
    assert (levels["dataset"], levels["weights"], levels["random"]) == ("error", "pass", "pass")
