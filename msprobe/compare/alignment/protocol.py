"""What an alignment strategy is: two sides in, pairs of entries out, and how items pair inside two paired entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msprobe.compare.records.entries import EntryKey
from msprobe.core.store.reader import Dump

if TYPE_CHECKING:
    from msprobe.compare.alignment.layer_map import LayerMap

Positions = list[tuple[int, int]]
Renaming = Callable[[str], str | None]
"""Suffix of an item to the one it pairs by; None when it has no partner."""
ItemRule = Callable[[EntryKey, EntryKey], tuple[Renaming, Renaming] | None]
"""Two paired entries to the renamings of both; None where items of equal suffix pair."""
Item = tuple[str, str]
"""Entry name and suffix of one item."""
Fused = tuple[frozenset[str], frozenset[str]]
"""Paths of modules, of the target and of the golden run."""


class FusedLayers(NamedTuple):
    """Paths of modules: one on one side does the work of those on the other."""

    target: tuple[str, ...]
    golden: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One dump as strategies see it. ``keys`` are its entries in file order; the dump holds their records."""

    dump: Dump
    keys: Sequence[EntryKey]


@dataclass(frozen=True, slots=True)
class Alignment:
    """``pairs`` are positions (target, golden); entries in none of them are on one side only.

    ``same`` says that both sides hold the same calls in the same order; then there are no pairs.
    ``rule`` pairs items inside entries; ``items`` pairs single items, by target entry and suffix, wherever they are
    (None: has no partner), and wins. ``stated`` marks pairs that a person asked for: no dtype can part them.
    ``loose`` says that the sides are different programs: a function that only one of them calls is no difference in
    itself (a layer is, see ``lost_layers``).
    ``layer_map`` is the inferred map that was applied. ``fused`` are the modules of which one does the work of several
    on the other side; they have no partner here and are not missing (see ``fused_layers``).
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
    def fused_paths(self) -> Fused:
        """The paths of all fused modules by side."""
        ours = frozenset(path for layers in self.fused for path in layers.target)
        return ours, frozenset(path for layers in self.fused for path in layers.golden)


SAME = Alignment(same=True)


def unchanged(suffix: str) -> str:
    """The renaming of a side whose items keep their suffix."""
    return suffix


class Strategy(Protocol):
    """Pairs the entries of two dumps."""

    def align(self, target: Side, golden: Side) -> Alignment: ...
