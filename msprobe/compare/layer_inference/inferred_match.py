"""Alignment by an inferred layer map: modules pair as the map says, calls inside them by operator and order.

Calls of a layer that only one side has belong to the next layer around it that both have; so a wrapper is transparent.
Those of fused layers pair with nothing: one of their parts is not the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from msprobe.compare.alignment import cross_framework
from msprobe.compare.alignment.by_name import SequenceMatch
from msprobe.compare.alignment.call_scope import frame_scope
from msprobe.compare.alignment.cell_mapping import renumbered
from msprobe.compare.alignment.cross_framework import TensorOrder
from msprobe.compare.alignment.layer_map import LayerMap
from msprobe.compare.alignment.protocol import Alignment, FusedLayers, Positions, Renaming, Side, unchanged
from msprobe.compare.layer_inference.infer import infer_layer_map
from msprobe.compare.layer_inference.name_folding import operator, same_form
from msprobe.compare.records.entries import EntryKey, is_module, path_of
from msprobe.core.naming.names import MODULE_PREFIXES
from msprobe.core.store.reader import Dump

_ALONE = "~only "
_KNOWN = "Module."


@dataclass(frozen=True, slots=True)
class InferredMatch:
    """Infers the map of the two dumps and pairs by it; ``layer_map`` gives a map that is known already."""

    layer_map: LayerMap | None = None

    def align(self, target: Side, golden: Side) -> Alignment:
        layer_map = self.layer_map or infer_layer_map(target.dump, golden.dump)
        across = cross_framework.differ(target.dump, golden.dump)
        lost = {path for pair in layer_map.fused for path in (*pair.target, *pair.golden)}
        to_golden = {pair.target: pair.golden for pair in layer_map.pairs}
        same = {pair.golden: pair.golden for pair in layer_map.pairs}
        left = _seen(target, _Names(to_golden, lost, "target"), across)
        right = _seen(golden, _Names(same, lost, "golden"), across)
        found = SequenceMatch().align(Side(target.dump, left), Side(golden.dump, right))
        pairs = found.pairs
        if found.same:
            pairs = [(i, i) for i in range(len(left))]
        pairs = _with_forward(left, right, pairs)
        pairs += _out_of_order(left, right, pairs)
        if across:
            pairs = _of_one_form(target, golden, pairs)
        return replace(
            found,
            pairs=pairs,
            same=False,
            rule=_Items(layer_map, target.dump, golden.dump, across),
            loose=True,
            layer_map=layer_map,
            fused=tuple(FusedLayers(pair.target, pair.golden) for pair in layer_map.fused),
        )


@dataclass(frozen=True, slots=True)
class _Names:
    """What matching sees of the names of one side. ``known`` maps paths to those of the golden run."""

    known: dict[str, str]
    lost: set[str]
    side: str

    def own(self, stem: str) -> str:
        """A module of the map has the path of its golden partner; another one has no like."""
        path = path_of(stem)
        partner = self.known.get(path)
        return f"{_KNOWN}{partner}" if partner is not None else f"{_ALONE}{self.side} {path}"

    def around(self, parent: str) -> str:
        """The nearest module of the map at or above ``parent``; a fused one is nobody else's."""
        path = path_of(parent)
        if path in self.lost:
            return f"{_ALONE}{self.side} {path}"
        while path:
            partner = self.known.get(path)
            if partner is not None:
                return f"{_KNOWN}{partner}"
            path = path.rpartition(".")[0]
        return ""


def _seen(side: Side, names: _Names, across: bool) -> list[EntryKey]:
    """The keys under the names that matching sees."""
    functions = _inside_framework(side) if across else {}
    stems: dict[tuple[str, str], str] = {}
    parents: dict[str, str] = {"": ""}
    renamed = []
    for key in side.keys:
        place = key.stem, functions.get((key.stem, key.call), "")
        stem = stems.get(place)
        if stem is None:
            stem = stems[place] = _seen_stem(key, names, across, place[1])
        parent = parents.get(key.parent)
        if parent is None:
            module = key.parent.partition(".")[0] in MODULE_PREFIXES
            parent = parents[key.parent] = names.around(key.parent) if module else key.parent
        renamed.append(key._replace(stem=stem, parent=parent))
    merged = {stem for stem, count in Counter(stems.values()).items() if count > 1}
    return renumbered(side.keys, renamed, merged) if merged else renamed


def _seen_stem(key: EntryKey, names: _Names, across: bool, function: str) -> str:
    if is_module(key):
        return names.own(key.stem)
    if not across:
        return key.stem
    return f"{function}>{operator(key.stem)}" if function else operator(key.stem)


def _inside_framework(side: Side) -> dict[tuple[str, int | None], str]:
    """The framework function in which a call was made, where there is one: its own calls are not those of the model."""
    stacks = side.dump.stacks
    found = ((key, frame_scope(stacks.get(key.name, ()))) for key in side.keys if key.phase == "forward")
    return {(key.stem, key.call): function for key, function in found if function}


def _with_forward(left: Sequence[EntryKey], right: Sequence[EntryKey], pairs: Positions) -> Positions:
    """Without backward calls that were paired although their forward calls are not the same."""
    ours, theirs = _forward_of(left), _forward_of(right)
    partner = dict(pairs)
    found = []
    for i, j in pairs:
        mine, other = ours.get((left[i].stem, left[i].call)), theirs.get((right[j].stem, right[j].call))
        if (
            left[i].phase != "backward"
            or (mine is None and other is None)
            or (mine is not None and partner.get(mine) == other)
        ):
            found.append((i, j))
    return found


def _forward_of(keys: Sequence[EntryKey]) -> dict[tuple[str, int | None], int]:
    return {(key.stem, key.call): at for at, key in enumerate(keys) if key.phase == "forward"}


def _out_of_order(left: Sequence[EntryKey], right: Sequence[EntryKey], pairs: Positions) -> Positions:
    """Layers that the other model calls at another time, and the functions inside them: in their order, when both
    sides have as many."""
    taken = {i for i, _ in pairs}, {j for _, j in pairs}
    ours, theirs = _by_place(left, taken[0]), _by_place(right, taken[1])
    return [
        pair
        for place, mine in ours.items()
        if len(others := theirs.get(place, [])) == len(mine)
        for pair in zip(mine, others, strict=True)
    ]


def _by_place(keys: Sequence[EntryKey], taken: set[int]) -> dict[tuple[str, str, str], list[int]]:
    found: dict[tuple[str, str, str], list[int]] = {}
    for at, key in enumerate(keys):
        inside = is_module(key) or key.parent.startswith(_KNOWN)
        if at not in taken and inside and not key.recompute:
            found.setdefault((key.stem, key.parent, key.phase), []).append(at)
    return found


def _of_one_form(target: Side, golden: Side, pairs: Positions) -> Positions:
    """Without pairs of functions whose tensors have other shapes: under one name they do another thing."""
    found = []
    for i, j in pairs:
        ours, theirs = target.keys[i], golden.keys[j]
        if is_module(ours) or same_form(target.dump.data[ours.name], golden.dump.data[theirs.name]):
            found.append((i, j))
    return found


@dataclass(frozen=True, slots=True)
class _Items:
    """Item rule: parameters of paired modules pair by the names the map gives them; those of two
    frameworks' functions by their order (see ``TensorOrder``)."""

    layer_map: LayerMap
    target: Dump
    golden: Dump
    across: bool

    def __call__(self, target: EntryKey, golden: EntryKey) -> tuple[Renaming, Renaming] | None:
        if is_module(target):
            return self._parameters(target)
        return TensorOrder(self.target, self.golden)(target, golden) if self.across else None

    def _parameters(self, target: EntryKey) -> tuple[Renaming, Renaming] | None:
        pair = self.layer_map.by_target.get(path_of(target.stem))
        if pair is None or all(ours == theirs for ours, theirs in pair.parameters):
            return None
        return partial(_named, dict(pair.parameters)), unchanged


def _named(names: dict[str, str], suffix: str) -> str:
    head, _, last = suffix.rpartition(".")
    return f"{head}.{names.get(last, last)}" if head in ("", ".parameters") else suffix
