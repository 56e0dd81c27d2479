"""Paths and names with blanks and any character: recorded, read back and compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe.pytorch import PrecisionDebugger
from tests.adapters.recorded import Recorded, read
from tests.fresh_debugger import forget

pytestmark = pytest.mark.torch

NAMES = {
    "blanks": " two  blanks ",
    "latin": "Größe ñ",
    "chinese": "数据 模型",
    "right-to-left": "عربي",
    "beyond 16 bits": "🎉",
    "combining": "e\u0301",
    "shell": "a'b\"c $HOME;&|*?",
    "dash": "-rf",
}
LAYER = "Module.层 1.Linear"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.add_module("层 1", nn.Linear(4, 4))
        self.add_module("größe/2", nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for module in self.children():
            x = module(x)
        return x


def collected(folder: Path, factor: float) -> Recorded:
    folder.mkdir(parents=True)
    file = folder / "конфиг с пробелом.json"
    file.write_text(json.dumps({"task": "tensor", "level": "mix", "dump_path": str(folder / "dump é")}))
    forget()
    torch.manual_seed(0)
    model = Net()
    with PrecisionDebugger(str(file)).collect(model):
        (model(torch.ones(2, 4) * factor)).sum().backward()
    forget()
    return read(folder / "dump é" / "step0")


def compared(runs: list[Recorded], output: Path) -> str:
    good, bad = (str(run.folder.parent.parent) for run in runs)
    command = [sys.executable, "-m", "msprobe", "compare", "-tp", bad, "-gp", good, "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (table,) = output.glob("*.csv")
    return table.read_text("utf-8-sig")


@pytest.mark.matrix("wide", sample=3)
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_such_a_dump_is_whole_and_compares(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [collected(tmp_path / name / kind, factor) for kind, factor in (("good", 1.0), ("bad run", 2.0))]
    for recorded in runs:
        assert {f"{LAYER}.forward.0", f"{LAYER}.backward.0", f"{LAYER}.parameters_grad.0"} <= set(recorded.names())
        places = [node["data_name"] for node in recorded.data[f"{LAYER}.forward.0"]["parameters"].values()]
        assert [recorded.tensor(place).shape for place in places] == [(4, 4), (4,)]
        assert len([file for file in recorded.files() if "größe_2.ReLU" in file]) == 4
    said = capsys.readouterr().out
    assert "[WARNING]" not in said
    assert "[ERROR]" not in said
    assert f"{LAYER}.forward.0" in compared(runs, tmp_path / name / "результат 1")
