"""docs/coverage.md: every published name has its line, every line is true, and the page is that of the table."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.docs.coverage import PAGE, Entry, all_entries, faults, page, table
from tests.rules.tree import ROOT

pytestmark = [pytest.mark.torch, pytest.mark.mindspore]

PUBLISHED: dict[str, Any] = yaml.safe_load(
    (ROOT / "tests" / "docs" / "published_names.yaml").read_text(encoding="utf-8")
)
ISSUES: set[str] = set()
"""What is promised for later; each goes when its last line works."""


def line(**fields: str) -> Entry:
    """Return a line that has only these fields."""
    empty = dict.fromkeys(Entry.model_fields, "") | {"kind": "function", "status": "works"}
    return Entry.model_validate(empty | fields)


def published() -> set[tuple[str, str, str]]:
    """Return every published name as kind, what it belongs to, and name."""
    from msprobe.cli.main import COMMANDS

    names = set()
    for section, keys in PUBLISHED["keys"].items():
        prefix = {"common": "", "every section": "statistics."}.get(section, f"{section}.")
        names |= {("key", "", f"{prefix}{key}") for key in keys}
    names |= {("table key", part, key) for part, keys in PUBLISHED["tables"].items() for key in keys}
    names |= {("command", "", command) for command in PUBLISHED["commands"]}
    names |= {("import", "", path) for path in PUBLISHED["imports"]}
    names |= {("argument", call, name) for call, of_call in PUBLISHED["arguments"].items() for name in of_call}
    names |= {("function", "", name) for name in PUBLISHED["functions"]}
    for command, options in PUBLISHED["options"].items():
        kind = "option" if command == "msprobe" or command in COMMANDS else "table key"  # of a command that is refused
        names |= {(kind, command, option) for option in options}
    return names


def test_every_published_name_has_a_line() -> None:
    listed = [(entry.kind, entry.of, entry.name) for entry in all_entries()]
    assert sorted(published() - set(listed)) == []
    assert sorted(name for name in set(listed) if listed.count(name) > 1) == []


def test_every_line_is_true() -> None:
    assert [fault for entry in all_entries() for fault in faults(entry)] == []


def test_nothing_else_is_promised() -> None:
    assert {entry.why.partition(";")[0] for entry in all_entries() if entry.status in {"later", "begun"}} == ISSUES


def test_every_document_is_known() -> None:
    named = {name for entry in all_entries() for name in entry.documents.split(", ")}
    assert named == set(table().documents)


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run scripts/coverage_page"


def test_the_versions_are_those_of_the_project() -> None:
    from msprobe.core.distribution import TESTED

    text = "\n".join(table().versions)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (oldest,) = re.findall(r'^requires-python = ">=(.+)"$', project, re.MULTILINE)
    assert f"older than {oldest}" in text
    pythons = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    assert f"Python {', '.join(pythons[:-1])} and {pythons[-1]} are supported" in text
    oldest_torch = ".".join(map(str, TESTED["torch"].oldest))
    assert f'torch = ["torch>={oldest_torch}"]' in project
    (torch,) = re.findall(r'^torch="torch==(\d+\.\d+)', (ROOT / "scripts" / "venv").read_text("utf-8"), re.MULTILINE)
    assert f"the suite runs on {torch} for CPU. {oldest_torch} and newer" in text
    mindspore = TESTED["mindspore"]
    assert f"older than {mindspore.oldest[0]}.{mindspore.oldest[1]}" in text
    assert f"newer than {mindspore.newest[0]}.{mindspore.newest[1]}" in text


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        (line(name="x"), "give a test and a page"),
        (line(name="x", status="later"), "say why"),
        (line(name="x", status="later", why="w", test="tests/docs/test_coverage.py::test_no_such"), "no test"),
        (line(name="nothing like it", status="later", why="w", page="support.md"), "does not mention it"),
        (line(name="x", status="later", why="w", page="no.md"), "no page"),
        (line(kind="key", name="statistics.scop", status="works"), "nothing of this name is a key"),
        (line(kind="key", name="statistics.scope", status="later", why="w"), "says later, but it is a key"),
        (line(kind="option", of="compare", name="-tp --target"), "the command has no --target"),
        (line(kind="option", of="compare", name="-tp", status="later", why="w"), "says later, but it is an option"),
        (line(kind="option", of="compare", name="-zz", status="refused", why="w"), "refused without advice"),
        (line(kind="command", name="compar"), "nothing of this name is a command"),
        (line(kind="command", name="frobnicate", status="refused", why="w"), "refused without advice"),
        (line(kind="import", name="msprobe.pytorch:Debugger"), "cannot be imported"),
        (line(kind="import", name="msprobe.pytorch:seed_all", status="later", why="w"), "says later, but it can"),
        (line(kind="argument", of="msprobe.pytorch:seed_all", name="sed"), "nothing of this name is an argument"),
    ],
)
def test_a_line_that_is_not_true_is_seen(entry: Entry, fault: str) -> None:
    assert any(fault in found for found in faults(entry)), faults(entry)
