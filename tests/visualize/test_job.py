"""A real training step with gradient accumulation and activation checkpointing, from the recording to the graph."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from msprobe.pytorch import PrecisionDebugger
from msprobe.visualize.job import Request, visualize
from tests.fresh_debugger import forget
from tests.visualize.databases import Tables, check, read

pytestmark = pytest.mark.torch
MODES = {
    "statistics": {"task": "statistics"},
    "md5": {"task": "statistics", "statistics": {"summary_mode": "md5"}},
    "tensor": {"task": "tensor"},
}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc(x))


class Net(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first, self.second, self.reentrant = Block(), Block(), reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.second, self.first(x), use_reentrant=self.reentrant)


def record(folder: Path, mode: str = "statistics", *, reentrant: bool = False, scale: float = 1.0) -> Path:
    """Two micro steps of one training step; ``scale`` changes the weight of the second block."""
    forget()
    torch.manual_seed(0)
    net = nn.ModuleDict({"net": Net(reentrant)})
    with torch.no_grad():
        net["net"].second.fc.weight *= scale
    debugger = PrecisionDebugger({"level": "mix", "dump_path": str(folder), **MODES[mode]})
    with debugger.collect(net):
        for _ in range(2):
            net["net"](torch.randn(3, 4, requires_grad=True)).square().mean().backward()
    forget()
    return folder


def draw(**request: object) -> Tables:
    tables = read(visualize(Request(**request)))  # type: ignore[arg-type]
    check(tables)
    return tables


@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "non-reentrant"])
def test_micro_steps_recomputed_calls_and_gradients_have_their_place(reentrant: bool, tmp_path: Path) -> None:
    side = draw(target=record(tmp_path / "run", reentrant=reentrant), output=tmp_path / "out").side()
    blocks = {name: row["up_node"] for name, row in side.items() if name.startswith("Module.net.second.Block.")}
    calls = [blocks[f"Module.net.second.Block.forward.{number}"] for number in range(4)]
    backward = [name for name in blocks if "backward" in name]
    assert calls[::2] == ["Module.net.Net.forward.0", "Module.net.Net.forward.1"]
    assert calls[1::2] == backward, "what is computed again stands in the backward call that needs it"
    for micro in (0, 1):
        for name in (f"Module.net.Net.forward.{micro}", f"Module.net.first.fc.Linear.backward.{micro}"):
            assert side[name]["micro_step_id"] == micro
        assert side[calls[2 * micro + 1]]["micro_step_id"] == micro
    kinds = {row["node_type"] for row in side.values()}
    assert kinds == {"0", "1", "9"}
    gradients = [row for name, row in side.items() if ".parameters_grad" in name]
    assert {row["up_node"] for row in gradients} <= {name for name in side if ".backward." in name}
    assert len(gradients) == 4
    values = json.loads(side["Module.net.first.fc.Linear.forward.0"]["input_data"])
    assert [name.split(".parameters.")[1] for name in values if ".parameters." in name] == ["weight", "bias"]


@pytest.mark.parametrize(
    ("mode", "field"),
    [
        pytest.param("statistics", "Max diff", id="statistics"),
        pytest.param("md5", "Result", id="md5"),
        pytest.param("tensor", "Cosine", id="tensor"),
    ],
)
def test_a_scaled_weight_is_found_in_every_mode(mode: str, field: str, tmp_path: Path) -> None:
    good, bad = record(tmp_path / "good", mode), record(tmp_path / "bad", mode, scale=1.5)
    tables = draw(target=bad, golden=good, output=tmp_path / "out")
    assert tables.meta["first_divergence"][0]["node"].startswith(("Module.net.second", "Functional.linear.1"))
    name = "Module.net.second.fc.Linear.forward.0"
    assert tables.verdicts()[name] == "error"
    assert tables.verdicts()["Module.net.first.fc.Linear.forward.0"] == "same"
    weight = next(one for key, one in json.loads(tables.side()[name]["input_data"]).items() if key.endswith("weight"))
    assert field in weight and weight["Result"] == "error"
