"""Each page of docs/developing is walked: its edits are made in a copy of the repository, and its commands run there.

What a block of such a page means:

| fence                   | meaning                                                                           |
|-------------------------|-----------------------------------------------------------------------------------|
| ``diff title="FILE"``   | an edit: the lines marked with a blank and ``-`` stand in FILE exactly once, in   |
|                         | this order; they become the lines marked with a blank and ``+``. ``@@`` separates |
|                         | several edits                                                                     |
| other, ``title="FILE"`` | a new file                                                                        |
| ``console``             | each ``$ command`` is run in the copy, ends with 0 and prints the lines below it  |
| ``python``              | a program, run in the copy                                                        |
| ``text``                | shown only                                                                        |

``TARGETS`` says how many files of the repository a page may edit or add, ``EDITS`` how many existing ones. Programs in
``walk/`` do not count, nor do files that a command of the page generates.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import forked
from tests.docs.pages import Block, blocks, commands, missing
from tests.rules.tree import ROOT, label

FOLDER = ROOT / "docs" / "developing"
TARGETS = {
    "add-a-statistic": 9,
    "add-a-task": 4,
    "add-a-metric": 3,
    "add-an-alignment": 3,
    "add-a-backend": 5,
}
EDITS = {"add-a-backend": 2}
PAGES = sorted(FOLDER.glob("*.md"))
NEEDS_TORCH = {"add-a-statistic", "add-a-task"}
FOLDERS = ("msprobe", "tests", "schemas", "scripts", "docs", "examples", "benchmarks")
FILES = ("pyproject.toml", "setup.py", "README.md")
SCRATCH = "walk/"
"""Folder of the reader's own files, which are no part of the repository."""


@dataclass
class Walk:
    """A page and the copy of the repository in which its reader works."""

    page: Path
    copy: Path
    edited: set[str] = field(default_factory=set)
    added: set[str] = field(default_factory=set)

    def all(self) -> None:
        """Follow the page from top to bottom; AssertionError names the block that does not do what it says."""
        for block in blocks(self.page):
            if not block.reason:
                self._follow(block, f"{self.page.name}:{block.line}")

    def _follow(self, block: Block, where: str) -> None:
        if block.title:
            self._edit(block, where)
        elif block.language == "python":
            self._run(f"python - <<'END'\n{block.body}\nEND", (), where)
        elif block.language == "console":
            for command in commands(block):
                self._run(command.line, command.shown, where)

    def _edit(self, block: Block, where: str) -> None:
        target = self.copy / block.title
        if block.language == "diff":
            assert target.is_file(), f"{where}: there is no file {block.title}"
            text = target.read_text(encoding="utf-8")
            for hunk in re.split(r"^@@.*\n", block.body, flags=re.MULTILINE):
                text = replaced(text, hunk, f"{where}: {block.title}")
        else:
            assert not target.exists(), f"{where}: {block.title} is there already; edit it with a diff block"
            text = block.body
            target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        if not block.title.startswith(SCRATCH) and block.title not in self.added:
            (self.edited if block.language == "diff" else self.added).add(block.title)

    def _run(self, line: str, shown: tuple[str, ...], where: str) -> None:
        tools = os.pathsep.join(str(Path(python).parent) for python in (forked.python(), sys.executable))
        environment = {
            **os.environ,
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.copy),
            "COLUMNS": "200",
        }
        result = subprocess.run(
            ["bash", "-c", line],
            cwd=self.copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        assert result.returncode == 0, f"{where}: {line}\n{result.stdout}"
        absent = missing(shown, result.stdout)
        assert absent is None, (
            f"{where}: {line}\nthe output has no line\n    {absent}\nat its place; it is\n{result.stdout}"
        )


def replaced(text: str, hunk: str, where: str) -> str:
    """Return the text with one edit made; AssertionError when its old lines do not stand there exactly once."""
    lines = [line or " " for line in hunk.splitlines()]
    if not any(line.strip() for line in lines):
        return text
    wrong = [line for line in lines if line[0] not in " +-"]
    assert wrong == [], f"{where}: a line of a diff begins with a blank, + or -"
    old = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
    new = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
    assert text.count(old) == 1, f"{where}: these lines stand there {text.count(old)} times\n{old}"
    return text.replace(old, new)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the repository without caches and recorded data."""
    folder = tmp_path / "msprobe_copy"
    folder.mkdir()
    leave_out = shutil.ignore_patterns("__pycache__", "golden*", "*.png", "cases", "*.db")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=leave_out)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    return folder


def _marked(page: Path) -> object:
    marks = [pytest.mark.slow, *([pytest.mark.torch] if page.stem in NEEDS_TORCH else [])]
    return pytest.param(page, id=page.stem, marks=marks)


@pytest.mark.parametrize("page", [_marked(page) for page in PAGES])
def test_a_page_does_what_it_says(page: Path, copy: Path) -> None:
    walk = Walk(page, copy)
    walk.all()
    touched = walk.edited | walk.added
    assert len(touched) <= TARGETS.get(page.stem, 0), f"more files than promised: {sorted(touched)}"
    assert len(walk.edited) <= EDITS.get(page.stem, len(touched)), f"more edits than promised: {sorted(walk.edited)}"


def test_the_index_names_every_page() -> None:
    text = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if page.stem != "index" and f"({page.name})" not in text] == []


def test_every_file_that_a_page_names_exists() -> None:
    """In backquotes, from the root of the repository; new files of the reader stand in ``walk/``."""
    names = re.compile(r"`((?:msprobe|tests|docs|scripts|schemas|benchmarks|examples)/[\w./-]+)`")
    named = [(page, name) for page in PAGES for name in names.findall(page.read_text(encoding="utf-8"))]
    created = {block.title for page in PAGES for block in blocks(page)}
    wanted = [(page, name) for page, name in named if name not in created and "NAME" not in name]
    absent = [f"{label(page)}: {name}" for page, name in wanted if not (ROOT / name).exists()]
    assert absent == []


PAGE = """
```diff title="a.py"
 first
-second
+other
@@
+zero
 first
```

```console
$ cat a.py walk/b.txt
zero
other
new
```

```text title="walk/b.txt"
new
```
"""


def walked(text: str, folder: Path) -> Walk:
    (folder / "a.py").write_text("first\nsecond\nthird\n")
    page = folder / "page.md"
    page.write_text(text)
    walk = Walk(page, folder)
    walk.all()
    return walk


def test_edits_are_made_in_order_and_counted(tmp_path: Path) -> None:
    first, command, last = re.split(r"\n(?=```(?:console|text))", PAGE.strip())
    walk = walked("\n\n".join([first, last, command]), tmp_path)
    assert (tmp_path / "a.py").read_text() == "zero\nfirst\nother\nthird\n"
    assert (walk.edited, walk.added) == ({"a.py"}, set())


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param('```diff title="a.py"\n-absent\n+new\n```\n', "0 times", id="lines-that-are-not-there"),
        pytest.param('```diff title="b.py"\n-first\n```\n', "no file b.py", id="a-file-that-is-not-there"),
        pytest.param('```python title="a.py"\nnew\n```\n', "is there already", id="a-new-file-that-exists"),
        pytest.param("```console\n$ false\n```\n", "false", id="a-command-that-fails"),
        pytest.param("```console\n$ echo one\ntwo\n```\n", "no line", id="another-output"),
        pytest.param("```python\nassert False\n```\n", "AssertionError", id="a-program-that-fails"),
    ],
)
def test_a_page_that_does_not_work_is_seen(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=fault):
        walked(text, tmp_path)
