"""The table of what users may ask for, ``docs/coverage.yaml``: read, checked and written as ``docs/coverage.md``.

Each row of a group names one thing or several alike (``names``), the documents that have it, and a test with a guide
page, or the reason why not. A group may give ``test`` and ``page`` for all of its rows. ``status`` is one of

    works       the default: test and page are given
    refused     msprobe says in one line what to do instead
    later       an issue brings it; nothing of this name works today
    begun       the same, but some of it works already; the page comes with the rest
    elsewhere   another program does it, with which msprobe works

The checkers below ask msprobe itself, so that a row can neither promise what is missing nor hide what works.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

from tests.rules.tree import ROOT

TABLE = ROOT / "docs" / "coverage.yaml"
PAGE = ROOT / "docs" / "coverage.md"
Status = Literal["works", "refused", "later", "begun", "elsewhere"]
Kind = Literal["key", "table key", "command", "option", "import", "argument", "file", "function"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Row(_Strict):
    """One line of the YAML file; several names have a line each on the page."""

    names: str | list[str]
    documents: str = ""
    what: str = ""
    status: Status = "works"
    test: str = ""
    page: str = ""
    mention: str = ""
    why: str = ""


class Group(_Strict):
    """The rows of one kind, under one heading."""

    title: str
    kind: Kind
    of: str = ""
    documents: str = ""
    test: str = ""
    page: str = ""
    rows: list[Row]


class Table(_Strict):
    """The whole file."""

    documents: dict[str, str]
    versions: list[str]
    groups: list[Group]


class Entry(_Strict):
    """One line of the page."""

    kind: Kind
    of: str
    name: str
    documents: str
    what: str
    status: Status
    test: str
    page: str
    mention: str
    why: str


@functools.cache
def table() -> Table:
    """Return the table, read from its file."""
    return Table.model_validate(yaml.safe_load(TABLE.read_text(encoding="utf-8")))


def entries(group: Group) -> Iterator[Entry]:
    """Yield the lines of one group."""
    for row in group.rows:
        works = row.status == "works"
        for name in [row.names] if isinstance(row.names, str) else row.names:
            yield Entry(
                kind=group.kind,
                of=group.of,
                name=name,
                documents=row.documents or group.documents,
                what=row.what,
                status=row.status,
                test=row.test or (group.test if works else ""),
                page=row.page or (group.page if works else ""),
                mention=row.mention,
                why=row.why,
            )


def all_entries() -> list[Entry]:
    """Return the lines of all groups."""
    return [entry for group in table().groups for entry in entries(group)]


# ---------------------------------------------------------------- what a line promises


def faults(entry: Entry) -> list[str]:
    """Return what is wrong with a line: a test or page that is not there, or a status that is not true."""
    found = list(_reference_faults(entry))
    check = {
        "key": _key_fault,
        "option": _option_fault,
        "command": _command_fault,
        "import": _import_fault,
        "argument": _argument_fault,
    }.get(entry.kind)
    if check is not None and entry.status not in {"elsewhere", "begun"}:
        found += [fault for fault in [check(entry)] if fault]
    return [f"{entry.kind} {entry.of} {entry.name}: {fault}" for fault in found]


def _reference_faults(entry: Entry) -> Iterator[str]:
    if entry.status == "works" and not (entry.test and entry.page):
        yield "give a test and a page, or a status and why"
    if entry.status != "works" and not entry.why:
        yield "say why"
    if entry.test and not test_exists(entry.test):
        yield f"no test {entry.test}"
    if entry.page:
        path = ROOT / "docs" / entry.page
        if not path.is_file():
            yield f"no page {entry.page}"
        elif not _mentions(path.read_text(encoding="utf-8"), entry):
            yield f"{entry.page} does not mention it"


@functools.cache
def _functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_exists(reference: str) -> bool:
    """Return whether ``tests/X/test_Y.py::test_Z`` names a test function."""
    path, _, name = reference.partition("::")
    return (ROOT / path).is_file() and name.startswith("test_") and name in _functions(ROOT / path)


def _mentions(text: str, entry: Entry) -> bool:
    if entry.mention:
        return entry.mention in text
    if entry.kind == "option":
        plain = text.replace("_", "-")
        return any(word.replace("_", "-") in plain for word in entry.name.split())
    last = entry.name.rpartition(":")[2].rpartition(".")[2] if entry.kind in {"key", "import"} else entry.name
    return last in text


def _key_fault(entry: Entry) -> str:
    from msprobe.core.config.models import LoadConfig
    from msprobe.core.config.normalize import COMMON_KEYS, SECTIONS, section_keys
    from msprobe.core.config.sections import SliceItem

    place, _, key = entry.name.rpartition(".")
    if place in SECTIONS:
        known = section_keys(place)
    else:
        fields = {"": COMMON_KEYS | SECTIONS.keys(), "load": LoadConfig.model_fields, "slice": SliceItem.model_fields}
        known = frozenset(fields.get(place, {}))
    return _truth(entry, key in known, "is a key of the model")


def _option_fault(entry: Entry) -> str:
    words = _option_words(entry.of)
    missing = [word for word in entry.name.split() if word.replace("_", "-") not in words]
    if entry.status == "refused":
        from msprobe.cli.options.published_names import option_advice

        silent = [word for word in entry.name.split() if not option_advice(entry.of, word)]
        return "" if not silent else f"{' '.join(silent)} is refused without advice"
    if entry.status == "works" and missing:
        return f"the command has no {' '.join(missing)}"
    return _truth(entry, not missing, "is an option of the command")


@functools.cache
def _option_words(command: str) -> frozenset[str]:
    import click

    from msprobe.cli.main import cli

    context = click.Context(cli, **cli.context_settings)
    found = cli if command == "msprobe" else cli.get_command(context, command)  # type: ignore[attr-defined]
    if found is None:
        return frozenset()
    words = {word for parameter in found.get_params(context) for word in [*parameter.opts, *parameter.secondary_opts]}
    return frozenset(word.replace("_", "-") for word in words | {"-h", "--help"})


def _command_fault(entry: Entry) -> str:
    from msprobe.cli.main import COMMANDS
    from msprobe.cli.options.published_names import command_advice

    if entry.status == "refused":
        return "" if command_advice(entry.name) else "is refused without advice"
    return _truth(entry, entry.name in COMMANDS, "is a command")


def _import_fault(entry: Entry) -> str:
    module, _, path = entry.name.partition(":")
    try:
        value: Any = importlib.import_module(module)
        for name in filter(None, path.split(".")):
            value = getattr(value, name)
    except (ImportError, AttributeError) as error:
        if ":" in entry.name and "." not in path and _is_module(f"{module}.{path}"):
            return _truth(entry, True, "can be used")  # `from package import module` finds it too
        return "" if entry.status != "works" else f"cannot be imported: {error}"
    return _truth(entry, True, "can be used")


def _is_module(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _argument_fault(entry: Entry) -> str:
    module, _, path = entry.of.partition(":")
    value: Any = importlib.import_module(module)
    for name in path.split("."):
        value = getattr(value, name)
    return _truth(entry, entry.name in inspect.signature(_constructor(value)).parameters, "is an argument")


def _constructor(value: Any) -> Any:
    """Return the function that takes the arguments of a call of ``value``."""
    for kind in value.__mro__[:-1] if isinstance(value, type) else ():
        for name in ("__new__", "__init__"):
            if name in vars(kind):
                return getattr(kind, name)
    return value


def _truth(entry: Entry, there: bool, words: str) -> str:
    if entry.status == "works":
        return "" if there else f"nothing of this name {words}"
    return f"says {entry.status}, but it {words}" if there else ""


# ---------------------------------------------------------------- the page


def page() -> str:
    """Return the page as Markdown."""
    lines = [
        "# What users may ask for, and where it is",
        "",
        "Generated by `scripts/coverage_page` from [coverage.yaml](coverage.yaml). A test checks every line: that the",
        "name is there, its test exists, and its page mentions it. *Refused*: one line says what to do instead.",
        "*Later*: it is not part of this release. *Begun*: only a part of it is. *Elsewhere*: another program does it.",
        "",
        "The column *in* names the document that asks for it:",
        "",
        *[f"- {short}: {title}" for short, title in table().documents.items()],
        "",
        "## Versions",
        "",
        *[f"- {line}" for line in table().versions],
    ]
    for group in table().groups:
        lines += ["", f"## {group.title}", "", "| name | in | test | page, or why not |", "| --- | --- | --- | --- |"]
        lines += [_line(entry) for entry in entries(group)]
    return "\n".join(lines) + "\n"


def _line(entry: Entry) -> str:
    name = _cell(f"`{entry.name}`" if entry.kind != "function" else entry.name) + (
        f": {_cell(entry.what)}" if entry.what else ""
    )
    path, _, function = entry.test.partition("::")
    test = f"[{function.removeprefix('test_').replace('_', ' ')}](../{path})" if entry.test else ""
    link = f"[{entry.page.removeprefix('guide/')}]({entry.page})" if entry.page else ""
    reason = "" if entry.status == "works" else f"{entry.status}: "
    return f"| {name} | {entry.documents} | {test} | {'; '.join(filter(None, [link, reason + _cell(entry.why)]))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
