"""Layer mapping (``-lm``): how the children of a class are called on the other side, one section per class.

    TopLayer:                              # what is in no module
      network_with_loss: module
    ParallelTransformerLayer:
      attention: self_attention
    ParallelAttention:
      flash_attention_score: core_attention_flash.npu_fusion_attention

Names on the left are those of the target, modules as well as functions; on both sides they may span several levels.
Everything else keeps its name. Entries with the same path then pair in their order; where one side has more of them,
shapes and values decide which belong together.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msprobe.compare.alignment.drift import aligned
from msprobe.compare.alignment.in_backward import is_module
from msprobe.compare.alignment.layer_scope import Path, Scopes, scopes
from msprobe.compare.alignment.mapping_file import read_mapping
from msprobe.compare.alignment.protocol import Alignment, ItemRule, Positions, Side

TOP = "TopLayer"
_OLD_TOP = "Cell"


@dataclass(frozen=True, slots=True)
class LayerMapping:
    """``sections`` are classes of the target with their renamed children, as paths."""

    sections: Mapping[str, Mapping[Path, Path]] = field(default_factory=dict)
    rule: ItemRule | None = None

    def align(self, target: Side, golden: Side) -> Alignment:
        ours, theirs = scopes(target), scopes(golden)
        known: dict[Path, Path] = {}
        groups: dict[Hashable, tuple[list[int], list[int]]] = {}
        for i, path in enumerate(ours.paths):
            if path not in known:
                known[path] = self._there(path, ours)
            groups.setdefault((known[path], target.keys[i].phase), ([], []))[0].append(i)
        for j, path in enumerate(theirs.paths):
            groups.setdefault((path, golden.keys[j].phase), ([], []))[1].append(j)
        pairs: Positions = []
        for left, right in groups.values():
            for mine, others in _by_kind(target, golden, left, right):
                pairs += aligned(target, golden, (mine, others), ([""] * len(mine), [""] * len(others)))
        return Alignment(sorted(pairs), rule=self.rule, stated=True, loose=True)

    def _there(self, path: Path, ours: Scopes) -> Path:
        """The path on the golden side of a path of the target."""
        found: list[str] = []
        at = 0
        while at < len(path):
            section = self._section(path[:at], ours)
            taken = next((size for size in range(len(path) - at, 0, -1) if path[at : at + size] in section), 0)
            found += section[path[at : at + taken]] if taken else path[at : at + 1]
            at += taken or 1
        return tuple(found)

    def _section(self, path: Path, ours: Scopes) -> Mapping[Path, Path]:
        """How the children of this module are called on the other side."""
        own = self.sections.get(ours.classes.get(path, ""), {})
        return own if path else {**own, **self.sections.get(TOP, {})}


def _by_kind(target: Side, golden: Side, left: list[int], right: list[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Modules with modules and functions with functions; what is one kind here and the other there, all together."""
    alone: tuple[list[int], list[int]] = [], []
    for kind in (True, False):
        mine = [i for i in left if is_module(target.keys[i]) is kind]
        others = [j for j in right if is_module(golden.keys[j]) is kind]
        if mine and others:
            yield mine, others
        else:
            alone[0].extend(mine)
            alone[1].extend(others)
    yield alone


def layer_mapping(given: Any, rule: ItemRule | None = None) -> LayerMapping:
    """From a file or a dict; True means that all names are the same on both sides.

    Raises:
        ReadError: the mapping cannot be read; names the line.
    """
    if given is True:
        return LayerMapping(rule=rule)
    sections: dict[str, dict[Path, Path]] = {}
    for name, section in read_mapping(given, "layer").table("a layer mapping").items():
        children = sections.setdefault(TOP if name == _OLD_TOP else name, {})
        for left, value in section.table(f"the section {name!r}").items():
            right = value.text(f"the name for {left!r}").partition("(")[0].strip()
            children[_path(left)] = _path(right)
    return LayerMapping(sections, rule)


def _path(text: str) -> Path:
    return tuple(part for part in text.split(".") if part)
