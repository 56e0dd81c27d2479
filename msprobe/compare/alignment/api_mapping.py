"""API mapping (``-am``): MindSpore functions stand for PyTorch ones; some of their arguments and results too.

    - ms_api: Functional.flash_attention_score
      pt_api: NPU.npu_fusion_attention
      ms_args: [0, 1, 2]          # positions or names; what is not listed has no partner
      pt_args: [0, 1, 2]
      ms_output: [0]              # ms_outputs and pt_outputs mean the same
      pt_output: [0]

A list left out altogether pairs by position. Functions not listed follow the built-in table. The lists work in both
directions: whichever side is MindSpore has the ``ms_`` names.

Names of MindSpore functions and the PyTorch functions they stand for: the published pairs of mindstudio-probe.

``Mint.*`` and ``MintFunctional.*`` carry PyTorch's names already; the others are in ``api_table.tsv``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from msprobe.compare.alignment.mapping_file import Marked, read_mapping
from msprobe.compare.alignment.protocol import Renaming, unchanged
from msprobe.compare.records.entries import EntryKey, stem_of

_MINT = {"Mint": "Torch", "MintFunctional": "Functional", "MintDistributed": "Distributed"}


def pytorch_name(stem: str) -> str:
    """The name of the PyTorch function (``Torch.add``) for that of a MindSpore one; an unknown name stays."""
    prefix, dot, rest = stem.partition(".")
    if dot and prefix in _MINT:
        return f"{_MINT[prefix]}.{rest}"
    return _table().get(stem, stem)


@cache
def _table() -> dict[str, str]:
    text = Path(__file__).with_name("api_table.tsv").read_text(encoding="utf-8")
    pairs = (line.split("\t", 1) for line in text.splitlines()[1:] if line)
    return dict(pairs)


_SLOTS = {"args": "input", "output": "output", "parameters": "parameters", "parameters_grad": "parameters_grad"}
_OTHER_SPELLING = {"outputs": "output"}
_Lists = dict[str, dict[str, str]]
"""By slot: position or name on the MindSpore side to that on the PyTorch side."""


@dataclass(frozen=True, slots=True)
class ApiMapping:
    """Translates names of MindSpore functions, and items of listed ones. ``ms_is_target`` says which side they are."""

    names: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, _Lists] = field(default_factory=dict)
    ms_is_target: bool = True

    def __call__(self, stem: str) -> str:
        return self.names.get(stem) or pytorch_name(stem)

    def rule(self, target: EntryKey, golden: EntryKey) -> tuple[Renaming, Renaming] | None:
        """How items of two paired entries pair."""
        mindspore = target if self.ms_is_target else golden
        lists = self.lists.get(stem_of(mindspore.name))
        if not lists:
            return None
        translate = partial(_renamed, lists)
        return (translate, unchanged) if self.ms_is_target else (unchanged, translate)


def _renamed(lists: _Lists, suffix: str) -> str | None:
    """``.input.0.x`` of the MindSpore side to the suffix of its partner."""
    _, slot, rest = (*suffix.split(".", 2), "")[:3]
    pairs = lists.get(slot)
    if pairs is None or not rest:
        return suffix
    head, dot, tail = rest.partition(".")
    partner = pairs.get(head)
    return None if partner is None else f".{slot}.{partner}{dot}{tail}"


def api_mapping(given: Any, *, ms_is_target: bool = True) -> ApiMapping:
    """From a file or a list; True means the built-in table alone.

    Raises:
        ReadError: the mapping cannot be read or contradicts itself; names the line.
    """
    if given is True:
        return ApiMapping(ms_is_target=ms_is_target)
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
        lists[name] = _pairs(entry, table)
    return ApiMapping(names, lists, ms_is_target)


def _key(name: str, value: Marked) -> str:
    side, _, what = name.partition("_")
    what = _OTHER_SPELLING.get(what, what)
    if side not in ("ms", "pt") or what not in ("api", *_SLOTS):
        known = ", ".join(f"{side}_{what}" for what in ("api", *_SLOTS) for side in ("ms", "pt"))
        raise value.fail(f"unknown key {name!r}; known: {known}")
    return f"{side}_{what}"


def _pairs(entry: Marked, table: dict[str, Marked]) -> _Lists:
    found: _Lists = {}
    for what, slot in _SLOTS.items():
        given = [table.get(f"{side}_{what}") for side in ("ms", "pt")]
        if given == [None, None]:
            continue
        left, right = ([] if one is None else _places(one, what) for one in given)
        if len(left) != len(right):
            where = given[1] or given[0] or entry
            raise where.fail(f"ms_{what} lists {len(left)} places and pt_{what} {len(right)}; they pair one by one")
        found[slot] = dict(zip(left, right, strict=True))
    return found


def _places(given: Marked, what: str) -> list[str]:
    if given.value is None:
        return []
    places = [one.text(f"a place in {what}") for one in given.items(what)]
    if len(set(places)) < len(places):
        raise given.fail(f"{what} lists a place twice")
    return places
