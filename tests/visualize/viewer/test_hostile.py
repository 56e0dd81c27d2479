"""Names and values that are markup, very long, unprintable or written from right to left, from a dump to the page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from msprobe.visualize.job import Request, visualize
from tests.compare.dumps import Entry, call, tensor, write
from tests.visualize.viewer.sources import from_both, from_the_file

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PLAIN = "Functional.relu.0.forward"
HOSTILE = {
    '<img src=x onerror="window.hurt=1">': None,
    "</script><script>window.hurt=1</script><!--": None,
    "'\"`\\${window.hurt=1}&amp;&#39;": None,
    "__proto__": None,
    "long" * 5000: None,
    "a\x00b\x01\x1b[31m\x7f": "a\\u0000b\\u0001\\u001b[31m\\u007f",
    "\u202eSSAP\u202c\u2066x": "\\u202eSSAP\\u202c\\u2066x",
    "مرحبا": None,
    "\u200b\ufeff": "\\u200b\\ufeff",
    "模块🙂": None,
}
"""What is recorded -> how it is written, None where it is written as it is."""
IN_CI = 3
"""CI selects every third of them in the page, in which all of them stand."""
SELECT = "const page = window.msprobeView; page.select(page.state.model.find(arguments[0]))"

SELECTED_LINE = "return document.querySelector('.line.selected').dataset.name"


def name_of(text: str) -> str:
    return f"Functional.{text}.0.forward"


@pytest.fixture
def selected(pytestconfig: pytest.Config) -> list[str]:
    """Return the texts whose entries are selected one by one."""
    return list(HOSTILE)[:: 1 if pytestconfig.getoption("matrix") else IN_CI]


def draw(folder: Path) -> Path:
    """Two runs with each text as a name, a dtype, an argument, the name of an argument, and in the stack."""

    def run(scale: float) -> dict[str, Entry]:
        calls = {
            name_of(hostile): call(
                [tensor(), {"type": hostile, "value": hostile}],
                [tensor(scale, dtype=hostile)],
                **{hostile: tensor()},
            )
            for hostile in HOSTILE
        }
        return {**calls, PLAIN: call([tensor(scale)], [tensor(scale)])}

    stack = {name_of(hostile): [f"File {hostile}.py, line 3, in {hostile}, \n {hostile}"] for hostile in HOSTILE}
    construct = dict.fromkeys([*stack, PLAIN])
    target, golden = (write(folder / side, run(size), construct, stack) for side, size in (("bad", 1.5), ("good", 1.0)))
    return visualize(Request(target=target, golden=golden, output=folder / "out", overflow=True))


def is_in_stack(page: Any, text: str) -> bool:
    return text in page.text(".stack")


def is_in_order(page: Any) -> None:
    """Assert that no text has run, and that none has broken the layout."""
    assert page.run("return [window.hurt ?? null, document.images.length]") == [None, 0]
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.matrix("wide", sample=2)
@from_both
def test_text_stays_text(view: Callable[..., Any], selected: list[str], tmp_path: Path) -> None:
    page = view(draw(tmp_path))
    first = next(iter(HOSTILE))
    assert page.selected == name_of(first)
    for hostile in selected:
        shown = HOSTILE[hostile] or hostile
        page.run(SELECT, name_of(hostile))
        page.until(
            lambda: page.run("return document.querySelector('.line.selected').dataset.name"), name_of(hostile).__eq__
        )
        assert page.selected == name_of(shown)
        assert shown in page.run("return document.querySelector('.line.selected .label').textContent")
        page.click("#tab-stack")
        page.until(partial(is_in_stack, page, f"{shown}.py:3"), bool)
        for tab in ("about", "match", "parameters"):
            page.click(f"#tab-{tab}")
        cells = page.until(lambda: page.run("return document.querySelector('.parameters')?.textContent"), bool)
        assert f"input.{shown}" in cells and f"<class {shown}>".replace("'", "") in cells  # as stored
        is_in_order(page)
        assert page.run("return document.querySelector('.details .sheet').clientHeight") > 150


@from_both
def test_all_texts_stay_text_in_every_picture(view: Callable[..., Any], tmp_path: Path) -> None:
    page = view(draw(tmp_path))
    for key in "gclos":
        page.press(key)
        is_in_order(page)
    page.click("#view-differences")
    rows = page.until(lambda: page.all(".nodes tbody tr"), lambda found: len(found) == len(HOSTILE) + 1)
    assert all(row.size["height"] < 200 for row in rows)
    is_in_order(page)


@from_the_file
def test_a_link_and_a_search_find_it(view: Callable[..., Any], selected: list[str], tmp_path: Path) -> None:
    page = view(draw(tmp_path), link=f"#node={PLAIN}")
    for hostile in selected:
        assert page.selected == PLAIN
        page.run("window.msprobeView.narrow({ query: arguments[0] })", hostile)
        names = page.until(lambda: page.lines, lambda lines: PLAIN not in lines)
        assert names[-1] == name_of(hostile)
        page.run("window.msprobeView.narrow({ query: '' })")
        page.run(SELECT, names[-1])
        address = page.until(lambda: page.driver.current_url, lambda url: PLAIN not in url)
        page.run(SELECT, PLAIN)
        page.until(lambda: page.selected, PLAIN.__eq__)
        page.open(address)
        assert page.run(SELECTED_LINE) == names[-1]
        page.run(SELECT, PLAIN)
        page.until(lambda: page.selected, PLAIN.__eq__)
