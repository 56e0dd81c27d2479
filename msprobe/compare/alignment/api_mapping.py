"""API mapping (``-am``): functions of one framework stand for functions of another, with arguments and results.

    - ms_api: Functional.flash_attention_score
      pt_api: NPU.npu_fusion_attention
      ms_args: [0, 1, 2]          # positions or names; what is not listed has no partner
      pt_args: [0, 1, 2]
      ms_output: [0]              # ms_outputs and pt_outputs mean the same
      pt_output: [0]

Keys with ``ms_`` are about the side whose functions have names of their own (MindSpore), keys with ``pt_`` about the
side with PyTorch's names; either side may be the target. A list that is left out pairs by position. Functions that are
not listed follow the built-in table (``cross_framework.pytorch_name``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msprobe.compare.alignment.cross_framework import pytorch_name
from msprobe.compare.alignment.mapping_file import Marked, read_mapping
from msprobe.compare.alignment.protocol import Renaming, unchanged
from msprobe.compare.records.entries import EntryKey, stem_of

_SLOTS = {"args": "input", "output": "output", "parameters": "parameters", "parameters_grad": "parameters_grad"}
_OTHER_SPELLING = {"outputs": "output"}
_SIDES = ("ms", "pt")
_Lists = dict[str, dict[str, str]]
"""By slot: position or name of an item on the ``ms`` side to that on the ``pt`` side."""


@dataclass(frozen=True, slots=True)
class ApiMapping:
    """Translates the names of functions, and the items of listed functions, of one side to those of the other.

    Args:
        names: name of a listed function to the name of its partner, both without call number.
        lists: the items of listed functions, by name of the function.
        translates_target: whether the translated side is the target; else it is the golden run.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, _Lists] = field(default_factory=dict)
    translates_target: bool = True

    def __call__(self, stem: str) -> str:
        """Return the translated name of a function."""
        return self.names.get(stem) or pytorch_name(stem)

    def listed(self, stem: str) -> str:
        """Return the name of the partner of a listed function; any other name stays."""
        return self.names.get(stem, stem)

    def rule(self, target: EntryKey, golden: EntryKey) -> tuple[Renaming, Renaming] | None:
        """Return how the items of two paired entries pair; None where items of equal suffix do."""
        translated = target if self.translates_target else golden
        lists = self.lists.get(stem_of(translated.name))
        if not lists:
            return None
        translate = partial(_renamed, lists)
        return (translate, unchanged) if self.translates_target else (unchanged, translate)


def _renamed(lists: _Lists, suffix: str) -> str | None:
    """Return the suffix of the partner of an item such as ``.input.0.x``; None where it has no partner."""
    _, slot, rest = (*suffix.split(".", 2), "")[:3]
    pairs = lists.get(slot)
    if pairs is None or not rest:
        return suffix
    head, dot, tail = rest.partition(".")
    partner = pairs.get(head)
    return None if partner is None else f".{slot}.{partner}{dot}{tail}"


def api_mapping(given: Any, *, translates_target: bool = True) -> ApiMapping:
    """Return the mapping of a file or a list; True means the built-in table alone.

    Raises:
        ReadError: the mapping cannot be read or contradicts itself; names the line.
    """
    if given is True:
        return ApiMapping(translates_target=translates_target)
    names: dict[str, str] = {}
    lists: dict[str, _Lists] = {}
    for entry in read_mapping(given, "api").items("an api mapping"):
        table = {_key(name, value): value for name, value in entry.table("an entry of an api mapping").items()}
        for side in ("ms_api", "pt_api"):
            if side not in table:
                raise entry.fail(f"the entry has no {side!r}")
        name = table["ms_api"].text("ms_api")
        if name in names:
            raise table["ms_api"].fail(f"{name!r} is there already")
        names[name] = table["pt_api"].text("pt_api")
        lists[name] = _item_lists(entry, table)
    return ApiMapping(names, lists, translates_target)


def _key(name: str, value: Marked) -> str:
    """Return a key of an entry in its usual spelling."""
    side, _, what = name.partition("_")
    what = _OTHER_SPELLING.get(what, what)
    if side not in _SIDES or what not in ("api", *_SLOTS):
        known = ", ".join(f"{side}_{what}" for what in ("api", *_SLOTS) for side in _SIDES)
        raise value.fail(f"unknown key {name!r}; known: {known}")
    return f"{side}_{what}"


def _item_lists(entry: Marked, table: dict[str, Marked]) -> _Lists:
    lists: _Lists = {}
    for what, slot in _SLOTS.items():
        ms_list, pt_list = (table.get(f"{side}_{what}") for side in _SIDES)
        if ms_list is None and pt_list is None:
            continue
        left, right = (_item_names(given, what) for given in (ms_list, pt_list))
        if len(left) != len(right):
            where = pt_list or ms_list or entry
            raise where.fail(f"ms_{what} lists {len(left)} places and pt_{what} {len(right)}; they pair one by one")
        lists[slot] = dict(zip(left, right, strict=True))
    return lists


def _item_names(given: Marked | None, what: str) -> list[str]:
    if given is None or given.value is None:
        return []
    names = [item.text(f"a place in {what}") for item in given.items(what)]
    if len(set(names)) < len(names):
        raise given.fail(f"{what} lists a place twice")
    return names
