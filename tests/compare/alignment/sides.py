"""Dumps in memory, as alignment sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msprobe.compare.alignment.protocol import Side, Strategy
from msprobe.compare.records.entries import entry_keys
from msprobe.core.store.reader import Dump, Place
from tests.compare.dumps import Entry

Data = dict[str, Entry]


def dump(
    data: Data,
    construct: dict[str, Any] | None = None,
    framework: str = "pytorch",
    stacks: dict[str, list[str]] | None = None,
) -> Dump:
    place = Place(Path("dump.json"))
    return Dump(place, "statistics", "mix", framework, data, construct=construct or {}, stacks=stacks or {})


def side(data: Data, construct: dict[str, Any] | None = None, framework: str = "pytorch") -> Side:
    made = dump(data, construct, framework)
    return Side(made, entry_keys(data, made.construct))


def named(*names: str, framework: str = "pytorch") -> Side:
    return side({name: {} for name in names}, framework=framework)


def pairs(strategy: Strategy, target: Side, golden: Side) -> list[tuple[str, str]]:
    found = strategy.align(target, golden)
    if found.same:
        return [(mine.name, other.name) for mine, other in zip(target.keys, golden.keys, strict=True)]
    return sorted((target.keys[i].name, golden.keys[j].name) for i, j in found.pairs)
