"""The journeys of the servers' documents, from the configuration to the picture, name the planted fault."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from examples.serving.model import FAULTS, build
from msprobe.visualize.viewer.databases import find_databases
from msprobe.visualize.viewer.queries import GraphDatabase
from tests import forked
from tests.visualize.viewer.conftest import driver as driver  # the fixture

JOURNEY = Path(__file__).resolve().parents[2] / "examples" / "serving" / "journey.py"
pytestmark = pytest.mark.torch


@dataclass(frozen=True)
class Journey:
    """``fault`` is what the script plants where none is asked for; ``steps`` and ``ranks`` are those of the picture."""

    server: str
    fault: str
    steps: list[int]
    ranks: list[int]
    folder: Path = field(default_factory=Path)


JOURNEYS = (Journey("sglang", "scale", [0], [0, 1]), Journey("vllm-ascend", "epsilon", [0, 1], [0]))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_replaces_an_attribute_and_changes_the_result(fault: str) -> None:
    import torch

    planted = FAULTS[fault]
    tokens = torch.arange(20).unsqueeze(0)
    assert getattr(build().get_submodule(planted.module), planted.attribute) != planted.value
    assert torch.equal(build()(tokens), build()(tokens))
    assert not torch.equal(build()(tokens), build(fault)(tokens))


@pytest.fixture(scope="module", params=[pytest.param(one, id=one.server) for one in JOURNEYS])
def journey(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Journey:
    """A journey that has been walked."""
    planned: Journey = request.param
    folder = tmp_path_factory.mktemp(planned.server)
    command = [forked.python(), JOURNEY, planned.server, "--out", folder]
    done = subprocess.run(command, capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return replace(planned, folder=folder)


@pytest.mark.slow
def test_a_journey_ends_at_the_planted_fault(journey: Journey) -> None:
    (path,) = find_databases(journey.folder / "graph_output")
    overview = GraphDatabase(path).overview()
    assert (overview["steps"], overview["ranks"], overview["overflow"]) == (journey.steps, journey.ranks, True)
    first = overview["meta"]["first_divergence"][0]
    planted = FAULTS[journey.fault]
    assert first["node"].startswith(planted.operation)
    assert any("model.py" in frame for frame in first["stack"])
    assert planted.attribute in first["stack"][0]
    graph = GraphDatabase(path).graph(first["step"], first["rank"])["target"]
    parent = graph["names"][graph["parents"][graph["names"].index(first["node"])]]
    assert parent.startswith(f"Module.{planted.module}.")


@pytest.mark.browser
@pytest.mark.slow
def test_the_picture_opens_at_the_planted_fault(journey: Journey, driver: Any) -> None:
    from tests.visualize.viewer.page_reader import Viewing  # needs selenium

    page, planted = Viewing(driver), FAULTS[journey.fault]
    page.open((journey.folder / "graph.html").as_uri())
    assert page.selected.startswith(planted.operation)
    assert page.text("#reason") and page.all(".line.selected .sign.error")
    page.click("#tab-stack")
    shown = page.until(lambda: page.text(".stack"), bool)
    assert "model.py" in shown and planted.attribute in shown
    for name, places in (("step", journey.steps), ("rank", journey.ranks)):
        assert len(page.all(f"#{name} option")) == (len(places) if len(places) > 1 else 0)
    assert [line["message"] for line in driver.get_log("browser")] == []
