"""A program of several files, one of which makes no recorded call: its lines are known, and named where they differ."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

import msprobe
from tests.fresh_debugger import forget
from tests.recordings import Recordings

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

FILES = {
    "batches_of_test.py": """
import torch


def batch(step):
    rows = [[float(step + row + column) for column in range(6)] for row in range(5)]
    return torch.tensor(rows) / 7.0
""",
    "network_of_test.py": """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.drop, self.down = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 1)

    def forward(self, x):
        h = self.up(x)
        h = torch.tanh(h)
        return self.down(self.drop(h))


def build():
    torch.manual_seed(0)
    net = Net()
    net.eval()
    return net
""",
    "train.py": """
import torch
from batches_of_test import batch
from network_of_test import build
from msprobe.pytorch import PrecisionDebugger


def main(folder):
    net = build()
    debugger = PrecisionDebugger({"dump_path": folder, "level": "mix", "task": "statistics"})
    with debugger.collect(net):
        net(batch(0)).square().mean().backward()
""",
}
FAULTS = {
    "data": ("batches_of_test.py", "/ 7.0", "/ 9.0"),
    "mode": ("network_of_test.py", "    net.eval()\n", ""),
    "call": ("network_of_test.py", "        h = torch.tanh(h)\n", ""),
}


def record(folder: Path, fault: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items():
        file, old, new = FAULTS.get(fault, ("", "", ""))
        assert name != file or text.count(old) == 1
        (folder / name).write_text(text.replace(old, new) if name == file else text, encoding="utf-8")
    forget()
    sys.path.insert(0, str(folder))
    try:
        runpy.run_path(str(folder / "train.py"))["main"](str(folder / "dump"))
    finally:
        sys.path.remove(str(folder))
        for name in FILES:
            sys.modules.pop(name.removesuffix(".py"), None)
    forget()


def test_the_files_that_make_the_data_are_kept(recordings: Recordings) -> None:
    (document,) = (recordings(record) / "dump").rglob("source.json")
    kept = {Path(path).name for path in json.loads(document.read_text(encoding="utf-8"))}
    assert kept >= {"batches_of_test.py", "network_of_test.py"}
    assert not any("msprobe/core" in path for path in json.loads(document.read_text(encoding="utf-8")))


@pytest.mark.parametrize(("fault", "line"), [("data", "/ 9.0"), ("mode", "return net"), ("call", "self.drop(h)")])
def test_a_line_in_any_file_is_named(recordings: Recordings, fault: str, line: str) -> None:
    first = msprobe.compare(recordings(record, fault) / "dump", recordings(record) / "dump").summary.first_divergence
    assert first is not None
    places = [call.source for call in first.calls if call.run != "golden run"]
    assert any(FAULTS[fault][0] in place and line in place for place in places), (first.calls, first.reason)
