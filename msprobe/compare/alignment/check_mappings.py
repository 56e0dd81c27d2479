"""The content of a mapping file, read and checked once, as plain values: they travel to other processes and machines,
where the file need not be.

The names that a dump has, as each kind of mapping writes them, and which of them is nearest to a mistyped one.

What a mapping says about names that neither dump has: a mistyped name must not pass as a mapping.

An entry applies where the target has its left name and the golden run its right one. One file may serve many ranks, so
an entry counts as lost only when it applies to none of them.
"""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msprobe.compare.alignment.api_mapping import api_mapping
from msprobe.compare.alignment.call_scope import Path, scopes
from msprobe.compare.alignment.cell_mapping import cell_mapping
from msprobe.compare.alignment.cross_framework import is_mindspore
from msprobe.compare.alignment.data_mapping import data_names
from msprobe.compare.alignment.layer_mapping import layer_mapping
from msprobe.compare.alignment.mapping_file import Marked, read_mapping
from msprobe.compare.alignment.options import MAPPINGS, MappingOptions, mapping_options
from msprobe.compare.alignment.protocol import Side
from msprobe.compare.inputs.locations import is_path
from msprobe.compare.records.entries import entry_keys, stem_of
from msprobe.compare.records.leaves import row_name
from msprobe.core.errors import ReadError
from msprobe.core.naming.names import MODULE_PREFIXES
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import leaves

_CHECKS: dict[str, Callable[[Marked], object]] = {
    "cell_mapping": cell_mapping,
    "api_mapping": api_mapping,
    "data_mapping": data_names,
    "layer_mapping": layer_mapping,
}


def read_mapping_options(keywords: Mapping[str, Any]) -> MappingOptions:
    """Return the options of some keywords (see ``mapping_options``), whose mappings may be files.

    Raises:
        MsprobeException: a keyword is unknown, or no mapping can have such a value.
        ReadError: a mapping file cannot be read, or contradicts itself; names line and key.
    """
    given = {name: keywords[name] for name in MAPPINGS if _has_content(keywords.get(name))}
    files = {name: str(value) for name, value in given.items() if is_path(value)}
    return mapping_options({**keywords, **{name: content_of(name, value) for name, value in given.items()}}, files)


def _has_content(value: Any) -> bool:
    """Return whether a mapping is given as a file or by its content; the empty text says that none is wanted."""
    return (is_path(value) and value != "") or isinstance(value, (Mapping, list, tuple))


def content_of(keyword: str, given: Any) -> Any:
    """The content of the mapping given for a keyword, as lists, dicts and texts; an empty file is an empty dict.

    Raises:
        ReadError: it cannot be read, or contradicts itself; names the line.
    """
    read = read_mapping(given, keyword.partition("_")[0])
    _CHECKS[keyword](read)
    return {} if read.value is None else _plain(read)


def _plain(read: Marked) -> Any:
    if isinstance(read.value, dict):
        return {key: _plain(value) for key, value in read.value.items()}
    return [_plain(one) for one in read.value] if isinstance(read.value, list) else read.value


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


_SHOWN = 3
_MAPPINGS = ("layer_mapping", "cell_mapping", "api_mapping", "data_mapping")


Unapplied = tuple[str, str, str]
"""The keyword of a mapping, the left name of an entry of it, and why that does not apply."""


def unapplied(options: MappingOptions, target: Dump, golden: Dump) -> list[Unapplied]:
    """The entries of all mappings that do not apply to these two dumps."""
    found = []
    for mapping, content in _given(options):
        for entry, ours, theirs in _entries(mapping, content, target, golden):
            reasons = [_absent(names, name, side) for names, name, side in (ours, theirs)]
            if any(reasons):
                found.append((mapping, entry, "; ".join(filter(None, reasons))))
    return found


def unapplied_notes(options: MappingOptions, pairs: Sequence[Sequence[Unapplied]]) -> list[str]:
    """A sentence for each mapping with entries that apply to no pair of dumps; ``pairs`` are the entries lost in each.

    Raises:
        ReadError: a mapping has entries and none of them applies.
    """
    sentences = []
    for mapping, content in _given(options) if pairs else ():
        lost = [{entry: reason for kind, entry, reason in pair if kind == mapping} for pair in pairs]
        nowhere = {entry: reason for entry, reason in lost[0].items() if all(entry in other for other in lost)}
        if not nowhere:
            continue
        file, total = options.files.get(mapping, mapping.replace("_", " ")), _count(mapping, content)
        listed = "; ".join(f"{entry!r}: {reason}" for entry, reason in list(nowhere.items())[:_SHOWN])
        listed += f"; and {len(nowhere) - _SHOWN} more" if len(nowhere) > _SHOWN else ""
        if len(nowhere) == total:
            raise ReadError(f"{file}: none of its {total} entries fits the dumps, so it is not applied: {listed}")
        sentences.append(f"{file}: {len(nowhere)} of its {total} entries fit nothing in the dumps: {listed}")
    return sentences


_Place = tuple[Names | None, str, str]
"""Names of a side, the one looked for (none where no name is needed), and how messages call the side."""


def _given(options: MappingOptions) -> Iterator[tuple[str, Any]]:
    """The mappings that are used and not built in, with their content."""
    for mapping in _MAPPINGS:
        content = getattr(options, mapping)
        if content is not None and content is not True:
            yield mapping, content_of(mapping, content) if is_path(content) else content
        if mapping == "layer_mapping" and content is not None:
            return


def _count(mapping: str, content: Any) -> int:
    if mapping == "layer_mapping":
        return sum(len(section or {}) for section in content.values())
    return len(content)


def _absent(names: Names | None, name: str, side: str) -> str:
    if names is None or name in names:
        return ""
    near = names.nearest(name)
    return f"the {side} has no {name!r}" + (f", the nearest is {near!r}" if near else "")


def _entries(mapping: str, content: Any, target: Dump, golden: Dump) -> Iterator[tuple[str, _Place, _Place]]:
    """Each entry with what it needs of the target and of the golden run."""
    reading = {
        "layer_mapping": _layers,
        "cell_mapping": _cells,
        "api_mapping": _apis,
        "data_mapping": _items,
    }
    return reading[mapping](content, target, golden)


def _layers(content: Any, target: Dump, golden: Dump) -> Iterator[tuple[str, _Place, _Place]]:
    from msprobe.compare.alignment.layer_mapping import NOBODY, PLUS, TOP, is_top

    ours, theirs = layer_names(target), layer_names(golden)
    for title, section in content.items():
        top = is_top(title)
        children = ours.top if top else ours.children.get(title)
        for left, right in (section or {}).items():
            entry = f"{TOP if top else title}.{left}"
            names = right.partition("(")[0].strip()
            there = [(theirs.anywhere, name.strip(), "golden run") for name in names.split(PLUS) if name != NOBODY]
            if children is None:
                yield entry, (ours.classes, title, "target"), (None, "", "")
                continue
            here = [(children, name.strip(), "target") for name in left.split(PLUS)]
            yield entry, _first_absent(here), _first_absent(there)


def _first_absent(places: list[tuple[Names, str, str]]) -> _Place:
    absent = (place for place in places if place[1] not in place[0])
    return next(absent, (None, "", ""))


def _cells(content: Any, target: Dump, golden: Dump) -> Iterator[tuple[str, _Place, _Place]]:
    ours, theirs = module_names(target), module_names(golden)
    for left, right in content.items():
        yield left, (ours, left, "target"), (theirs, right, "golden run")


def _apis(content: Any, target: Dump, golden: Dump) -> Iterator[tuple[str, _Place, _Place]]:
    ours, theirs = stem_names(target), stem_names(golden)
    turned = is_mindspore(golden) and not is_mindspore(target)
    left, right = ("pt_api", "ms_api") if turned else ("ms_api", "pt_api")
    for entry in content:
        yield (
            entry["ms_api"].strip(),
            (ours, entry[left].strip(), "target"),
            (
                theirs,
                entry[right].strip(),
                "golden run",
            ),
        )


def _items(content: Any, target: Dump, golden: Dump) -> Iterator[tuple[str, _Place, _Place]]:
    from msprobe.compare.alignment.data_mapping import data_names

    ours, theirs = item_names(target), item_names(golden)
    for left, right in data_names(content).items():
        there = (None, "", "") if right is None else (theirs, right, "golden run")
        yield left, (ours, left, "target"), there
