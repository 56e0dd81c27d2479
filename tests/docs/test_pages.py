"""Every program, command and configuration of the README and the guide does what its page says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.docs.pages import LANGUAGES, PAGES, blocks, commands, missing
from tests.docs.visit import Visit
from tests.rules.tree import ROOT, label

GUIDE = [page for page in PAGES if page != ROOT / "README.md"]
SLOW = {
    "docs/guide/collection/compile.md",
    "docs/guide/collection/distributed.md",
    "docs/guide/collection/doctor.md",
    "docs/guide/filters.md",
    "docs/guide/collection/integrations.md",
    "docs/guide/many_ranks.md",
    "docs/guide/mapping_files.md",
}
"""They run many programs, some of several processes."""
WIDE = {
    "docs/guide/acc_check.md",
    "docs/guide/collection/compile.md",
    "docs/guide/collection/integrations.md",
    "docs/guide/collection/when_it_matters.md",
    "docs/guide/compiled_modules.md",
    "docs/guide/filters.md",
    "docs/guide/many_ranks.md",
    "docs/guide/mapping_files.md",
    "docs/guide/mindspore/two_frameworks.md",
    "docs/guide/monitor.md",
    "docs/guide/noise.md",
    "docs/guide/other_code.md",
    "docs/guide/parallel_layouts.md",
    "docs/guide/servers.md",
    "docs/guide/setup_check.md",
}
"""They take longest, and what they show is tested elsewhere too: the matrix runs them, CI the others."""
NEEDS = {"docs/guide/collection/integrations.md": ("transformers", "accelerate", "lightning")}


def _marked(page: Path) -> object:
    marks = [pytest.mark.slow] if label(page) in SLOW else []
    if label(page) in WIDE:
        marks.append(pytest.mark.matrix("wide"))
    if label(page).startswith("docs/guide/mindspore/"):
        marks.append(pytest.mark.mindspore)
    return pytest.param(page, id=label(page), marks=marks)


@pytest.mark.torch
@pytest.mark.parametrize("page", [_marked(page) for page in PAGES])
def test_page_is_true(page: Path, tmp_path: Path) -> None:
    for package in NEEDS.get(label(page), ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    Visit(page, tmp_path).all()


def test_every_page_that_is_listed_exists() -> None:
    assert [name for name in (*SLOW, *WIDE, *NEEDS) if ROOT / name not in PAGES] == []


def test_every_block_is_tried_or_says_why_not() -> None:
    silent = [(page, block) for page in GUIDE for block in blocks(page) if block.language not in LANGUAGES]
    assert [f"{label(page)}:{block.line}" for page, block in silent if not block.reason and not block.title] == []


def test_the_index_has_every_page() -> None:
    index = ROOT / "docs" / "guide" / "README.md"
    text = index.read_text(encoding="utf-8")
    names = [page.relative_to(index.parent).as_posix() for page in GUIDE if page != index]
    assert [name for name in names if f"({name})" not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("```python\nassert False\n```\n", id="a-program-that-fails"),
        pytest.param("```console\n$ msprobe validate nothing.json\n```\n", id="a-command-that-fails"),
        pytest.param("```console\n$ echo one\ntwo\n```\n", id="an-output-that-is-not-there"),
        pytest.param('```json\n{"levle": "L1"}\n```\n', id="a-configuration-with-a-mistake"),
    ],
)
def test_a_page_that_lies_is_seen(text: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:1"):
        Visit(_page(text, tmp_path), tmp_path).all()


def _page(text: str, folder: Path) -> Path:
    page = folder / "page.md"
    page.write_text(text)
    return page


def test_what_a_page_may_say(tmp_path: Path) -> None:
    told, out, shown = blocks(
        _page(
            '```json title="a.json"\n{}\n```\n\nNot run here: needs an\nNPU.\n\n```sh\nrun\n```\n\n'
            "```console\n$ ls\na.json\n$ true\n```\n",
            tmp_path,
        )
    )
    assert (told.language, told.title, told.line) == ("json", "a.json", 1)
    assert (told.reason, out.reason) == ("", "needs an NPU.")
    assert [(command.line, command.shown) for command in commands(shown)] == [("ls", ("a.json",)), ("true", ())]


@pytest.mark.parametrize(
    ("shown", "output", "first_missing"),
    [
        pytest.param("b", "a\nb\nc", None, id="between"),
        pytest.param("b\na", "a\nb", "a", id="order"),
        pytest.param("at .../dump.json", "at /data/dump.json", None, id="dots"),
        pytest.param("at .../dump.json", "at /data/stack.json", "at .../dump.json", id="dots-and-an-end"),
        pytest.param("b", "bc", "b", id="whole-lines"),
    ],
)
def test_shown_lines_and_real_ones(shown: str, output: str, first_missing: str | None) -> None:
    assert missing(shown, output) == first_missing
