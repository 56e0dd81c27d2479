"""A dump that has every further key, as a graph in TensorBoard: both plugins show what they show without these keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from msprobe.visualize.job import Request, visualize
from tests.forked import run
from tests.separate_packages import CannotInstallError
from tests.visualize.tensorboard import BUNDLED, STANDALONE, TensorBoard, Viewer

pytestmark = [pytest.mark.slow, pytest.mark.torch]

PROGRAM = """
import sys
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from msprobe.pytorch import PrecisionDebugger

folder, scale = sys.argv[1], float(sys.argv[2])
torch.distributed.init_process_group("gloo", init_method=f"file://{folder}.meeting", rank=0, world_size=1)
torch.manual_seed(0)

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.layer, self.head = nn.Embedding(8, 4), nn.Linear(4, 4), nn.Linear(4, 8, bias=False)
        self.head.weight = self.embedding.weight
    def forward(self, tokens):
        x = checkpoint(self.layer, self.embedding(tokens), use_reentrant=False) * scale
        x = torch.baddbmm(torch.empty(1, 8, 4), x[None], torch.eye(4)[None], beta=0.0)[0]
        return self.head(x)

model = Tied()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
config = {"dump_path": folder, "task": "statistics", "level": "mix", "step_records": ["parameters", "gradients"]}
debugger = PrecisionDebugger(config)
debugger.start(model=model)
with torch.no_grad():
    model(torch.arange(8))
loss = model(torch.arange(8)).sum()
loss.backward()
torch.distributed.all_reduce(loss.detach())
torch.empty(4).fill_(1.0)
optimizer.step()
debugger.stop()
debugger.step()
"""
HEADER = {
    "written_by", "run", "end", "process_groups", "shared_storage", "optimizers", "gradients_of_step",
    "parameters_after_step",
}  # fmt: skip
ENTRIES = {"training", "autograd", "group_id", "is_recompute"}
VALUES = {"uninitialised", "not_read", "Projection"}
LAYER = "Module.layer.Linear.forward.1"
SCALED = "Tensor.__mul__.0.forward"


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folders of two runs, of which the second scales by another factor."""
    root = tmp_path_factory.mktemp("further")
    for name, scale in (("golden", "1.0"), ("target", "1.5")):
        done = run(["-c", PROGRAM, str(root / name), scale])
        assert done.returncode == 0, done.stderr
    return {name: root / name / "step0" / "rank0" for name in ("golden", "target")}


@pytest.fixture(scope="module", params=[STANDALONE, BUNDLED], ids=["standalone", "bundled"])
def board(
    request: pytest.FixtureRequest, dumps: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TensorBoard]:
    viewer: Viewer = request.param
    logs = tmp_path_factory.mktemp("shown") / "logs"
    logs.mkdir(mode=0o700)
    visualize(Request(output=logs / "build", target=dumps["target"]))
    visualize(Request(output=logs / "compare", target=dumps["target"], golden=dumps["golden"]))
    try:
        with TensorBoard(viewer, logs) as running:
            yield running
    except CannotInstallError as error:
        pytest.skip(f"{viewer.package} cannot be installed: {error}")


def test_the_dump_has_every_further_key(dumps: dict[str, Path]) -> None:
    document = json.loads((dumps["target"] / "dump.json").read_text(encoding="utf-8"))
    assert document.keys() >= HEADER
    assert {key for body in document["data"].values() for key in body} >= ENTRIES
    assert set(_keys(document["data"])) >= VALUES


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys(part)


def test_no_key_becomes_a_node(board: TensorBoard, dumps: dict[str, Path]) -> None:
    told = board.ask("loadGraphAllNodeList", "compare")  # the bundled plugin has the partners at another endpoint
    listed = (told if "npuMatchNodes" in told else board.ask("loadGraphMatchedRelations", "compare"))["npuMatchNodes"]
    assert listed[LAYER] == LAYER
    data = json.loads((dumps["target"] / "dump.json").read_text(encoding="utf-8"))["data"]
    assert listed.keys() >= {name for name in data if name.startswith("Module.") and ".forward." in name}
    assert not {name for name in listed if name in HEADER | ENTRIES | VALUES}


def test_one_run_unfolds(board: TensorBoard) -> None:
    settings = board.ask("loadGraphConfigInfo", "build")
    assert (settings["isSingleGraph"], settings["ranks"], settings["steps"]) == (True, [0], [0])
    root = board.ask("changeNodeExpandState", "build", nodeInfo={"nodeName": "root", "nodeType": "Single"})
    assert "Module.head.Linear.forward.1" in root
    told = board.ask("getNodeInfo", "build", nodeInfo={"nodeName": LAYER, "nodeType": "Single"})
    (values, *_) = told["npu"]["output_data"].values()
    assert {"Max", "Min", "Mean", "Norm"} <= values.keys()


def test_the_difference_is_found(board: TensorBoard) -> None:
    settings = board.ask("loadGraphConfigInfo", "compare")
    assert (settings["isSingleGraph"], settings["task"]) == (False, "summary")
    levels = {}
    for node in (LAYER, SCALED):
        told = board.ask("getNodeInfo", "compare", nodeInfo={"nodeName": node, "nodeType": "NPU"})
        assert told["bench"]["node_name"] == node
        (values, *_) = told["npu"]["output_data"].values()
        levels[node] = values["Result"], round(float(values["NormRelativeErr"].rstrip("%")), 3)
    assert levels == {LAYER: ("pass", 0.0), SCALED: ("warning", 50.0)}  # the factor, an input, differs
