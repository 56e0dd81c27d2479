"""What an alignment strategy gets and returns: two sides in; pairs of entries, and how their items pair, out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msprobe.compare.records.entries import EntryKey
from msprobe.core.store.reader import Dump

if TYPE_CHECKING:
    from msprobe.compare.alignment.layer_map import LayerMap

Positions = list[tuple[int, int]]
"""Pairs of positions of entries, target first."""
Renaming = Callable[[str], str | None]
"""Returns for the suffix of an item the one by which it pairs, None when it has no partner."""
ItemRule = Callable[[EntryKey, EntryKey], tuple[Renaming, Renaming] | None]
"""Returns for two paired entries the renamings of target and golden run, None where items of equal suffix pair."""
Item = tuple[str, str]
"""The name of an entry and the suffix of one item of it."""
FusedPaths = tuple[frozenset[str], frozenset[str]]
"""Paths of modules, of the target and of the golden run."""


class Strategy(Protocol):
    """Pairs the entries of two dumps."""

    def align(self, target: Side, golden: Side) -> Alignment:
        """Return which entries belong together."""
        ...


@dataclass(frozen=True, slots=True)
class Side:
    """One dump as strategies see it.

    Args:
        dump: the dump with the records.
        keys: its entries in file order, under the names by which they are matched.
    """

    dump: Dump
    keys: Sequence[EntryKey]


class FusedLayers(NamedTuple):
    """Paths of modules: one module on one side does the work of several on the other."""

    target: tuple[str, ...]
    golden: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which entries and items of two sides belong together.

    Args:
        pairs: positions of paired entries; an entry in no pair is on one side only.
        same: both sides hold the same calls in the same order; then there are no pairs.
        rule: how items inside paired entries pair.
        items: partners of single items, wherever they are, by name of the target entry and suffix; None: no partner.
            They win over ``rule``.
        stated: the user asked for these pairs, so that items of different dtype classes pair as well.
        loose: the sides are different programs; a function that only one of them calls is no difference in itself.
            A layer is (see ``exemptions.other_programs.lost_layers``).
        layer_map: the inferred map by which modules were paired.
        fused: the fused layers. Their modules have no partner here and are not missing (see
            ``exemptions.fused_layers``).
    """

    pairs: Positions = field(default_factory=list)
    same: bool = False
    rule: ItemRule | None = None
    items: Mapping[str, Mapping[str, Item | None]] = field(default_factory=dict)
    stated: bool = False
    loose: bool = False
    layer_map: LayerMap | None = None
    fused: Sequence[FusedLayers] = ()

    @property
    def fused_paths(self) -> FusedPaths:
        """Return the paths of all fused modules by side."""
        target = frozenset(path for layers in self.fused for path in layers.target)
        return target, frozenset(path for layers in self.fused for path in layers.golden)


SAME = Alignment(same=True)


def unchanged(suffix: str) -> str:
    """Return the suffix: the renaming of a side whose items keep their suffix."""
    return suffix
