"""The journeys of the servers' documents, from the configuration to the picture, name the planted fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from examples.serving.model import FAULTS, build
from msprobe.visualize.viewer.databases import find_databases
from msprobe.visualize.viewer.queries import GraphDatabase

JOURNEY = Path(__file__).resolve().parents[2] / "examples" / "serving" / "journey.py"
pytestmark = pytest.mark.torch


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_replaces_an_attribute_and_changes_the_result(fault: str) -> None:
    import torch

    planted = FAULTS[fault]
    tokens = torch.arange(20).unsqueeze(0)
    assert getattr(build().get_submodule(planted.module), planted.attribute) != planted.value
    assert torch.equal(build()(tokens), build()(tokens))
    assert not torch.equal(build()(tokens), build(fault)(tokens))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "fault", "steps", "ranks"),
    [
        pytest.param("sglang", "scale", [0], [0, 1], id="sglang"),
        pytest.param("vllm-ascend", "epsilon", [0, 1], [0], id="vllm-ascend"),
    ],
)
def test_a_journey_ends_at_the_planted_fault(
    server: str, fault: str, steps: list[int], ranks: list[int], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, str(JOURNEY), server, "--out", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "graph.html").stat().st_size > 100_000
    (path,) = find_databases(tmp_path / "graph_output")
    overview = GraphDatabase(path).overview()
    assert (overview["steps"], overview["ranks"], overview["overflow"]) == (steps, ranks, True)
    first = overview["meta"]["first_divergence"][0]
    assert first["node"].startswith(FAULTS[fault].operation)
    assert any("model.py" in frame for frame in first["stack"])
    module, attribute = FAULTS[fault].module, FAULTS[fault].attribute
    assert attribute in first["stack"][0]
    graph = GraphDatabase(path).graph(first["step"], first["rank"])["target"]
    parent = graph["names"][graph["parents"][graph["names"].index(first["node"])]]
    assert parent.startswith(f"Module.{module}.")
