"""Data mapping (``-dm``): items of the target by name, each with the item of the golden run that it pairs with.

    Functional.conv2d.0.forward.input.0: Functional.conv2d.3.forward.input.0
    Functional.conv2d.1.forward: Functional.conv2d.4.forward        # all items of an entry
    Functional.relu.0.forward.output.0: N/A                         # no partner

Items that are not listed pair as they would without the file. Where only the file pairs two entries, their other items
have no partner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from msprobe.compare.alignment.mapping_file import read_mapping
from msprobe.compare.alignment.protocol import Alignment, Item, Positions, Side, Strategy
from msprobe.core.store.record_walk import leaves
from msprobe.trace.leaves import row_name

_NO_PARTNER = frozenset({"N/A", "None", ""})


@dataclass(frozen=True, slots=True)
class DataMapping:
    """Pairs the listed items, and all others as another strategy does.

    Args:
        names: names of the target to names of the golden run; None: no partner.
        strategy: the strategy for everything else.
    """

    names: Mapping[str, str | None]
    strategy: Strategy

    def align(self, target: Side, golden: Side) -> Alignment:
        """Return the pairs of entries and of listed items; a name that no dump has is left out (``check_mappings``
        reports it)."""
        left, right = _items_by_name(target), _items_by_name(golden)
        items: dict[str, dict[str, Item | None]] = {}
        for name, partner in self.names.items():
            left_items, right_items = left.get(name), [] if partner is None else right.get(partner)
            if left_items is None or right_items is None:
                continue
            for (entry, suffix), other in _paired_items(left_items, right_items):
                items.setdefault(entry, {})[suffix] = other
        others = self.strategy.align(target, golden)
        whole = {name for name, listed in items.items() if len(listed) == len(left[name])}
        pairs, made = _entry_pairs(others, items, whole, (target, golden))
        for name in made:
            items[name] = {suffix: items[name].get(suffix) for _, suffix in left[name]}
        return replace(others, pairs=pairs, same=False, items=items, stated=True)


def _items_by_name(side: Side) -> dict[str, list[Item]]:
    """Return each item by the name of its row, and all items of an entry by the name of the entry."""
    items: dict[str, list[Item]] = {}
    for key in side.keys:
        entry_leaves = leaves(key.name, side.dump.data[key.name])
        items[key.name] = [(key.name, leaf.suffix) for leaf in entry_leaves]
        for leaf in entry_leaves:
            items[row_name(key.name, leaf)] = [(key.name, leaf.suffix)]
    return items


def _paired_items(left: list[Item], right: list[Item]) -> list[tuple[Item, Item | None]]:
    """Return one item with one other, or the items of two entries by their suffix."""
    if len(left) == 1 and len(right) == 1:
        return [(left[0], right[0])]
    by_suffix = {suffix: (entry, suffix) for entry, suffix in right}
    return [((entry, suffix), by_suffix.get(suffix)) for entry, suffix in left]


def _entry_pairs(
    others: Alignment, items: Mapping[str, Mapping[str, Item | None]], whole: set[str], sides: tuple[Side, Side]
) -> tuple[Positions, list[str]]:
    """Return the pairs of entries, and the names of the target entries that pair only because items are listed.

    An entry of which all items are listed (``whole``), or that has no partner without the file, pairs with the entry
    that holds the partners of most of its items. Other entries pair as in ``others``.
    """
    target, golden = sides
    golden_index = {key.name: j for j, key in enumerate(golden.keys)}
    usual = {i: i for i in range(len(target.keys))} if others.same else dict(others.pairs)
    listed: dict[int, int] = {}
    for i, key in enumerate(target.keys):
        if key.name not in items or (i in usual and key.name not in whole):
            continue
        votes = Counter(item[0] for item in items[key.name].values() if item is not None)
        if votes:
            listed[i] = golden_index[votes.most_common(1)[0][0]]
    taken = set(listed.values())
    pairs = sorted([(i, j) for i, j in usual.items() if i not in listed and j not in taken] + list(listed.items()))
    return pairs, [target.keys[i].name for i, j in listed.items() if usual.get(i) != j]


def data_mapping(given: Any, strategy: Strategy) -> DataMapping:
    """Return the mapping of a file or a dict (see ``data_names``) on top of another strategy."""
    return DataMapping(data_names(given), strategy)


def data_names(given: Any) -> dict[str, str | None]:
    """Return the names of the target with their golden names, None for no partner, from a file or a dict.

    Raises:
        ReadError: the mapping cannot be read; names the line.
    """
    names: dict[str, str | None] = {}
    for name, value in read_mapping(given, "data").table("a data mapping").items():
        absent = value.value is None or (isinstance(value.value, str) and value.value.strip() in _NO_PARTNER)
        names[name] = None if absent else value.text(f"the item for {name!r}")
    return names
