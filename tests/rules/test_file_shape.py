"""One idea per file: no file grows too long, none is named after nothing, none names a machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.rules.tree import label, sources, texts

LONGEST_FILE = 300
GRAB_BAGS = re.compile(r"^_?(utils?|commons?|helpers?|misc|const(ant)?s?)$")
MACHINE_PATH = re.compile(r"(?<![\w.~<>}-])/(?:work|root|tmp)/")


@pytest.mark.parametrize("path", sources(), ids=label)
def test_file_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("path", [path for path in sources() if path.name != "__init__.py"], ids=label)
def test_file_says_its_idea(path: Path) -> None:
    first = path.read_text(encoding="utf-8").lstrip()
    assert first.startswith(('"""', 'r"""')), "the module docstring is missing"


def test_no_grab_bag_names() -> None:
    names = {part for path in sources() + sources("tests") for part in (path.stem, *Path(label(path)).parts[:-1])}
    assert [name for name in sorted(names) if GRAB_BAGS.match(name)] == []


def test_no_file_names_a_machine_path() -> None:
    found = [
        f"{label(path)}:{number}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert found == []
