"""Alignment by an inferred layer map: modules pair as the map says, calls inside them by operator and order.

Calls inside a layer that only one side has belong to the next layer around it that both sides have; so a wrapper is
transparent. Calls inside fused layers pair with nothing, because a part of them is not the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from msprobe.compare.alignment import cross_framework
from msprobe.compare.alignment.api_mapping import ApiMapping
from msprobe.compare.alignment.by_name import SequenceMatch
from msprobe.compare.alignment.call_scope import frame_scope
from msprobe.compare.alignment.cell_mapping import renumbered, translated
from msprobe.compare.alignment.layer_map import LayerMap
from msprobe.compare.alignment.protocol import Alignment, FusedLayers, Positions, Renaming, Side, unchanged
from msprobe.compare.layer_inference.infer import infer_layer_map
from msprobe.compare.layer_inference.name_folding import operator, same_sizes
from msprobe.compare.layer_inference.tensor_pairs import TensorPairs
from msprobe.compare.records.entries import EntryKey, is_module, path_of
from msprobe.core.naming.names import is_module_name
from msprobe.core.store.reader import Dump

_ONE_SIDED = "~only "
_PAIRED = "Module."


@dataclass(frozen=True, slots=True)
class InferredMatch:
    """Infers the layer map of two dumps and pairs by it.

    Args:
        layer_map: a map that has been inferred before.
        functions: names of functions and their items that the user gave.
    """

    layer_map: LayerMap | None = None
    functions: ApiMapping | None = None

    def align(self, target: Side, golden: Side) -> Alignment:
        """Return the pairs of entries."""
        layer_map = self.layer_map or infer_layer_map(target.dump, golden.dump)
        across = cross_framework.differ(target.dump, golden.dump)
        fused = {path for pair in layer_map.fused for path in (*pair.target, *pair.golden)}
        to_golden = {pair.target: pair.golden for pair in layer_map.pairs}
        to_itself = {pair.golden: pair.golden for pair in layer_map.pairs}
        target, golden = self._translated(target, golden)
        left = _renamed_keys(target, _ModuleNames(to_golden, fused, "target"), across)
        right = _renamed_keys(golden, _ModuleNames(to_itself, fused, "golden"), across)
        alignment = SequenceMatch().align(Side(target.dump, left), Side(golden.dump, right))
        pairs = alignment.pairs
        if alignment.same:
            pairs = [(i, i) for i in range(len(left))]
        pairs = _without_backward_of_others(left, right, pairs)
        if across:
            pairs = _pairs_of_same_sizes(target, golden, pairs, self.functions)
        return replace(
            alignment,
            pairs=pairs,
            same=False,
            rule=_ItemPairs(layer_map, target.dump, golden.dump, across, self.functions),
            loose=True,
            layer_map=layer_map,
            fused=tuple(FusedLayers(pair.target, pair.golden) for pair in layer_map.fused),
        )

    def _translated(self, target: Side, golden: Side) -> tuple[Side, Side]:
        """Return both sides with the names of functions that the user gave."""
        if self.functions is None or not self.functions.lists:
            return target, golden
        if self.functions.translates_target:
            return Side(target.dump, translated(target.keys, (self.functions.listed,))), golden
        return target, Side(golden.dump, translated(golden.keys, (self.functions.listed,)))


@dataclass(frozen=True, slots=True)
class _ModuleNames:
    """The names of modules of one side by which they are matched.

    Args:
        golden_paths: the paths of paired modules to those of the golden run.
        fused: the paths of fused modules.
        side: ``target`` or ``golden``.
    """

    golden_paths: dict[str, str]
    fused: set[str]
    side: str

    def of_module(self, stem: str) -> str:
        """Return the name of a module: the path of its golden partner, or a name that the other side has not."""
        path = path_of(stem)
        partner = self.golden_paths.get(path)
        return f"{_PAIRED}{partner}" if partner is not None else f"{_ONE_SIDED}{self.side} {path}"

    def of_parent(self, parent: str) -> str:
        """Return the name of the nearest paired module at or above ``parent``; for a fused module a name that the other
        side has not."""
        path = path_of(parent)
        if path in self.fused:
            return f"{_ONE_SIDED}{self.side} {path}"
        while path:
            partner = self.golden_paths.get(path)
            if partner is not None:
                return f"{_PAIRED}{partner}"
            path = path.rpartition(".")[0]
        return ""


def _renamed_keys(side: Side, names: _ModuleNames, across: bool) -> list[EntryKey]:
    """Return the keys under the names by which they are matched."""
    functions = _framework_functions(side) if across else {}
    stems: dict[tuple[str, str], str] = {}
    parents: dict[str, str] = {"": ""}
    renamed = []
    for key in side.keys:
        function = functions.get((key.stem, key.call), "")
        stem = stems.get((key.stem, function))
        if stem is None:
            stem = stems[key.stem, function] = _new_stem(key, names, across, function)
        parent = parents.get(key.parent)
        if parent is None:
            module = is_module_name(key.parent)
            parent = parents[key.parent] = names.of_parent(key.parent) if module else key.parent
        renamed.append(key._replace(stem=stem, parent=parent))
    merged = {stem for stem, count in Counter(stems.values()).items() if count > 1}
    return renumbered(side.keys, renamed, merged) if merged else renamed


def _new_stem(key: EntryKey, names: _ModuleNames, across: bool, function: str) -> str:
    if is_module(key):
        return names.of_module(key.stem)
    if not across:
        return key.stem
    return f"{function}>{operator(key.stem)}" if function else operator(key.stem)


def _framework_functions(side: Side) -> dict[tuple[str, int | None], str]:
    """Return the framework function that made a call, where it was not the code of the model; by call."""
    stacks = side.dump.stacks
    scopes = ((key, frame_scope(stacks.get(key.name, ()))) for key in side.keys if key.phase == "forward")
    return {(key.stem, key.call): function for key, function in scopes if function}


def _without_backward_of_others(left: Sequence[EntryKey], right: Sequence[EntryKey], pairs: Positions) -> Positions:
    """Return the pairs without those of backward calls whose forward calls are not partners."""
    left_forward, right_forward = _forward_positions(left), _forward_positions(right)
    partner = dict(pairs)
    kept = []
    for i, j in pairs:
        forward = left_forward.get((left[i].stem, left[i].call))
        other = right_forward.get((right[j].stem, right[j].call))
        if (
            left[i].phase != "backward"
            or (forward is None and other is None)
            or (forward is not None and partner.get(forward) == other)
        ):
            kept.append((i, j))
    return kept


def _forward_positions(keys: Sequence[EntryKey]) -> dict[tuple[str, int | None], int]:
    return {(key.stem, key.call): position for position, key in enumerate(keys) if key.phase == "forward"}


def _pairs_of_same_sizes(
    target: Side, golden: Side, pairs: Positions, functions: ApiMapping | None = None
) -> Positions:
    """Return the pairs without those of functions whose tensors have other sizes: they are different operations of one
    name."""
    kept = []
    for i, j in pairs:
        key, other = target.keys[i], golden.keys[j]
        stated = functions is not None and functions.rule(key, other) is not None
        if stated or is_module(key) or same_sizes(target.dump.data[key.name], golden.dump.data[other.name]):
            kept.append((i, j))
    return kept


@dataclass(frozen=True, slots=True)
class _ItemPairs:
    """The item rule: parameters of paired modules pair as the map says, and items of functions of two frameworks by
    what they hold (see ``TensorPairs``)."""

    layer_map: LayerMap
    target: Dump
    golden: Dump
    across: bool
    functions: ApiMapping | None = None

    def __call__(self, target: EntryKey, golden: EntryKey) -> tuple[Renaming, Renaming] | None:
        """Return the renamings of the items of two paired entries; None where items of equal suffix pair."""
        if is_module(target):
            return self._parameters(target)
        stated = self.functions.rule(target, golden) if self.functions is not None else None
        if stated is not None:
            return stated
        return TensorPairs(self.target, self.golden)(target, golden) if self.across else None

    def _parameters(self, target: EntryKey) -> tuple[Renaming, Renaming] | None:
        pair = self.layer_map.by_target.get(path_of(target.stem))
        if pair is None or all(name == partner for name, partner in pair.parameters):
            return None
        return partial(_renamed_parameter, dict(pair.parameters)), unchanged


def _renamed_parameter(names: dict[str, str], suffix: str) -> str:
    head, _, last = suffix.rpartition(".")
    return f"{head}.{names.get(last, last)}" if head in ("", ".parameters") else suffix
