"""Which leaf of an entry pairs with which leaf of its partner: by suffix, by a rule, or because a mapping says so.

Most pairs of entries have the same structure; their leaves pair by position and need none of this (see
``record_walk.leaves_of_both``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.compare.alignment.protocol import Alignment, Item
from msprobe.compare.records.entries import EntryKey, is_module
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import Leaf, is_tensor, leaves
from msprobe.core.tensors.dtypes import DtypeKind, find_dtype
from msprobe.trace.leaves import row_name

if TYPE_CHECKING:
    from msprobe.compare.table.call_arguments import Pairs


@dataclass(slots=True)
class LeafPairs:
    """Pairs the leaves of paired entries. ``gate`` parts leaves whose dtypes are of different kinds, as the published
    rules do; ``across`` folds the kinds of two frameworks.

    ``other_entry`` has the golden name of each leaf that belongs to another entry than the partner, by its position in
    the list that ``pairs`` returned last.
    """

    golden: Dump
    alignment: Alignment
    gate: bool
    across: bool
    other_entry: dict[int, str] = field(default_factory=dict)
    _claimed: set[Item] = field(default_factory=set)
    _known: dict[str, dict[str, Leaf]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        partners = (items.values() for items in self.alignment.items.values())
        self._claimed = {item for values in partners for item in values if item is not None}
        self.gate = self.gate and not self.alignment.stated

    @property
    def plain(self) -> bool:
        """Whether leaves of equal suffix pair, and nothing else is said."""
        return not self.gate and self.alignment.rule is None and not self.alignment.items

    def pairs(self, target: EntryKey | None, golden: EntryKey | None, ours: list[Leaf], theirs: list[Leaf]) -> Pairs:
        """Pairs of leaves, those of the target in their order; then what is left of the golden entry."""
        self.other_entry = {}
        said = self.alignment.items.get(target.name, {}) if target is not None else {}
        if golden is not None and self._claimed:
            theirs = [leaf for leaf in theirs if (golden.name, leaf.suffix) not in self._claimed]
        rule = self.alignment.rule
        renaming = rule(target, golden) if rule is not None and target is not None and golden is not None else None
        if renaming is None:
            waiting = {leaf.suffix: leaf for leaf in theirs}
        else:
            waiting = {name: leaf for leaf in theirs if (name := renaming[1](leaf.suffix)) is not None}
        found: Pairs = []
        for leaf in ours:
            if leaf.suffix in said:
                found.append((leaf, self._said(said[leaf.suffix], golden, len(found))))
                continue
            name = leaf.suffix if renaming is None else renaming[0](leaf.suffix)
            partner = waiting.get(name) if name is not None else None
            if partner is not None and self.gate and not self._same_kind(leaf.raw, partner.raw):
                partner = None
            if partner is not None and name is not None:
                del waiting[name]
            found.append((leaf, partner))
        used = {id(partner) for _, partner in found}
        found += [(None, leaf) for leaf in theirs if id(leaf) not in used]
        if target is None or golden is None or target.stem != golden.stem or not self.plain:
            return found
        from msprobe.compare.table.call_arguments import pairs_by_parameter, pairs_in_order  # reads a table

        if is_module(target):
            return pairs_in_order(target.phase, found)
        return pairs_by_parameter(target.stem, target.phase, found)

    def claims_all(self, golden: str, theirs: list[Leaf]) -> bool:
        """Whether every leaf of a golden entry stands somewhere else."""
        return bool(self._claimed) and all((golden, leaf.suffix) in self._claimed for leaf in theirs)

    def _said(self, item: Item | None, golden: EntryKey | None, at: int) -> Leaf | None:
        if item is None:
            return None
        entry, suffix = item
        if entry not in self._known:
            self._known[entry] = {leaf.suffix: leaf for leaf in leaves(entry, self.golden.data[entry])}
        leaf = self._known[entry][suffix]
        if golden is None or entry != golden.name:
            self.other_entry[at] = row_name(entry, leaf)
        return leaf

    def _same_kind(self, target: Any, golden: Any) -> bool:
        left, right = _dtype(target), _dtype(golden)
        if left == right:
            return True
        ours, theirs = find_dtype(left), find_dtype(right)
        if ours is None or theirs is None or ours.kind is not theirs.kind:
            return False
        return self.across or ours.kind is DtypeKind.FLOAT


def _dtype(raw: Any) -> str:
    return str(raw["dtype"] if is_tensor(raw) else raw.get("type")) if isinstance(raw, Mapping) else str(type(raw))
