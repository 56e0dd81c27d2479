"""The command on a recorded model: where a value comes from, who uses it, the document, wrong values."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import torch
from torch import nn

from msprobe.cli.main import run
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.recordings import Recordings
from tests.rules.tree import ROOT

pytestmark = pytest.mark.torch
HEAD = "Module.head.Linear.forward.0"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.sub(self.first(x).transpose(0, 1), 0.1)
        hidden.mul_(0.5)
        out: torch.Tensor = self.head(hidden.t()[1:])
        return out


def record(folder: Path, memory: bool = True) -> None:
    forget()
    torch.manual_seed(0)
    model = Net()
    config = {"task": "statistics", "level": "mix", "dump_path": str(folder), "statistics": {"memory": memory}}
    with PrecisionDebugger(config).collect(model):
        model(torch.randn(3, 4)).pow(2).mean().backward()
    forget()


@pytest.fixture
def dump(recordings: Recordings, capsys: pytest.CaptureFixture[str]) -> Path:
    folder = recordings(record)
    capsys.readouterr()  # the lines of the debugger
    return folder


def test_the_way_back_to_parameters_and_data(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trace", str(dump), f"{HEAD}.output.0"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == [f"{HEAD}.output.0 is Functional.linear.1.forward.output.0", "Made by 4 calls:"]
    assert [line for line in lines if line.endswith((".forward", ".Linear"))] == [
        "Functional.linear.1.forward in head.Linear",
        "Tensor.mul_.0.forward",
        "Torch.sub.0.forward",
        "Functional.linear.0.forward in first.Linear",
    ]
    assert "input.0 is Tensor.mul_.0.forward.output.0" in lines
    assert "input.1 is the parameter head.weight" in lines
    assert "input.0 comes from no recorded call" in lines
    assert "hidden.mul_(0.5)" in lines[lines.index("Tensor.mul_.0.forward") + 1]
    assert lines[lines.index("Used by 1 call:") + 1] == "Tensor.pow.0.forward: input.0"


def test_the_uses_of_a_parameter(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trace", str(dump), "Functional.linear.1.forward.input.1"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == ["Functional.linear.1.forward.input.1 is the parameter head.weight", "Made by no recorded call"]
    assert f"{HEAD}: parameters.weight" in lines


def test_a_long_list_is_cut(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trace", str(dump), HEAD, "--calls", "1"]) == 0
    assert "  and 3 more (--calls 0 shows all)" in capsys.readouterr().out.splitlines()


def test_the_document_follows_its_schema(dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out" / "trace.json"
    assert run(["trace", str(dump), HEAD, "--json", str(path)]) == 0
    capsys.readouterr()
    assert run(["trace", str(dump), HEAD, "--json", "-"]) == 0
    assert capsys.readouterr().out.strip() == path.read_text().strip()
    document = json.loads(path.read_text())
    jsonschema.validate(document, json.loads((ROOT / "schemas" / "trace.schema.json").read_text()))
    (history,) = document["values"]
    assert [call["call"] for call in history["definitions"]][-1] == "Functional.linear.0.forward"
    assert {use["value"] for use in history["used_by"]} == {"Tensor.pow.0.forward.input.0"}


def test_a_dump_without_memory_is_told_by_statistics(
    recordings: Recordings, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = recordings(record, False)
    capsys.readouterr()
    assert run(["trace", str(dump), "Torch.sub.0.forward"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0].startswith("The dump does not say which memory tensors lie in")
    assert "input.0 is Functional.linear.0.forward.output.0 (inferred from equal statistics)" in lines


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("Module.head.Linear.forward", f"no value or entry is named Module.head.Linear.forward; did you mean {HEAD}?"),
        ("Torch.sub.0.forward.output.3", "Torch.sub.0.forward has no tensor output.3; it has input.0, output.0"),
    ],
)
def test_a_value_that_is_not_there(dump: Path, capsys: pytest.CaptureFixture[str], value: str, message: str) -> None:
    assert run(["trace", str(dump), value]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(message)


def joined(folder: Path) -> None:
    forget()
    debugger = PrecisionDebugger({"task": "statistics", "level": "L1", "dump_path": str(folder)})
    x = torch.linspace(-1.0, 2.0, 6)
    with debugger.collect():
        torch.exp(torch.cat([torch.relu(x), torch.tanh(x)]).view(3, 4))
    forget()


def test_what_is_joined_is_followed_with_the_line_of_each_move(
    recordings: Recordings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["trace", str(recordings(joined)), "Torch.exp.0.forward"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    (moved,) = (line for line in lines if "is moved there from" in line)
    assert moved.startswith("input.0 ") and all(name in moved for name in ("Torch.relu.0", "Torch.tanh.0"))
    moves = [line for line in lines if line.startswith("by ")]
    assert [move.split()[1] for move in moves] == ["Tensor.view.0.forward", "Torch.cat.0.forward"]
    assert all("test_trace.py" in move for move in moves) and "Torch.relu.0.forward" in lines
