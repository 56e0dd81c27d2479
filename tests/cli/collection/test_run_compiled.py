"""``msprobe run`` on scripts that compile their model, or something around it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from msprobe.adapters.pytorch.compile.recompilation import supported
from tests.cli.collection.test_run import attached, names

pytestmark = [
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.skipif(not supported(), reason="this torch has no operators with an ordered effect"),
]

SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)

class Wrapper(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)

Wrapper.__name__ = "DistributedDataParallel"
model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
called = {called}
for step in range(3):
    optimizer.zero_grad()
    called(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""
EAGER = 'torch.compile(model, backend="eager")'
OF_FUNCTION = 'torch.compile(lambda x: model(x), backend="eager")'


def prepared(folder: Path, called: str) -> None:
    (folder / "train.py").write_text(SCRIPT.format(called=called))
    (folder / "c.json").write_text('{"dump_path": "dump", "level": "L0"}')


def expected(first: str, second: str) -> set[str]:
    return {f"Module.{name}.{way}.0" for name in (first, second) for way in ("forward", "backward")}


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize(
    "called",
    [
        EAGER,
        'torch.compile(model, backend="aot_eager")',
        f"Wrapper({EAGER})",
        'torch.compile(Wrapper(model), backend="eager")',
        'model.compile(backend="eager") or model',
    ],
    ids=["eager", "aot_eager", "wrapped_after", "wrapped_before", "in_place"],
)
def test_a_compiled_model_is_looked_through_in_every_step(tmp_path: Path, called: str) -> None:
    prepared(tmp_path, called)
    result = attached(tmp_path, "train.py")
    assert result.returncode == 0, result.stderr
    for step in range(3):
        assert expected("0.Linear", "1.1.Linear") <= set(names(tmp_path, step)), result.stdout


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("name", ["Sequential", "torch.nn.modules.container.Sequential"], ids=["short", "long"])
def test_a_compiled_model_is_found_by_its_own_name(tmp_path: Path, name: str) -> None:
    prepared(tmp_path, EAGER)
    assert attached(tmp_path, "train.py", model=name).returncode == 0
    assert expected("0.Linear", "1.1.Linear") <= set(names(tmp_path, 2))


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize(
    "called",
    [OF_FUNCTION, 'torch.compile(functools.partial(lambda net, x: net(x), model), backend="aot_eager")'],
    ids=["variable", "argument"],
)
def test_a_model_that_is_called_in_a_compiled_function_only(tmp_path: Path, called: str) -> None:
    prepared(tmp_path, called)
    (tmp_path / "train.py").write_text("import functools\n" + (tmp_path / "train.py").read_text())
    result = attached(tmp_path, "train.py")
    assert result.returncode == 0, result.stderr
    for step in range(3):
        assert expected("0.Linear", "1.1.Linear") <= set(names(tmp_path, step)), result.stdout


TRAIN_STEP = """
import torch
from torch import nn

torch.manual_seed(0)

class Trainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 1)))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.step = torch.compile(self.train_step, backend="eager")

    def loss(self, x):
        return self.net(x).sum()

    def train_step(self, x):
        self.optimizer.zero_grad()
        loss = self.loss(x)
        loss.backward()
        self.optimizer.step()
        return loss

trainer = Trainer()
print("losses", *(trainer.step(torch.ones(2, 4)).item() for _ in range(3)))
"""


@pytest.mark.matrix("wide")
def test_a_whole_training_step_that_is_compiled(tmp_path: Path) -> None:
    prepared(tmp_path, "")
    (tmp_path / "train.py").write_text(TRAIN_STEP)
    result = attached(tmp_path, "train.py")
    assert result.returncode == 0, result.stderr
    for step in range(3):
        assert expected("0.Linear", "1.1.Linear") <= set(names(tmp_path, step)), result.stdout
    assert not (tmp_path / "dump/step3").exists()
    alone = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert alone.stdout.strip() in result.stdout


def test_a_model_that_no_name_leads_to_is_told(tmp_path: Path) -> None:
    prepared(tmp_path, "torch.compile(lambda x: holder[0](x), backend='eager')")
    script = (tmp_path / "train.py").read_text().replace("called =", "holder = [model]\ncalled =")
    (tmp_path / "train.py").write_text(script)
    result = attached(tmp_path, "train.py")
    assert result.returncode == 0
    assert "compiled code ran, and names no model where msprobe looks: compile the model itself" in result.stderr
    assert not (tmp_path / "dump").exists()


def test_a_variable_that_cannot_be_looked_at_stops_nothing(tmp_path: Path) -> None:
    prepared(tmp_path, 'torch.compile(lambda x: proxy if x is None else model(x), backend="eager")')
    script = (tmp_path / "train.py").read_text()
    proxy = """
class Proxy:
    @property
    def __class__(self):
        raise RuntimeError("out of context")

proxy = Proxy()
"""
    (tmp_path / "train.py").write_text(script.replace("model = nn", f"{proxy}\nmodel = nn", 1))
    result = attached(tmp_path, "train.py")
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stdout + result.stderr
