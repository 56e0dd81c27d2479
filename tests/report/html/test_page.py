"""The HTML report in a real browser: what it says, clicks, order, search, many rows, hostile names."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from msprobe import __version__
from msprobe.jobs.compare import compare
from msprobe.report.html import page
from tests.compare.dumps import call, module, number, tensor, write
from tests.report.html.browser import Report, browser, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser")
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=document.title='taken'>"
GENERATE = Path(__file__).parents[3] / "benchmarks" / "generate_dump.py"


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser() as started:
        yield started


def layers(wrong: int | None) -> dict[str, Any]:
    """Twenty layers; from the wrong one on every output is too large."""
    data: dict[str, Any] = {}
    scale = 1.0
    for layer in range(20):
        given, scale = scale, 2.0 if wrong is not None and layer >= wrong else 1.0
        data[f"Module.layers.{layer}.Linear.forward.0"] = module([tensor(given)], [tensor(scale)], weight=tensor())
    data["Functional.gelu.0.forward"] = call([tensor(scale)], [tensor(scale)], approximate=number("none"))
    return data


def stacks(data: dict[str, Any]) -> dict[str, list[str]]:
    return {name: [f"File model.py, line {k}, in forward, \n x = layer(x)"] for k, name in enumerate(data)}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    for step in (0, 1):
        for rank in (0, 1):
            bad = layers(7 if (step, rank) == (1, 1) else None)
            write(folder / f"t/step{step}/rank{rank}", bad, stack=stacks(bad))
            write(folder / f"g/step{step}/rank{rank}", layers(None))
    compare(folder / "t", folder / "g", output=folder / "o", html=folder / "report.html")
    return folder / "report.html"


@pytest.fixture
def report(driver: Any, written: Path) -> Report:
    """Return the report as it opens; a test may click what it wants."""
    return Report(driver, written)


def test_it_says_what_went_wrong_first(report: Report) -> None:
    assert report.one("#verdict").text == "DIVERGED"
    assert report.one("#first-name").text == "Module.layers.7.Linear.forward.0"
    assert "model.py:7 in forward: x = layer(x)" in report.one("#source").text
    assert "1" in report.texts("#first dd")[:2] and report.texts(".stack li") != []
    assert report.texts("#pairs tbody tr.chosen td:nth-child(2)") == ["rank1"]
    assert report.errors() == []


def test_it_opens_at_the_culprit(report: Report) -> None:
    shown = dict(zip(report.texts("#details dt"), report.texts("#details dd"), strict=True))
    assert shown["target name"] == "Module.layers.7.Linear.forward.0.output.0" and shown["Result"] == "error"
    assert report.texts("#rows .row.chosen > span")[1] == "error"


def test_the_screen_speaks_of_target_and_golden(report: Report) -> None:
    heads = report.texts("#head button")
    assert {"target name", "golden name", "target max", "golden max", "target stack"} <= set(heads)
    assert not [head for head in heads if "NPU" in head or "Bench" in head]


def test_it_says_which_version_made_it_and_when(report: Report) -> None:
    made = report.one("header time").get_attribute("datetime")
    assert f"by msprobe {__version__} on {made[:10]} at" in report.one(".runs").text


def test_the_chart_shows_errors_in_multiples_of_their_tolerance(report: Report) -> None:
    assert report.one("#under-chart").text.startswith("error / tolerance of every value")


def test_titles_sort_and_the_second_click_turns_the_order(report: Report) -> None:
    report.sort("Deviation")
    down = [float(cell) for cell in report.column("Deviation")]
    assert down == sorted(down, reverse=True) and down[0] > 0.1
    report.sort("Deviation")
    assert report.column("Deviation")[0] == "0"
    report.sort("NPU Name")
    names = report.column("target name")
    assert names[0].startswith("Functional.gelu")
    assert names.index("Module.layers.2.Linear.forward.0.input.0") > names.index(
        "Module.layers.1.Linear.forward.0.input.0"
    )
    report.sort("#")
    assert report.column("#")[:3] == ["1", "2", "3"]


def test_search_and_levels_narrow_the_table(report: Report) -> None:
    everything = report.found()
    report.search("LAYERS.7.")
    assert report.found().startswith("3 of")
    assert {name.rsplit(".forward", 1)[0] for name in report.column("target name")} == {"Module.layers.7.Linear"}
    report.one("#filters .pass input").click()
    assert "pass" not in report.column("Result") and report.column("Result") != []
    report.one("#filters .pass input").click()
    report.search(" ")
    assert report.found() == everything


def test_a_row_opens_its_details(report: Report) -> None:
    report.one("#rows .row:nth-child(2)").click()
    shown = dict(zip(report.texts("#details dt"), report.texts("#details dd"), strict=True))
    assert shown["target name"] == report.column("target name")[1] and shown["target max"] == "2"
    report.one("#close").click()
    assert not report.one("#details").is_displayed()


def test_a_click_into_the_chart_goes_to_the_row(report: Report) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    chart = report.one("#chart")
    ActionChains(report.driver).move_to_element(chart).click().perform()
    shown = dict(zip(report.texts("#details dt"), report.texts("#details dd"), strict=True))
    rows = int(report.found().split()[-2])
    assert abs(int(shown["#"]) - rows / 2) < rows / 4


def test_another_pair_is_one_click_away(report: Report) -> None:
    report.one('tr[data-pair="0"]').click()
    report.wait("document.body.dataset.ready === '0'")
    assert set(report.column("Result")) == {"pass"}
    assert report.one("#shown-pair").text == "of step 0, rank0"


def test_frames_of_libraries_are_folded(driver: Any, tmp_path: Path) -> None:
    own = "File /home/me/net.py, line 3, in forward, \n x = relu(x)"
    library = "File /env/lib/python3.11/site-packages/torch/nn/modules/module.py, line 1, in _call_impl, \n return f()"
    name = "Functional.relu.0.forward"
    other = own.replace("net.py, line 3", "old.py, line 8")
    left = write(tmp_path / "t", {name: call([tensor()], [tensor(3.0)])}, stack={name: [library, own, library]})
    right = write(tmp_path / "g", {name: call([tensor()], [tensor()])}, stack={name: [library, other]})
    compare(left, right, html=tmp_path / "r.html")
    report = Report(driver, tmp_path / "r.html")
    assert report.texts("#first dt")[1:3] == ["source, target", "source, golden run"]
    lines = [f"/home/me/{line} in forward: x = relu(x)" for line in ("net.py:3", "old.py:8")]
    assert report.texts("#first dd code")[1:3] == lines
    report.one("details.calls summary").click()
    items = "details.calls:first-of-type li"
    visible = "return [...document.querySelectorAll(arguments[0])].filter((one) => one.offsetHeight).length"
    assert driver.execute_script(visible, items) == 1 and len(report.texts(items)) == 2
    report.one(".all-frames").click()
    assert driver.execute_script(visible, items) == 2 and report.errors() == []


def test_names_of_users_stay_text(driver: Any, tmp_path: Path) -> None:
    data = {f"Functional.{HOSTILE}.0.forward": call([tensor(), number(HOSTILE)], [tensor(3.0)])}
    other = {f"Functional.{HOSTILE}.0.forward": call([tensor(), number("x")], [tensor()])}
    left = write(tmp_path / "t", data, stack={next(iter(data)): [HOSTILE]})
    compare(left, write(tmp_path / "g", other), html=tmp_path / "r.html")
    report = Report(driver, tmp_path / "r.html")
    report.search("onerror")
    assert driver.title == "msprobe compare: diverged" and HOSTILE in report.column("target name")[0]
    assert report.texts("img") == [] and report.errors() == []


def test_every_kind_of_cell_is_shown_as_in_the_table(driver: Any, tmp_path: Path) -> None:
    values = [tensor(Max=float("nan"), Min=float("-inf")), number(123456789012), number("text"), None, number(0.1)]
    data = {"Functional.relu.0.forward": call(values, [tensor(1e-45), tensor(1e300)])}
    dump = write(tmp_path / "t", data)
    result = compare(dump, write(tmp_path / "g", data), html=tmp_path / "r.html")
    report = Report(driver, tmp_path / "r.html")
    titles = [*next(result.comparisons()).columns]
    labels = {"NPU max": "target max", "NPU min": "target min", "NPU Dtype": "target dtype", "Bench max": "golden max"}
    for title in ("Max diff", "Result", *labels):
        at = titles.index(title)
        shown = [_number(cell) for cell in report.column(labels.get(title, title))]
        assert shown == [_number(row.cells[at]) for row in result.rows()], title


def _number(cell: Any) -> Any:
    try:
        value = float(cell)
    except ValueError:
        return cell
    return str(value) if value in (float("inf"), -float("inf")) or value != value else pytest.approx(value, rel=1e-6)


def test_checksums_have_a_report_too(driver: Any, tmp_path: Path) -> None:
    left, right = (
        write(tmp_path / side, {"Functional.relu.0.forward": call([], [tensor(md5=side * 8)])}) for side in "ab"
    )
    compare(left, right, html=tmp_path / "r.html")
    assert Report(driver, tmp_path / "r.html").column("target MD5") == ["aaaaaaaa"]


def test_a_table_without_room_is_named_with_its_file(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "MOST_BYTES", 1)
    for rank in (0, 1):
        write(tmp_path / f"t/step0/rank{rank}", layers(None))
    compare(tmp_path / "t", tmp_path / "t", output=tmp_path / "o", html=tmp_path / "r.html")
    report = Report(driver, tmp_path / "r.html")
    report.one('tr[data-pair="1"]').click()
    assert "is not part of the report" in report.one("#state").text and "rank1" in report.one("#state").text


def test_runs_that_cannot_be_compared_say_why(driver: Any, tmp_path: Path) -> None:
    write(tmp_path / "t/step0/rank0", layers(None)), write(tmp_path / "g/step0/rank1", layers(None))
    compare(tmp_path / "t", tmp_path / "g", html=tmp_path / "r.html")
    report = Report(driver, tmp_path / "r.html")
    assert report.one("#verdict").text == "NOT COMPARABLE" and "rank0" in report.one(".runs").text


@pytest.mark.slow
@pytest.mark.matrix("pages")
def test_200_000_rows_stay_fluid(driver: Any, tmp_path: Path) -> None:
    """Only the rows in sight exist; order, search and scrolling answer at once (with room for a loaded machine)."""
    sides = []
    for seed in ("0", "1"):
        subprocess.run(
            [sys.executable, GENERATE, tmp_path / seed, "--entries", "50000", "--seed", seed],
            check=True,
            capture_output=True,
        )
        sides.append(tmp_path / seed / "step0")
    compare(sides[1], sides[0], html=tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size < 30_000_000
    began = time.monotonic()
    report = Report(driver, tmp_path / "r.html")
    assert time.monotonic() - began < 20 and report.found() == "200,000 of 200,000 rows"
    assert len(report.texts("#rows .row")) < 60
    report.sort("Deviation")
    report.search("softmax.77.")
    assert int(report.one("#found").get_attribute("data-milliseconds")) < 2000
    report.search(" ")
    script = """
        const table = document.getElementById("table"), done = arguments[0], times = [];
        let last = performance.now(), step = 0;
        const scroll = (now) => {
          times.push(now - last); last = now;
          table.scrollTop += 3777;
          if (++step < 60) requestAnimationFrame(scroll); else done(times.slice(1).sort((a, b) => a - b));
        };
        requestAnimationFrame(scroll);
    """
    frames = driver.execute_async_script(script)
    assert frames[len(frames) // 2] < 100
    driver.execute_script("document.getElementById('table').scrollTop = 1e9")
    report.sort("#")
    driver.execute_script("document.getElementById('table').scrollTop = 1e9")
    report.wait(
        "[...document.querySelectorAll('#rows .row > span:first-child')].some((c) => c.textContent === '200000')"
    )
