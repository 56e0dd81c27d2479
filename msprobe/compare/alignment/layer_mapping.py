"""Layer mapping (``-lm``): how the children of a class are called on the other side, one section per class.

    TopLayer:                              # what is in no module
      network_with_loss: module
    ParallelTransformerLayer:
      attention: self_attention
    ParallelAttention:
      flash_attention_score: core_attention_flash.npu_fusion_attention
      qkv: q_proj + k_proj + v_proj        # one layer does the work of several

Names on the left are those of the target, modules as well as functions; on both sides they may span several levels.
Layers that are fused on either side pair with nothing here (see ``fused_layers``). Everything else keeps its name.
Entries with the same path then pair in their order; where one side has more of them, shapes and values decide which
belong together.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msprobe.compare.alignment.call_scope import Path, Scopes, scopes
from msprobe.compare.alignment.mapping_file import read_mapping
from msprobe.compare.alignment.protocol import Alignment, FusedLayers, ItemRule, Positions, Side
from msprobe.compare.alignment.sequence_alignment import align_sequences
from msprobe.compare.records.entries import is_module, path_of

TOP = "TopLayer"
PLUS = " + "
_Fusion = tuple[list[Path], list[Path]]
NO_PARTNER = "only_in_the_target"
"""The right name of a layer without a partner."""
_OLD_TOP = "Cell"


@dataclass(frozen=True, slots=True)
class LayerMapping:
    """``sections`` are classes of the target with their renamed children, as paths; ``fusions`` are fused children by
    the same classes, those of the target and those of the golden run."""

    sections: Mapping[str, Mapping[Path, Path]] = field(default_factory=dict)
    rule: ItemRule | None = None
    fusions: Mapping[str, list[_Fusion]] = field(default_factory=dict)

    def align(self, target: Side, golden: Side) -> Alignment:
        ours, theirs = scopes(target), scopes(golden)
        known: dict[Path, Path] = {}
        groups: dict[Hashable, tuple[list[int], list[int]]] = {}
        for i, path in enumerate(ours.paths):
            if path not in known:
                known[path] = self._there(path, ours)
            groups.setdefault((known[path], target.keys[i].phase), ([], []))[0].append(i)
        fusions = self._fused(ours)
        lost = {place for _, right in fusions for place in right}
        for j, path in enumerate(theirs.paths):
            if lost and any(path[:depth] in lost for depth in range(1, len(path) + 1)):
                continue
            groups.setdefault((path, golden.keys[j].phase), ([], []))[1].append(j)
        pairs: Positions = []
        for left, right in groups.values():
            for mine, others in _by_kind(target, golden, left, right):
                pairs += align_sequences(target, golden, (mine, others), ([""] * len(mine), [""] * len(others)))
        fused = _fused_modules((target, golden), (ours, theirs), fusions)
        return Alignment(sorted(pairs), rule=self.rule, stated=True, loose=True, fused=fused)

    def _fused(self, ours: Scopes) -> list[_Fusion]:
        """Where fused layers stand on both sides."""
        found: list[_Fusion] = []
        if not self.fusions:
            return found
        for path, name in [((), TOP), *ours.classes.items()]:
            there = self._there(path, ours)
            for left, right in self.fusions.get(name, ()):
                found.append(([(*path, *own) for own in left], [(*there, *other) for other in right]))
        return found

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


def _fused_modules(
    sides: tuple[Side, Side], places: tuple[Scopes, Scopes], fusions: Sequence[_Fusion]
) -> list[FusedLayers]:
    """The recorded paths of the modules that are fused."""
    if not fusions:
        return []
    names = [
        {path: path_of(key.stem) for key, path in zip(side.keys, there.paths, strict=True) if is_module(key)}
        for side, there in zip(sides, places, strict=True)
    ]
    found = [
        FusedLayers(
            *(tuple(known[path] for path in side if path in known) for known, side in zip(names, one, strict=True))
        )
        for one in fusions
    ]
    return [layers for layers in found if layers.target or layers.golden]


def layer_mapping(given: Any, rule: ItemRule | None = None) -> LayerMapping:
    """From a file or a dict; True means that all names are the same on both sides.

    Raises:
        ReadError: the mapping cannot be read; names the line.
    """
    if given is True:
        return LayerMapping(rule=rule)
    sections: dict[str, dict[Path, Path]] = {}
    fusions: dict[str, list[_Fusion]] = {}
    for title, section in read_mapping(given, "layer").table("a layer mapping").items():
        name = TOP if is_top(title) else title
        children = sections.setdefault(name, {})
        for left, value in section.table(f"the section {title!r}").items():
            right = value.text(f"the name for {left!r}").partition("(")[0].strip()
            parts, others = _parts(left), _parts(right)
            if len(parts) + len(others) == 2:
                children[_path(left)] = _path(right)
            elif 1 not in (len(parts), len(others)):
                raise value.fail(f"{left}: {right} has several layers on both sides; of fused ones, one side has one")
            else:
                fusions.setdefault(name, []).append((parts, others))
                children.update((part, (f"{left} = {right}",)) for part in parts)  # a place that no module has
    return LayerMapping(sections, rule, fusions)


def is_top(title: str) -> bool:
    """Whether a section is the one for what is in no module."""
    return title in (TOP, _OLD_TOP)


def _parts(text: str) -> list[Path]:
    return [_path(part.strip()) for part in text.split(PLUS)]


def _path(text: str) -> Path:
    return tuple(part for part in text.split(".") if part)
