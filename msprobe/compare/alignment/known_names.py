"""The names that a dump has, as each kind of mapping writes them, and which of them is nearest to a mistyped one."""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from msprobe.compare.alignment.layer_scope import Path, scopes
from msprobe.compare.alignment.protocol import Side
from msprobe.compare.items import leaves, row_name
from msprobe.compare.pairs import entry_keys, stem_of
from msprobe.core.naming.model import MODULE_PREFIXES
from msprobe.core.store.reader import Dump

_LOOKED_AT = 2000


class Names:
    """A set of names. ``part`` says that any part of one is a name too; ``all_`` is called when a name was not found
    in the others."""

    def __init__(self, names: Iterable[str], *, part: bool = False, all_: Callable[[], Iterable[str]] = tuple) -> None:
        self._names: Collection[str] = frozenset(names)
        self._part, self._all = part, all_
        self._sorted: list[str] | None = None

    def __contains__(self, name: str) -> bool:
        if name in self._names or (self._part and any(name in one for one in self._names)):
            return True
        if self._sorted is None:
            self._sorted = sorted({*self._names, *self._all()})
            self._names = frozenset(self._sorted)
        return name in self._names

    def nearest(self, name: str) -> str:
        """The most similar name; "" where none is similar. Of very many, those that begin alike are looked at."""
        known = self._sorted or sorted(self._names)
        at = bisect.bisect_left(known, name)
        near = known[max(at - _LOOKED_AT // 2, 0) : at + _LOOKED_AT // 2]
        return next(iter(difflib.get_close_matches(name, near, n=1)), "")


@dataclass(frozen=True, slots=True)
class LayerNames:
    """``children`` are the paths below modules of each class, ``top`` those below the model, ``anywhere`` all pieces of
    paths, as texts with dots."""

    classes: Names
    children: dict[str, Names]
    top: Names
    anywhere: Names


@dataclass(slots=True)
class _Below:
    """Paths below modules, once each."""

    paths: set[Path] = field(default_factory=set)

    def names(self) -> Names:
        return Names(".".join(path[:end]) for path in self.paths for end in range(1, len(path) + 1))


def layer_names(dump: Dump) -> LayerNames:
    """Names as a layer mapping writes them."""
    found = scopes(Side(dump, entry_keys(dump.data, dump.construct)))
    below: dict[str, _Below] = {name: _Below() for name in found.classes.values()}
    places = {*found.paths, *found.classes}
    for path in places:
        for depth in range(len(path)):
            cls = found.classes.get(path[:depth])
            if cls is not None:
                below[cls].paths.add(path[depth:])
    pieces = {path[start:] for path in places for start in range(len(path))}
    return LayerNames(
        Names(below), {name: one.names() for name, one in below.items()}, _Below(places).names(), _Below(pieces).names()
    )


def module_names(dump: Dump) -> Names:
    """``path.Class`` of every module, and any part of it."""
    stems = {stem_of(name) for name in (*dump.data, *dump.construct)}
    return Names(
        (rest for prefix, _, rest in (stem.partition(".") for stem in stems) if prefix in MODULE_PREFIXES), part=True
    )


def stem_names(dump: Dump) -> Names:
    """Functions by their name without call number and phase."""
    return Names({stem_of(name) for name in dump.data})


def item_names(dump: Dump) -> Names:
    """Entries, and their items as result tables name them."""
    return _ItemNames(dump)


class _ItemNames(Names):
    """The items of an entry are asked for when one is looked for; a file name may stand for an item of any entry."""

    def __init__(self, dump: Dump) -> None:
        super().__init__(dump.data, all_=self._everything)
        self._dump = dump
        self._items: dict[str, frozenset[str]] = {}

    def __contains__(self, name: str) -> bool:
        entry = name
        while entry and entry not in self._dump.data:
            entry = entry.rpartition(".")[0]
        return (entry != "" and (entry == name or name in self._of(entry))) or super().__contains__(name)

    def _of(self, entry: str) -> frozenset[str]:
        if entry not in self._items:
            self._items[entry] = frozenset(row_name(entry, leaf) for leaf in leaves(entry, self._dump.data[entry]))
        return self._items[entry]

    def _everything(self) -> Iterator[str]:
        for entry in self._dump.data:
            yield from self._of(entry)
