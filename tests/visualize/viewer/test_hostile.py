"""NameCache and values that are markup, very long, unprintable or written from right to left, from a dump to the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msprobe.visualize.job import Request, visualize
from tests.compare.dumps import Entry, call, tensor, write

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PLAIN = "Functional.relu.0.forward"
# what is recorded, and how it is written
CASES = [
    pytest.param('<img src=x onerror="window.hurt=1">', None, id="html"),
    pytest.param("</script><script>window.hurt=1</script><!--", None, id="script"),
    pytest.param("'\"`\\${window.hurt=1}&amp;&#39;", None, id="quotes"),
    pytest.param("__proto__", None, id="prototype"),
    pytest.param("long" * 5000, None, id="very-long"),
    pytest.param("a\x00b\x01\x1b[31m\x7f", "a\\u0000b\\u0001\\u001b[31m\\u007f", id="control"),
    pytest.param("\u202eSSAP\u202c\u2066x", "\\u202eSSAP\\u202c\\u2066x", id="turned"),
    pytest.param("مرحبا", None, id="right-to-left"),
    pytest.param("\u200b\ufeff", "\\u200b\\ufeff", id="no-width"),
    pytest.param("模块🙂", None, id="wide"),
]


def draw(folder: Path, hostile: str) -> Path:
    """Two runs with the text as a name, a dtype, an argument, the name of an argument, and in the stack."""
    name = f"Functional.{hostile}.0.forward"

    def run(scale: float) -> dict[str, Entry]:
        argument = {"type": hostile, "value": hostile}
        data = call([tensor(), argument], [tensor(scale, dtype=hostile)], **{hostile: tensor()})
        return {name: data, PLAIN: call([tensor(scale)], [tensor(scale)])}

    stack = {name: [f"File {hostile}.py, line 3, in {hostile}, \n {hostile}"]}
    construct = {name: None, PLAIN: None}
    target, golden = (write(folder / side, run(size), construct, stack) for side, size in (("bad", 1.5), ("good", 1.0)))
    return visualize(Request(target=target, golden=golden, output=folder / "out", overflow=True))


@pytest.mark.parametrize(("hostile", "written"), CASES)
def test_text_stays_text(view: Callable[..., Any], tmp_path: Path, hostile: str, written: str | None) -> None:
    page = view(draw(tmp_path, hostile))
    name, shown = f"Functional.{hostile}.0.forward", written or hostile
    assert page.selected == f"Functional.{shown}.0.forward"
    assert page.run("return document.querySelector('.line.selected').dataset.name") == name
    assert shown in page.run("return document.querySelector('.line.selected .label').textContent")
    page.click("#tab-stack")
    assert f"{shown}.py:3" in page.until(lambda: page.text(".stack"), bool)
    for tab in ("about", "match", "parameters"):
        page.click(f"#tab-{tab}")
    for key in "gclos":
        page.press(key)
    page.press("g")
    cells = page.until(lambda: page.run("return document.querySelector('.parameters')?.textContent"), bool)
    assert f"input.{shown}" in cells and f"<class {shown}>".replace("'", "") in cells  # as stored
    assert page.run("return [window.hurt ?? null, document.images.length]") == [None, 0]
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    assert page.run("return document.querySelector('.details .sheet').clientHeight") > 150
    page.click("#view-differences")
    rows = page.until(lambda: page.all(".nodes tbody tr"), lambda found: len(found) == 2)
    assert all(row.size["height"] < 200 for row in rows)


@pytest.mark.parametrize(("hostile", "written"), CASES)
def test_a_link_and_a_search_find_it(
    view: Callable[..., Any], tmp_path: Path, hostile: str, written: str | None
) -> None:
    page = view(draw(tmp_path, hostile), link=f"#node={PLAIN}")
    assert page.selected == PLAIN
    store = "window.msprobeView"
    page.run(f"{store}.narrow({{ query: arguments[0] }})", hostile)
    names = page.until(lambda: page.lines, lambda lines: PLAIN not in lines)
    page.run(f"{store}.narrow({{ query: '' }}); {store}.select({store}.state.model.find(arguments[0]))", names[-1])
    address = page.until(lambda: page.driver.current_url, lambda url: PLAIN not in url)
    page.open(address)
    assert page.run("return document.querySelector('.line.selected').dataset.name") == names[-1]
