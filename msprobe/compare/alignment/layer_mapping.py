"""Layer mapping (``-lm``): how the children of a class are called on the other side, one section per class.

    TopLayer:                              # what is in no module
      network_with_loss: module
    ParallelTransformerLayer:
      attention: self_attention
    ParallelAttention:
      flash_attention_score: core_attention_flash.npu_fusion_attention
      qkv: q_proj + k_proj + v_proj        # one layer does the work of several

The names on the left are those of the target, of modules as well as functions; on both sides they may span several
levels. Everything that is not listed keeps its name. Layers that are fused on either side pair with nothing here (see
``exemptions.fused_layers``). Entries with the same path pair in their order; where one side has more of them, shapes
and values decide which belong together.
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
NO_PARTNER = "only_in_the_target"
"""The right name of a layer without a partner."""
_OLD_TOP = "Cell"


@dataclass(frozen=True, slots=True)
class _Fusion:
    """Fused layers: one path on one side, several on the other."""

    left: list[Path]
    right: list[Path]


@dataclass(frozen=True, slots=True)
class LayerMapping:
    """Pairs entries by their path in the model (see the module docstring).

    Args:
        sections: renamed children as paths, by the class of the target that they are in.
        rule: how items of paired entries pair.
        fusions: fused children, by the same classes.
    """

    sections: Mapping[str, Mapping[Path, Path]] = field(default_factory=dict)
    rule: ItemRule | None = None
    fusions: Mapping[str, list[_Fusion]] = field(default_factory=dict)

    def align(self, target: Side, golden: Side) -> Alignment:
        """Return the pairs of entries."""
        left_scopes, right_scopes = scopes(target), scopes(golden)
        new_paths: dict[Path, Path] = {}
        groups: dict[Hashable, tuple[list[int], list[int]]] = {}
        for i, path in enumerate(left_scopes.paths):
            if path not in new_paths:
                new_paths[path] = self._golden_path(path, left_scopes)
            groups.setdefault((new_paths[path], target.keys[i].phase), ([], []))[0].append(i)
        fusions = self._fused_paths(left_scopes)
        fused = {path for fusion in fusions for path in fusion.right}
        for j, path in enumerate(right_scopes.paths):
            if fused and any(path[:depth] in fused for depth in range(1, len(path) + 1)):
                continue
            groups.setdefault((path, golden.keys[j].phase), ([], []))[1].append(j)
        pairs: Positions = []
        for group in groups.values():
            for left, right in _modules_and_functions(target, golden, *group):
                pairs += align_sequences(target, golden, (left, right), ([""] * len(left), [""] * len(right)))
        fused_layers = _fused_layers((target, golden), (left_scopes, right_scopes), fusions)
        return Alignment(sorted(pairs), rule=self.rule, stated=True, loose=True, fused=fused_layers)

    def _fused_paths(self, target: Scopes) -> list[_Fusion]:
        """Return the whole paths of the fused layers of every module."""
        fusions: list[_Fusion] = []
        if not self.fusions:
            return fusions
        for path, name in [((), TOP), *target.classes.items()]:
            golden_path = self._golden_path(path, target)
            for fusion in self.fusions.get(name, ()):
                left = [(*path, *child) for child in fusion.left]
                fusions.append(_Fusion(left, [(*golden_path, *child) for child in fusion.right]))
        return fusions

    def _golden_path(self, path: Path, target: Scopes) -> Path:
        """Return the path in the golden run of a path of the target."""
        golden_path: list[str] = []
        start = 0
        while start < len(path):
            section = self._section(path[:start], target)
            sizes = range(len(path) - start, 0, -1)
            size = next((size for size in sizes if path[start : start + size] in section), 0)
            golden_path += section[path[start : start + size]] if size else path[start : start + 1]
            start += size or 1
        return tuple(golden_path)

    def _section(self, path: Path, target: Scopes) -> Mapping[Path, Path]:
        """Return the names of the children of this module in the golden run."""
        section = self.sections.get(target.classes.get(path, ""), {})
        return section if path else {**section, **self.sections.get(TOP, {})}


def _modules_and_functions(
    target: Side, golden: Side, left: list[int], right: list[int]
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the entries of one path that may pair: modules with modules, and functions with functions.

    Entries that are a module on one side and a function on the other are yielded together.
    """
    rest: tuple[list[int], list[int]] = [], []
    for modules in (True, False):
        some_left = [i for i in left if is_module(target.keys[i]) is modules]
        some_right = [j for j in right if is_module(golden.keys[j]) is modules]
        if some_left and some_right:
            yield some_left, some_right
        else:
            rest[0].extend(some_left)
            rest[1].extend(some_right)
    yield rest


def _fused_layers(
    sides: tuple[Side, Side], side_scopes: tuple[Scopes, Scopes], fusions: Sequence[_Fusion]
) -> list[FusedLayers]:
    """Return the fused modules by the paths that were recorded."""
    if not fusions:
        return []
    target, golden = (
        {path: path_of(key.stem) for key, path in zip(side.keys, paths.paths, strict=True) if is_module(key)}
        for side, paths in zip(sides, side_scopes, strict=True)
    )
    layers = [
        FusedLayers(
            tuple(target[path] for path in fusion.left if path in target),
            tuple(golden[path] for path in fusion.right if path in golden),
        )
        for fusion in fusions
    ]
    return [fused for fused in layers if fused.target or fused.golden]


def layer_mapping(given: Any, rule: ItemRule | None = None) -> LayerMapping:
    """Return the mapping of a file or a dict; True means that all names are the same on both sides.

    Args:
        given: the path of a file, or its content.
        rule: how items of paired entries pair.

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
            left_paths, right_paths = _paths(left), _paths(right)
            if len(left_paths) + len(right_paths) == 2:
                children[_path(left)] = _path(right)
            elif 1 not in (len(left_paths), len(right_paths)):
                raise value.fail(f"{left}: {right} has several layers on both sides; of fused ones, one side has one")
            else:
                fusions.setdefault(name, []).append(_Fusion(left_paths, right_paths))
                no_module = (f"{left} = {right}",)  # a path that pairs with nothing
                children.update(dict.fromkeys(left_paths, no_module))
    return LayerMapping(sections, rule, fusions)


def is_top(title: str) -> bool:
    """Return whether a section is the one for what is in no module."""
    return title in (TOP, _OLD_TOP)


def _paths(text: str) -> list[Path]:
    return [_path(part.strip()) for part in text.split(PLUS)]


def _path(text: str) -> Path:
    return tuple(part for part in text.split(".") if part)
