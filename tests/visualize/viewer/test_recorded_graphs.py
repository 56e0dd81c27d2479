"""What the builder made of real runs, as the viewer reads and shows it."""

from __future__ import annotations

import contextlib
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe import __version__
from msprobe.pytorch import PrecisionDebugger
from msprobe.visualize.job import Request, visualize
from msprobe.visualize.viewer.queries import VERDICTS, GraphDatabase
from tests.fresh_debugger import forget
from tests.precheck.planted_kernels import PlantedKernel
from tests.recordings import Recordings
from tests.visualize.viewer.sources import from_both, from_the_file

pytestmark = pytest.mark.torch
RELU, FIRST, LAST = "Functional.leaky_relu.0.forward", "Functional.linear.0.forward", "Functional.linear.1.forward"


class Net(nn.Module):
    def __init__(self, slope: float) -> None:
        super().__init__()
        self.up, self.down, self.slope = nn.Linear(4, 8), nn.Linear(8, 2), slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(x)
        x = self.bent(x)
        return self.down(x)

    def bent(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.leaky_relu(x, self.slope)


def record_graph(folder: Path) -> None:
    """Write the graph of a run with a wrong slope, compared with a good one, to ``folder / "out"``."""
    for name, slope in (("good", 0.01), ("bad", 0.2)):
        forget()
        torch.manual_seed(0)
        net = Net(slope)
        debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(folder / name)})
        with debugger.collect(net):
            net(torch.randn(8, 4)).mean().backward()
        forget()
    visualize(Request(target=folder / "bad", golden=folder / "good", output=folder / "out"))


@pytest.fixture
def built(recordings: Recordings) -> Path:
    (path,) = (recordings(record_graph) / "out").iterdir()
    return path


def test_what_the_front_end_is_told(built: Path) -> None:
    database = GraphDatabase(built)
    overview, graph = database.overview(), database.graph(0, 0)
    first = overview["meta"]["first_divergence"][0]
    assert first["node"] == RELU
    assert first["script"] == ""  # another slope, and no wrong function
    target = graph["target"]
    verdicts = {name: VERDICTS[code] for name, code in zip(target["names"], target["verdicts"], strict=True)}
    assert (verdicts[FIRST], verdicts[RELU], verdicts[LAST]) == ("same", "error", "warning")
    assert database.facts(0, 0)["errors"][target["names"].index(LAST)] > 0


def record_wrong_kernel(folder: Path) -> None:
    """Write the graph of a run with a wrong kernel to ``folder / "out"``."""
    for name, planted in (("good", contextlib.nullcontext()), ("bad", PlantedKernel("leaky_relu", "scale").planted())):
        forget()
        torch.manual_seed(0)
        net, batch = Net(0.01), torch.randn(8, 4)
        with planted, PrecisionDebugger({"level": "mix", "dump_path": str(folder / name)}).collect(net):
            net(batch)
        forget()
    visualize(Request(target=folder / "bad", golden=folder / "good", output=folder / "out"))


def test_the_command_that_runs_a_wrong_function_alone(recordings: Recordings) -> None:
    (path,) = (recordings(record_wrong_kernel) / "out").iterdir()
    (first,) = GraphDatabase(path).overview()["meta"]["first_divergence"]
    assert re.fullmatch(r"msprobe op_generate \S*bad/step0/\w+ --api Functional.leaky_relu.0", first["script"])


def test_each_stack_once_and_the_place_of_every_node(built: Path) -> None:
    database = GraphDatabase(built)
    names, stacks = database.graph(0, 0)["target"]["names"], database.stacks(0, 0)
    for name in (FIRST, RELU):
        node = database.node(0, 0, "target", name)
        assert stacks["texts"][stacks["target"][names.index(name)]] == node["stack"]
    assert any("in bent" in frame for frame in stacks["texts"][stacks["target"][names.index(RELU)]])
    assert len(stacks["texts"]) < len(names)


class Turned(nn.Module):
    """A value goes through a view that no record has, to one of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.aside, self.last = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made, aside = self.first(x), self.aside(x)
        return self.last(made.T.reshape(8, 8).T) + aside[:, :2]


@pytest.fixture(params=[True, False], ids=["memory", "statistics"])
def turned(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, bool]:
    """The graph of one run, and whether it has recorded memory."""
    forget()
    torch.manual_seed(0)
    settings = {"level": "mix", "dump_path": f"{tmp_path}/run", "statistics": {"memory": request.param}}
    net = Turned()
    with PrecisionDebugger({"task": "statistics", **settings}).collect(net):
        net(torch.randn(8, 4)).mean().backward()
    forget()
    return visualize(Request(target=tmp_path / "run", output=tmp_path / "out")), request.param


def test_an_edge_is_a_value_and_known_by_its_memory(turned: tuple[Path, bool]) -> None:
    path, recorded = turned
    values = {
        name: GraphDatabase(path).node(0, 0, "target", f"Module.{name}.Linear.forward.0")["values"]
        for name in ("first", "aside", "last")
    }
    made = "Functional.linear.0.forward.output.0"
    assert values["first"]["gives"] == [made]
    assert values["last"]["gets"] == {made: recorded}
    assert values["first"]["gets"].keys() == values["aside"]["gets"].keys()  # a source, that nobody gives


def test_a_node_without_a_record_gets_what_its_nodes_do(tmp_path: Path) -> None:
    forget()
    weight = torch.ones(3, 4, requires_grad=True)
    with PrecisionDebugger({"task": "statistics", "level": "L1", "dump_path": f"{tmp_path}/run"}).collect():
        torch.relu(nn.functional.linear(torch.randn(2, 4), weight)).exp()
    forget()
    database = GraphDatabase(visualize(Request(target=tmp_path / "run", output=tmp_path / "out")))
    values = database.node(0, 0, "target", "Apis_Between_Modules.0")["values"]
    assert not {name for name in values["gets"] if name in values["gives"]}
    assert "Torch.relu.0.forward.output.0" in values["gives"]


@from_the_file
@pytest.mark.browser
@pytest.mark.slow
def test_edges_are_solid_where_memory_was_recorded(view: Any, turned: tuple[Path, bool]) -> None:
    path, recorded = turned
    page = view(path, link="#view=graph&node=Module.last.Linear.forward.0")
    edges = page.until(lambda: page.all("path.edge"), bool)
    kinds = {edge.get_attribute("class") for edge in edges}
    assert ("edge recorded" if recorded else "edge inferred") in kinds
    assert ("edge inferred" if recorded else "edge recorded") not in kinds
    texts = page.run("return [...document.querySelectorAll('path.edge title')].map((title) => title.textContent)")
    assert any("Functional.linear.0.forward.output.0" in text for text in texts)


@from_the_file
@pytest.mark.browser
@pytest.mark.slow
def test_the_boxes_of_a_narrow_side_are_whole(view: Any, built: Path) -> None:
    """In a side narrower than the graph the boxes are smaller, not cut."""
    page = view(built, link="#view=graph")
    page.until(lambda: page.all(".canvas .box"), bool)
    page.run("document.querySelectorAll('.side').forEach((side) => { side.style.flex = '0 0 200px'; })")
    out = """return [...document.querySelectorAll('.canvas')].flatMap((canvas) => {
        const frame = canvas.getBoundingClientRect(), drawn = canvas.querySelector('svg').viewBox.baseVal.width;
        const zoom = canvas.clientWidth / drawn;
        return [...canvas.querySelectorAll('.box rect')].map((box) => box.getBoundingClientRect())
            .map((box) => [zoom, box.left - frame.left, frame.right - box.right]); })"""
    found = page.until(lambda: page.run(out), bool)
    assert all(zoom < 1 and left >= 0 and right >= 0 for zoom, left, right in found), found


@from_the_file
@pytest.mark.browser
@pytest.mark.slow
def test_the_legend_of_the_chart_has_words_alone(view: Any, built: Path) -> None:
    page = view(built, link="#view=chart")
    page.until(lambda: page.all(".u-legend th"), bool)
    after = "return [...document.querySelectorAll('.u-legend th')].map((th) => getComputedStyle(th, '::after').content)"
    assert set(page.run(after)) == {"none"}


@from_both
@pytest.mark.browser
@pytest.mark.slow
def test_a_word_with_a_mark_is_searched_in_stacks(view: Any, built: Path) -> None:
    page = view(built)
    assert page.selected == RELU
    page.press("d", "/", *"@bent")
    lines = page.until(lambda: page.lines, lambda lines: RELU in lines and FIRST not in lines)
    assert LAST not in lines
    page.press(*" linear")
    page.until(lambda: page.text("#found"), lambda text: text.startswith("0 of"))
    page.press("ESCAPE")
    page.until(lambda: page.lines, lambda lines: FIRST in lines or len(lines) > 3)


@from_the_file
@pytest.mark.browser
@pytest.mark.slow
def test_a_link_may_search_stacks(view: Any, built: Path) -> None:
    page = view(built, link="#q=%40bent")
    page.until(lambda: page.text("#found"), lambda text: not text.startswith("0 of"))
    assert RELU in page.lines


def test_the_database_says_which_version_made_it_and_when(built: Path) -> None:
    meta = GraphDatabase(built).overview()["meta"]
    assert meta["version"] == __version__
    assert abs((datetime.now().astimezone() - datetime.fromisoformat(meta["made"])).days) <= 1


@from_the_file
@pytest.mark.browser
@pytest.mark.slow
def test_the_page_says_which_version_made_the_graph_and_when(view: Any, built: Path) -> None:
    page = view(built)
    made = GraphDatabase(built).overview()["meta"]["made"]
    title = page.until(lambda: page.all("#made"), bool)[0].get_attribute("title")
    assert title == f"by msprobe {__version__} on {made[:19].replace('T', ' at ')}"
