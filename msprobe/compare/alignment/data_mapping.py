"""Data mapping (``-dm``): items of the target by name, each with the item of the golden run it stands for.

    Functional.conv2d.0.forward.input.0: Functional.conv2d.3.forward.input.0
    Functional.conv2d.1.forward: Functional.conv2d.4.forward        # all items of an entry
    Functional.relu.0.forward.output.0: N/A                         # no partner

Items not listed pair as they would without the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from msprobe.compare.alignment.mapping_file import read_mapping
from msprobe.compare.alignment.protocol import Alignment, Item, Positions, Side, Strategy
from msprobe.compare.records.leaves import row_name
from msprobe.core.store.record_walk import leaves

NOTHING = frozenset({"N/A", "None", ""})
_Names = dict[str, list[Item]]


@dataclass(frozen=True, slots=True)
class DataMapping:
    """Pairs the listed items, and the others as ``matcher`` says. ``names`` are names of the target to golden ones;
    None: no partner."""

    names: Mapping[str, str | None]
    matcher: Strategy

    def align(self, target: Side, golden: Side) -> Alignment:
        left, right = _names(target), _names(golden)
        items: dict[str, dict[str, Item | None]] = {}
        for name, partner in self.names.items():
            ours, theirs = left.get(name), [] if partner is None else right.get(partner)
            if ours is None or theirs is None:
                continue  # told by ``unapplied``
            for (entry, suffix), other in _paired(ours, theirs):
                items.setdefault(entry, {})[suffix] = other
        found = self.matcher.align(target, golden)
        whole = {name for name, said in items.items() if len(said) == len(left[name])}
        pairs = _positions(found, items, whole, (target, golden))
        return replace(found, pairs=pairs, same=False, items=items, stated=True)


def _names(side: Side) -> _Names:
    """Items by the name of their row, and all items of an entry by the name of the entry."""
    found: _Names = {}
    for key in side.keys:
        own = leaves(key.name, side.dump.data[key.name])
        found[key.name] = [(key.name, leaf.suffix) for leaf in own]
        for leaf in own:
            found[row_name(key.name, leaf)] = [(key.name, leaf.suffix)]
    return found


def _paired(ours: list[Item], theirs: list[Item]) -> list[tuple[Item, Item | None]]:
    """Item with item, or the items of two entries by their suffix."""
    if len(ours) == 1 and len(theirs) == 1:
        return [(ours[0], theirs[0])]
    by_suffix = {suffix: (entry, suffix) for entry, suffix in theirs}
    return [((entry, suffix), by_suffix.get(suffix)) for entry, suffix in ours]


def _positions(
    found: Alignment, items: Mapping[str, Mapping[str, Item | None]], whole: set[str], sides: tuple[Side, Side]
) -> Positions:
    """The partner of an entry is the one that most of its items were given, if it is listed as a ``whole`` or has no
    partner of its own."""
    target, golden = sides
    there = {key.name: j for j, key in enumerate(golden.keys)}
    own = {i: i for i in range(len(target.keys))} if found.same else dict(found.pairs)
    wanted: dict[int, int] = {}
    for i, key in enumerate(target.keys):
        if key.name not in items or (i in own and key.name not in whole):
            continue
        votes = Counter(item[0] for item in items[key.name].values() if item is not None)
        if votes:
            wanted[i] = there[votes.most_common(1)[0][0]]
    taken = set(wanted.values())
    return sorted([(i, j) for i, j in own.items() if i not in wanted and j not in taken] + list(wanted.items()))


def data_mapping(given: Any, matcher: Strategy) -> DataMapping:
    """From a file or a dict, see ``data_names``."""
    return DataMapping(data_names(given), matcher)


def data_names(given: Any) -> dict[str, str | None]:
    """Names of the target with their golden names, None for no partner, from a file or a dict.

    Raises:
        ReadError: the mapping cannot be read; names the line.
    """
    names: dict[str, str | None] = {}
    for name, value in read_mapping(given, "data").table("a data mapping").items():
        absent = value.value is None or (isinstance(value.value, str) and value.value.strip() in NOTHING)
        names[name] = None if absent else value.text(f"the item for {name!r}")
    return names
