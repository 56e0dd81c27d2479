"""Every key of config.json and every function for collecting is used in an example of the guide that is run."""

from __future__ import annotations

import ast
import importlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from msprobe.core.config.models import LoadConfig
from msprobe.core.config.normalize import COMMON_KEYS, SECTIONS, section_keys
from msprobe.core.config.sections import SliceItem
from tests.docs.pages import PAGES, Block, blocks

SHOWN_IN_TABLES_ONLY = {
    "check_mode": "of MindSpore before 2.3, which is not supported",
}
# What a framework fills in.
INSIDE = {"before_first_start", "check", "follow_data_loaders", "is_model", "make_backend", "make_session"}


def tried() -> Iterator[Block]:
    for page in PAGES:
        yield from (block for block in blocks(page) if not block.reason)


def programs() -> list[ast.Module]:
    return [ast.parse(block.body) for block in tried() if block.language == "python"]


def keys_of(value: Any) -> Iterator[str]:
    """Yield all keys of a parsed configuration."""
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from keys_of(part)


def keys_in(program: ast.Module) -> Iterator[str]:
    """Yield the keys of dicts and the keywords of calls."""
    for node in ast.walk(program):
        if isinstance(node, ast.Dict):
            yield from (str(key.value) for key in node.keys if isinstance(key, ast.Constant))
        elif isinstance(node, ast.Call):
            yield from (keyword.arg for keyword in node.keywords if keyword.arg)


def keys_used() -> set[str]:
    found = {key for program in programs() for key in keys_in(program)}
    for block in tried():
        if block.language in {"json", "yaml"}:
            found.update(keys_of(json.loads(block.body) if block.language == "json" else yaml.safe_load(block.body)))
    return found


def calls_of(facade: str) -> set[str]:
    """Return the names that are called in programs which import from this module."""
    found = set[str]()
    for program in programs():
        nodes = list(ast.walk(program))
        if any(isinstance(node, ast.ImportFrom) and node.module == facade for node in nodes):
            functions = [node.func for node in nodes if isinstance(node, ast.Call)]
            found |= {node.id for node in functions if isinstance(node, ast.Name)}
            found |= {node.attr for node in functions if isinstance(node, ast.Attribute)}
    return found


def test_every_key_has_an_example() -> None:
    known = {*COMMON_KEYS, *LoadConfig.model_fields, *SliceItem.model_fields}
    known |= {key for section in SECTIONS for key in section_keys(section)}
    assert known - keys_used() == SHOWN_IN_TABLES_ONLY.keys()


@pytest.mark.parametrize("facade", ["msprobe.pytorch", "msprobe.mindspore", "msprobe.pytorch.integrations"])
def test_every_function_has_an_example(facade: str) -> None:
    exported = set(importlib.import_module(facade).__all__)
    assert exported - calls_of(facade) == set()


@pytest.mark.torch
def test_every_method_has_an_example() -> None:
    debugger = importlib.import_module("msprobe.pytorch").PrecisionDebugger
    methods = {name for name in set(dir(debugger)) - INSIDE if not name.startswith("_")}
    methods = {name for name in methods if callable(getattr(debugger, name))}
    assert methods - calls_of("msprobe.pytorch") == set()


def test_a_key_without_an_example_is_seen() -> None:
    program = ast.parse('PrecisionDebugger({"tensor": {"list": ["relu"]}}, step=[0])\nprint("slice")')
    assert set(keys_in(program)) == {"tensor", "list", "step"}
    assert set(keys_of({"load": {"path": "x"}, "rank": [{"odd": 1}]})) == {"load", "path", "rank", "odd"}
