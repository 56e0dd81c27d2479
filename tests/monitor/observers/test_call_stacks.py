"""``stack_info``: the lines that call each module."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.monitor.trained import train

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    return tmp_path / "out"


def test_stack_info_names_the_line_that_calls_a_module(output: Path) -> None:
    train({"stack_info": True}, steps=2)
    (file,) = output.glob("*-rank0-*/stack_info.csv")
    rows = list(csv.DictReader(io.StringIO(file.read_text(), newline="")))
    assert {"0:fc1", "0:block.0", "0:"} <= {row["module_name"] for row in rows}
    (first,) = [row["stack_info"] for row in rows if row["module_name"] == "0:fc1"]
    assert "trained.py, line" in first
    assert "self.out(self.block(self.norm(torch.relu(self.fc1(x)))))" in first
