"""The page in a real browser, from the local server and as one file: what a reader sees, clicks and presses."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from msprobe.compare.alignment.layer_mapping import layer_mapping
from tests.compare.dumps import call, gradient, module, tensor
from tests.visualize.viewer.graphs import STACK, Graph, Node, built, diverging, overflowing
from tests.visualize.viewer.sources import from_both, from_the_file

pytestmark = [pytest.mark.browser, pytest.mark.slow]
CULPRIT = "Functional.linear.1.forward"
DOWN = "Module.layers.0.fc.down.Linear.forward.0"
HEAD = "Module.head.Linear.forward.0"
HOSTILE = '<img src=x onerror="window.hurt=1">\'"&amp;'


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return diverging().write(tmp_path / "compare_1.vis.db")


@from_both
def test_it_opens_at_the_first_divergence(view: Any, database: Path) -> None:
    page = view(database)
    assert page.selected == CULPRIT
    assert CULPRIT in page.lines
    assert page.text("#reason") == "error"
    assert page.text("#script") == "msprobe op_generate bad/step0/rank1 --api Functional.linear.1"
    assert page.run("return document.querySelector('#rank').value") == "1"


@from_the_file
def test_folded_nodes_say_what_is_inside(view: Any, database: Path) -> None:
    page = view(database)
    block = page.all("[data-name='Module.layers.0.Block.forward.0'] .badge.error")
    assert [badge.text for badge in block] == ["2"]


@from_the_file
def test_golden_nodes_without_partner_stand_at_their_place(view: Any, database: Path) -> None:
    page = view(database)
    page.click("#differences-only")
    names = page.until(lambda: page.lines, lambda lines: "Module.layers.1.Block.forward.0" in lines)
    page.click("[data-name='Module.layers.1.Block.forward.0'] .twist")
    names = page.until(lambda: page.lines, lambda lines: "Module.layers.1.mlp.MLP.forward.0" in lines)
    inside = [name for name in names if name.startswith("Module.layers.1.") and "Block" not in name]
    assert inside == [
        "Module.layers.1.norm.LayerNorm.forward.0",
        "Module.layers.1.mlp.MLP.forward.0",
        "Module.layers.1.fc.MLP.forward.0",
    ]


@from_the_file
def test_keys_walk_over_what_differs(view: Any, database: Path) -> None:
    page = view(database)
    seen = [page.selected]
    for _ in range(4):
        page.press("n")
        seen.append(page.selected)
    assert seen[:2] == [CULPRIT, DOWN]
    assert seen[-1] == HEAD
    page.press("n")
    assert "no later difference" in page.text(".message")
    page.press("p")
    assert page.selected == seen[-2]


@from_the_file
def test_arrows_fold_and_move(view: Any, database: Path) -> None:
    page = view(database)
    page.press("ARROW_LEFT")
    assert page.selected == DOWN
    page.press("ARROW_LEFT")
    assert CULPRIT not in page.lines
    page.press("ARROW_RIGHT", "ARROW_RIGHT")
    assert page.selected == CULPRIT


@from_both
def test_search_shows_what_fits_and_enter_goes_there(view: Any, database: Path) -> None:
    page = view(database)
    page.press("d", "/", *"NORM layer")
    names = page.until(lambda: page.lines, lambda lines: len(lines) == 3)
    assert names[-1] == "Module.layers.1.norm.LayerNorm.forward.0"
    assert page.text("#found").startswith("1 of")
    page.press("ENTER")
    assert page.selected == names[-1]
    page.press("ESCAPE")
    page.until(lambda: page.lines, lambda lines: len(lines) > 3)


@pytest.mark.matrix("wide", sample="each value")
@from_both
@pytest.mark.parametrize(
    ("select", "value", "name"),
    [
        pytest.param("#dtype", "torch.bfloat16", "Functional.gelu.0.forward", id="dtype"),
        pytest.param("#level", "api", "Functional.linear.0.forward", id="level"),
    ],
)
def test_filters(view: Any, database: Path, select: str, value: str, name: str) -> None:
    page = view(database)
    page.click("#differences-only")
    page.until(lambda: page.run(f"return document.querySelector('{select}').disabled"), lambda disabled: not disabled)
    page.choose(select, value)
    lines = page.until(lambda: page.lines, lambda lines: name in lines)
    assert "Module.layers.1.norm.LayerNorm.forward.0" not in lines


@from_the_file
def test_the_counts_filter_by_verdict(view: Any, database: Path) -> None:
    page = view(database)
    assert page.text("#verdict-error").endswith("2 error")
    page.click("#verdict-warning")
    page.until(lambda: page.lines, lambda lines: lines == ["DefaultModel", HEAD])


@from_the_file
def test_sorted_by_error_the_worst_comes_first(view: Any, database: Path) -> None:
    page = view(database)
    page.press("e")
    lines = page.until(lambda: page.lines, lambda lines: lines[0] == CULPRIT)
    assert lines[1:3] == [DOWN, HEAD]


@from_the_file
def test_numbers_are_readable_and_exact_in_the_tooltip(view: Any, database: Path) -> None:
    page = view(database)
    cells = page.until(lambda: page.all(".parameters td[title='1.9310508966445923']"), bool)
    assert {cell.text for cell in cells} == {"1.9311"}
    rows = page.until(lambda: page.text(".parameters"), lambda text: "golden" in text)
    assert "output.0" in rows
    assert "1.5" in rows


@from_both
def test_the_stack_shows_source_lines_of_the_user_first(view: Any, database: Path) -> None:
    page = view(database)
    page.click("#tab-stack")
    shown = page.until(lambda: page.text(".stack"), bool)
    assert "model.py:20" in shown
    assert "self.up(x)" in shown
    assert "linear.py" not in shown
    page.click("#all-frames")
    page.until(lambda: page.text(".stack"), lambda text: "linear.py:134" in text and len(STACK) == 2)


@from_both
def test_ranks_switch_and_the_address_follows(view: Any, database: Path) -> None:
    page = view(database)
    page.choose("#rank", "0")
    page.until(lambda: page.driver.current_url, lambda url: "rank=0" in url)
    assert page.all("#verdict-error") == []
    page.choose("#rank", "1")
    page.until(lambda: page.selected, lambda name: name == CULPRIT)


@from_the_file
def test_the_grid_shows_where_to_look_first(view: Any, database: Path) -> None:
    page = view(database)
    page.press("s")
    cells = page.until(lambda: page.all(".grid button"), lambda found: len(found) == 2)
    assert [cell.text.split() for cell in cells] == [["?", "2"], ["✕", "2"]]
    page.click("#cell-0-0")
    page.until(lambda: page.driver.current_url, lambda url: "rank=0" in url and "view=grid" in url)


@from_both
def test_a_communication_leads_to_the_other_rank(view: Any, tmp_path: Path) -> None:
    send, receive = "Distributed.send.0.forward", "Distributed.recv.0.forward"
    links = {"communications_type": "send", "nodes_info": {"1": ["0.5", receive]}}
    sides = {(0, 0, "NPU"): [Node(send, links=links)], (0, 1, "NPU"): [Node(receive)]}
    page = view(Graph(sides).write(tmp_path / "build_1.vis.db"), link=f"#rank=0&node={send}&tab=about")
    page.until(lambda: page.text(".about"), lambda text: "send rank 1" in text)
    page.click(".about .link")
    page.until(lambda: page.selected, lambda name: name == receive)
    assert "rank=1" in page.driver.current_url


@from_the_file
def test_one_run_has_nothing_to_compare(view: Any, tmp_path: Path) -> None:
    page = view(overflowing(tmp_path / "build_1.vis.db"))
    assert [tab.text for tab in page.all(".picture [role=tab]")] == ["Graph", "Overflow"]
    assert page.all(".counts") == page.all("#differences-only") == []


@from_both
def test_a_link_opens_what_it_says(view: Any, database: Path) -> None:
    page = view(database, link=f"#step=0&rank=1&node={HEAD}&view=differences&tab=stack")
    assert page.selected == HEAD
    page.until(lambda: page.text(".stack"), lambda text: "model.py" in text)
    names = [row.get_attribute("data-name") for row in page.all(".nodes tbody tr")]
    assert names[:2] == [CULPRIT, DOWN]
    page.click(f".nodes tr[data-name='{DOWN}']")
    page.until(lambda: page.selected, lambda name: name == DOWN)
    assert "node=Module.layers.0.fc.down" in page.driver.current_url


@from_the_file
def test_the_graph_shows_both_sides_and_follows_the_selection(view: Any, database: Path) -> None:
    page = view(database, link=f"#rank=1&node={DOWN}")
    boxes = page.until(lambda: page.all(f".box[data-name='{DOWN}']"), lambda found: len(found) == 2)
    assert all("selected" in box.get_attribute("class") and "error" in box.get_attribute("class") for box in boxes)
    page.double_click(f".box[data-name='{DOWN}']")
    page.until(lambda: page.all(f".box[data-name='{CULPRIT}']"), lambda found: len(found) == 2)
    page.click(f".box[data-name='{CULPRIT}']")
    page.until(lambda: page.selected, lambda name: name == CULPRIT)


@from_the_file
def test_the_chart_has_a_point_for_every_measured_node(view: Any, database: Path) -> None:
    page = view(database, link="#rank=1&view=chart")
    chart = page.until(lambda: page.all("#chart"), bool)[0]
    assert chart.get_attribute("data-points") == "9"
    assert page.all("#chart canvas")


@from_the_file
def test_overflow_worst_first(view: Any, tmp_path: Path) -> None:
    page = view(overflowing(tmp_path / "build_1.vis.db"))
    page.press("o")
    rows = page.until(lambda: [row.get_attribute("data-name") for row in page.all(".nodes tbody tr")], bool)
    assert rows == ["Functional.softmax.0.forward", "Module.a.Linear.forward.0"]
    assert page.selected == rows[0]


@from_the_file
def test_overflow_that_was_not_looked_for_is_said(view: Any, database: Path) -> None:
    page = view(database)
    page.click("#view-overflow")
    assert "-oc" in page.until(lambda: page.text("#no-overflow"), bool)


def downloaded(page: Any) -> str:
    """What the page hands over for download; the browser of the tests writes it nowhere."""
    page.run(
        "window.handed = null; const make = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => { blob.text().then((text) => { window.handed = text; }); return make(blob); };"
    )
    page.click("#export")
    return str(page.until(lambda: page.run("return window.handed"), bool))


@from_the_file
def test_pairs_by_hand_are_undone_and_exported(view: Any, database: Path) -> None:
    target, golden = "Module.layers.1.fc.MLP.forward.0", "Module.layers.1.mlp.MLP.forward.0"
    page = view(database, link=f"#rank=1&node={target}")
    page.press("m")
    page.click(f".candidate[data-name='{golden}']")
    page.until(lambda: page.text("#verdict-unmatched"), lambda text: not text)
    page.until(lambda: page.text("#reason"), lambda text: "not judged" in text)
    assert page.selected == target
    mapping = yaml.safe_load(downloaded(page))
    assert mapping == {"Block": {"fc": "mlp"}}
    assert layer_mapping(mapping).sections == {"Block": {("fc",): ("mlp",)}}
    page.press("u")
    page.until(lambda: page.text("#verdict-unmatched"), lambda text: "4" in text)
    assert page.all("#undo") == []


@from_the_file
def test_the_backward_call_and_the_gradients_are_paired_along(view: Any, tmp_path: Path) -> None:
    def run(name: str) -> dict[str, Any]:
        layer = f"Module.{name}.Linear"
        return {
            f"{layer}.forward.0": module([tensor()], [tensor()], weight=tensor()),
            f"{layer}.backward.0": gradient([tensor()], [tensor()]),
            f"{layer}.parameters_grad": {"weight": [tensor()]},
        }

    page = view(
        built(tmp_path / "a.vis.db", run("up"), run("raise")), link="#node=Module.up.Linear.forward.0&tab=match"
    )
    page.click(".candidate[data-name='Module.raise.Linear.forward.0']")
    page.until(lambda: page.text("#verdict-not_compared"), lambda text: "3" in text)
    assert page.all("#verdict-unmatched") == []
    page.press("u")
    page.until(lambda: page.text("#verdict-unmatched"), lambda text: "6" in text)


@from_the_file
def test_a_pair_parted_by_hand_is_unmatched(view: Any, database: Path) -> None:
    page = view(database, link=f"#rank=1&node={HEAD}&tab=match")
    page.click("#unmatch")
    page.until(lambda: page.text("#verdict-unmatched"), lambda text: "6" in text)
    page.click("#undo")
    page.until(lambda: page.text("#verdict-unmatched"), lambda text: "4" in text)


@from_both
def test_pairs_by_hand_outlive_the_page(view: Any, database: Path) -> None:
    page = view(database, link="#rank=1&node=Module.layers.1.fc.MLP.forward.0&tab=match")
    page.click(".candidate")
    page.until(lambda: page.all("#undo"), bool)
    page.driver.refresh()
    page.until(lambda: page.all("#undo"), bool)
    page.click("#undo")


@from_both
def test_names_are_never_markup(view: Any, tmp_path: Path) -> None:
    graph = diverging(hostile=HOSTILE)
    graph.meta["target"] = HOSTILE
    graph.meta["first_divergence"][0].update(node=f"Functional.gelu.0.forward{HOSTILE}", golden_node=None)
    page = view(graph.write(tmp_path / "compare_<b>1.vis.db"))
    assert page.selected == f"Functional.gelu.0.forward{HOSTILE}"
    for tab in ("stack", "about", "match", "parameters"):
        page.click(f"#tab-{tab}")
    for key in "gclot?":
        page.press(key)
    assert HOSTILE in page.text(".runs")
    assert page.run("return [window.hurt ?? null, document.images.length]") == [None, 0]


@from_both
def test_it_needs_nothing_from_elsewhere(view: Any, database: Path) -> None:
    page = view(database)
    for key in "gclo":
        page.press(key)
    host = page.run("return location.host")
    loaded = page.run("return performance.getEntriesByType('resource').map((one) => new URL(one.name))")
    assert [one for one in loaded if str(one).startswith("http") and host not in str(one)] == []
    blocked = page.run("return fetch('http://127.0.0.2:9/').then(() => 'reached', () => 'refused')")
    assert blocked == "refused"
    page.driver.get_log("browser")  # the refusal above


@from_the_file
def test_dark_and_light(view: Any, database: Path) -> None:
    page = view(database)
    ground = "return getComputedStyle(document.body).backgroundColor"
    before = page.run(ground)
    page.press("t")
    assert page.run(ground) != before
    page.press("t")
    assert page.run(ground) == before


@from_both
def test_several_databases(view: Any, tmp_path: Path) -> None:
    paths = [diverging().write(tmp_path / "one.vis.db"), overflowing(tmp_path / "two.vis.db")]
    page = view(*paths)
    page.choose("#database", "1")
    page.until(lambda: page.selected, lambda name: name == "Functional.softmax.0.forward")


@from_both
def test_a_database_of_another_writer(view: Any, tmp_path: Path) -> None:
    page = view(diverging().write(tmp_path / "compare_1.vis.db", ours=False))
    assert page.run("return document.querySelector('#rank').value") == "0"
    page.choose("#rank", "1")
    page.until(lambda: page.selected, lambda name: name == CULPRIT)
    page.press("e")
    assert page.until(lambda: page.lines, lambda lines: lines[0] in {CULPRIT, DOWN})[2] == HEAD
    page.press("c")
    assert int(page.until(lambda: page.all("#chart"), bool)[0].get_attribute("data-points")) > 5


@pytest.mark.matrix("wide", sample=2)
@from_both
def test_many_nodes_scroll_without_being_drawn(view: Any, tmp_path: Path) -> None:
    run = {f"Functional.linear.{number}.forward": call([tensor()], [tensor()]) for number in range(5000)}
    page = view(built(tmp_path / "a.vis.db", run, run), link="#node=Functional.linear.0.forward")
    page.until(lambda: page.lines, lambda lines: len(lines) > 10)
    assert len(page.lines) < 100
    page.run("document.querySelector('.lines').scrollTop = 5000 * 24 - 400")
    page.until(lambda: page.lines, lambda lines: "Functional.linear.4999.forward" in lines)
    started = time.monotonic()
    page.press("/", *"4321")
    page.until(lambda: page.lines, lambda lines: len(lines) == 3 and lines[-1] == "Functional.linear.4321.forward")
    assert time.monotonic() - started < 5
