"""The page of trends in a real browser, from the local server and as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.matrices import matrix_params
from tests.visualize.trend_view.databases import METRIC, SPIKE, STEPS, write_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SOURCES = ("served", "file")
from_both = pytest.mark.parametrize("trends", SOURCES, indirect=True)
from_the_server = pytest.mark.parametrize("trends", matrix_params("pages", SOURCES, {"served"}), indirect=True)
PIXEL = """
const canvas = document.querySelector('#map'), store = msprobeTrend, ratio = devicePixelRatio || 1;
const { picture, size } = store.state, [x, y] = arguments;
const at = [250 + (x + 0.5) * size[0] / picture.total[0], 8 + (y + 0.5) * size[1] / picture.total[1]];
return [...canvas.getContext('2d').getImageData(at[0] * ratio, at[1] * ratio, 1, 1).data];
"""


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return write_run(tmp_path / "bad.trend.db", faults=True)


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return write_run(tmp_path / "good.trend.db")


def _state(page: Any, name: str) -> Any:
    return page.run(f"return msprobeTrend.state.{name}")


@from_both
def test_it_opens_with_a_picture_and_a_line(trends: Any, target: Path) -> None:
    page = trends(target)
    heat = page.all("#heat")[0]
    assert (heat.get_attribute("data-columns"), heat.get_attribute("data-rows")) == (str(STEPS), "14")
    assert page.all("#line canvas") and page.text("#here").startswith(f"{METRIC} norm")
    assert len({tuple(page.run(PIXEL, step, 13)) for step in (0, 39)}) == 2


@from_the_server
def test_two_runs_name_the_place_where_they_part(trends: Any, target: Path, golden: Path) -> None:
    page = trends(target, golden)
    text = page.until(lambda: page.text("#parting"), lambda words: "first part" in words)
    assert f"step {SPIKE[0]}, rank {SPIKE[1]}" in text and SPIKE[2] in text
    page.click("#go-parting")
    page.until(lambda: _state(page, "side"), lambda side: side == "difference")
    at = page.until(lambda: _state(page, "at"), lambda at: at["step"] == SPIKE[0])
    assert (
        at["rank"] == SPIKE[1]
        and page.run("return msprobeTrend.name('layer', msprobeTrend.state.at.layer)") == SPIKE[2]
    )
    legend = page.run("return document.querySelector('#line .u-legend').textContent")  # drawn anew meanwhile
    assert legend.count("golden") == 1


@from_the_server
def test_other_axes_and_filter(trends: Any, target: Path) -> None:
    page = trends(target)
    page.click("#layout-step-rank")
    page.until(lambda: page.all("#heat")[0].get_attribute("data-rows"), lambda rows: rows == "3")
    page.click("#layout-rank-layer")
    page.until(lambda: page.all("#heat")[0].get_attribute("data-columns"), lambda columns: columns == "3")
    page.press("/", *"mlp 1")
    page.until(lambda: page.text("#found"), lambda text: text == "3 of 14 layers")  # 1, 10 and 11
    page.until(lambda: page.all("#heat")[0].get_attribute("data-rows"), lambda rows: rows == "3")
    page.press("ESCAPE")
    page.press("ESCAPE")
    page.until(lambda: page.text("#found"), lambda text: text == "14 of 14 layers")


@from_the_server
def test_alerts_are_listed_marked_and_reached_by_a_key(trends: Any, target: Path) -> None:
    page = trends(target)
    assert "1 alerts" in page.text(".alerts") and SPIKE[2] in page.text(".alerts")
    page.press("n")
    at = page.until(lambda: _state(page, "at"), lambda at: at["step"] == SPIKE[0])
    assert at["rank"] == SPIKE[1]
    page.until(lambda: page.text("#third-name"), lambda text: text == str(SPIKE[1]))


def test_nan_has_a_colour_of_its_own_and_the_tip_says_so(trends: Any, target: Path) -> None:
    page = trends(target)
    layer = page.run("return msprobeTrend.metric.layers.indexOf('layers.10.mlp.weight')")
    page.run("return msprobeTrend.change({ at: { step: 0, rank: 2, layer: 0 } })")
    pixel = page.until(lambda: page.run(PIXEL, 30, layer), lambda found: found[:3] == [227, 0, 140])
    assert pixel[3] == 255
    page.run(
        """const area = document.querySelector('#map').getBoundingClientRect(), { size } = msprobeTrend.state;
        document.querySelector('#map').dispatchEvent(new MouseEvent('mousemove', { bubbles: true,
          clientX: area.left + 250 + 30.5 * size[0] / 40,
          clientY: area.top + 8 + (arguments[0] + 0.5) * size[1] / 14 }))""",
        layer,
    )
    tip = page.until(lambda: page.run("return document.querySelector('#tip')?.textContent"), bool)
    inside = """const [tip, heat] = ['#tip', '#heat'].map((one) => document.querySelector(one).getBoundingClientRect());
        return [tip.left - heat.left, tip.top - heat.top, heat.right - tip.right, heat.bottom - tip.bottom]"""
    assert min(page.run(inside)) >= 0, page.run(inside)
    assert tip.startswith("NaN") and "layers.10.mlp.weight" in tip


@from_the_server
def test_keys_zoom_move_and_go_back(trends: Any, target: Path) -> None:
    page = trends(target)
    page.press("+", "+")
    x = page.until(lambda: _state(page, "x"), lambda x: x[1] - x[0] == 10)
    page.press("ARROW_RIGHT")
    page.until(lambda: _state(page, "at.step"), lambda step: step == 1)
    page.click("#whole")
    page.until(lambda: _state(page, "x"), lambda found: found == [0, STEPS] != x)
    page.press("t")
    assert page.run("return document.documentElement.dataset.theme") in {"dark", "light"}
    page.press("?")
    assert "next alert" in page.text(".help")


def test_a_link_opens_the_same_place(trends: Any, target: Path) -> None:
    page = trends(target, link=f"#metric={METRIC}&statistic=max&layout=step-rank&step=7&rank=2&layer=head.weight")
    assert page.text("#third-name") == "head.weight" and _state(page, "statistic") == "max"
    assert _state(page, "at.step") == 7


def test_the_page_follows_a_running_training(trends: Any, tmp_path: Path) -> None:
    path = write_run(tmp_path / "live.trend.db", steps=range(10), settled=False)
    page = trends(path)
    assert page.all("#heat")[0].get_attribute("data-columns") == "10"
    write_run(path, steps=range(10, 25), settled=False)
    page.until(lambda: page.all("#heat")[0].get_attribute("data-columns"), lambda columns: columns == "25")
    assert page.text("#live") == "● 25 steps"


def test_names_from_a_file_are_text(trends: Any, tmp_path: Path) -> None:
    from msprobe.trend.growing import GrowingDatabase, Mark, Point

    hostile = '<img src=x onerror="window.hurt=1">'
    with GrowingDatabase(tmp_path / "x.trend.db") as database, database.transaction():
        database.prepare(["norm"], ["actv"])
        database.add(0, [Point("actv", (hostile, 0, 0), 0, {"norm": 1.0})])
        database.mark(0, [Mark("actv", (hostile, 0, 0), 0, "norm", hostile)])
    page = trends(tmp_path / "x.trend.db")
    assert hostile in page.text(".alerts") and page.run("return window.hurt") is None
