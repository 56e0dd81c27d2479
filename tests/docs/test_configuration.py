"""The tables of configuration.md are the model of config.json: every key, default and value, no other ones."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest

from msprobe.core.backend.support import PYTORCH
from msprobe.core.config import DumpConfig, check_config
from msprobe.core.config.fields import ConfigModel
from msprobe.core.config.models import LoadConfig
from msprobe.core.config.normalize import COMMON_KEYS, SECTIONS, section_keys
from msprobe.core.config.sections import SliceItem
from msprobe.core.config.when_to_record import RingSettings, SampleSettings
from tests.rules.tree import ROOT

PAGE = ROOT / "docs" / "guide" / "configuration.md"
TEXT = PAGE.read_text(encoding="utf-8")
Row = dict[str, str]
_LEVELS = {"exception_dump": {"level": "L2"}, "structure": {"level": "mix"}}
_LOAD = {"path": "./good", "modules": ["Module.fc.Linear.forward.0"]}


def table(heading: str) -> dict[str, Row]:
    """Return the rows of the first table below a heading, by key."""
    part = TEXT.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    head, _, *rows = [_cells(line) for line in part.splitlines() if line.startswith("|")]
    return {row[0].strip("`"): dict(zip(head, row, strict=True)) for row in rows}


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]


COMMON = table("Common keys")
SECTION = table("Keys in the section of a task")
SLICE = table("Keys of a slice")
LOAD = table("Keys of load")
WHEN = {"ring": RingSettings, "sample": SampleSettings}


def sections_of(row: Row) -> list[str]:
    return list(SECTIONS) if row["sections"] == "all" else re.findall(r"`(\w+)`", row["sections"])


def example(row: Row) -> Any:
    return json.loads(row["example"].strip("`"))


def default(model: type[ConfigModel], key: str) -> str:
    """Return the default as the page writes it."""
    field = next(info for name, info in model.model_fields.items() if key in {name, info.alias})
    if field.is_required() or key == "dump_path":
        return "required"
    name = field.alias or key
    value = model.model_construct().model_dump(mode="json", by_alias=True)[name]
    return "not given" if value is None else f"`{json.dumps(value)}`"


def literals(kind: Any) -> Iterator[str]:
    """Return every text that an annotation allows by name."""
    if get_origin(kind) is Literal:
        yield from get_args(kind)
    elif isinstance(kind, types.GenericAlias | types.UnionType) or get_origin(kind) is not None:
        for part in get_args(kind):
            yield from literals(part)


def unnamed(model: type[ConfigModel], key: str, row: Row) -> list[str]:
    """Return the values that the model allows by name and the row does not show."""
    field = next(info for name, info in model.model_fields.items() if key in {name, info.alias})
    return [value for value in literals(field.annotation) if f"`{value}`" not in row["values"]]


def accepted(raw: dict[str, Any]) -> list[str]:
    """What is said about a configuration; an example gives no reason to say anything."""
    report = check_config({"dump_path": "./dump", **raw})
    return [*map(str, report.problems), *report.warnings]


def test_every_key_has_its_row() -> None:
    assert sorted(COMMON) == sorted(COMMON_KEYS)
    documented = {(section, key) for key, row in SECTION.items() for section in sections_of(row)}
    assert documented == {(section, key) for section in SECTIONS for key in section_keys(section)}
    assert sorted(SLICE) == sorted(SliceItem.model_fields)
    assert sorted(LOAD) == sorted(LoadConfig.model_fields)
    for name, model in WHEN.items():
        assert sorted(table(f"Keys of {name}")) == sorted(model.model_fields)


@pytest.mark.parametrize("key", sorted(COMMON))
def test_common_key(key: str) -> None:
    row = COMMON[key]
    assert row["default"] == default(DumpConfig, key)
    assert unnamed(DumpConfig, key, row) == []
    assert accepted({key: example(row)}) == []


@pytest.mark.parametrize("key", sorted(SECTION))
def test_section_key(key: str) -> None:
    row = SECTION[key]
    for section in sections_of(row):
        assert row["default"] == default(SECTIONS[section], key)
        assert unnamed(SECTIONS[section], key, row) == []
        if (section, key) != ("exception_dump", "slice"):  # works at L2 only, where nothing is cut
            assert accepted({"task": section, **_LEVELS.get(section, {}), section: {key: example(row)}}) == []


@pytest.mark.parametrize("key", sorted(SLICE))
def test_slice_key(key: str) -> None:
    assert SLICE[key]["default"] == default(SliceItem, key)
    assert accepted({"statistics": {"slice": [{key: example(SLICE[key])}]}}) == []


@pytest.mark.parametrize("key", sorted(LOAD))
def test_load_key(key: str) -> None:
    assert LOAD[key]["default"] == default(LoadConfig, key)
    assert accepted({"load": {**_LOAD, key: example(LOAD[key])}}) == []


def test_what_pytorch_collects() -> None:
    line = next(line for line in TEXT.splitlines() if line.startswith("PyTorch collects the tasks"))
    tasks, levels = line.split(" at the levels ")
    assert set(re.findall(r"`(\w+)`", tasks)) == set(PYTORCH.tasks)
    assert set(re.findall(r"`(\w+)`", levels)) == set(PYTORCH.levels)


def test_a_value_that_is_left_out_is_seen() -> None:
    modes = SECTIONS["statistics"]
    assert set(unnamed(modes, "summary_mode", {"values": "`md5`, `hash`"})) >= {"statistics", "xor", "zero count"}
    assert unnamed(DumpConfig, "risk_level", {"values": "`CORE`, `ALL`"}) == ["FOCUS"]


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, model in WHEN.items() for key in model.model_fields])
def test_key_of_an_object_of_statistics(name: str, key: str) -> None:
    row = table(f"Keys of {name}")[key]
    assert row["default"] == default(WHEN[name], key)
    assert unnamed(WHEN[name], key, row) == []
    assert accepted({"statistics": {name: {key: example(row)}}}) == []
