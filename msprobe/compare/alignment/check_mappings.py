"""Reading the mappings of the user, and finding their entries that name nothing in the dumps.

``read_mapping_options`` reads mapping files once, checks them, and keeps their content as plain values: these travel to
other processes and machines, where the file need not be.

``unused_mapping_entries`` finds the entries of which a name is in no dump, because a mistyped name must not pass as a
mapping. An entry applies where the target has its left name and the golden run its right name. One file may serve many
ranks; so ``unused_entry_notes`` reports an entry only when it applies to none of them.

``Names`` and its kind hold the names of a dump as each kind of mapping writes them, and find the name nearest to a
mistyped one.
"""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msprobe.compare.alignment.api_mapping import api_mapping
from msprobe.compare.alignment.call_scope import Path, scopes
from msprobe.compare.alignment.cell_mapping import cell_mapping
from msprobe.compare.alignment.cross_framework import translates_target
from msprobe.compare.alignment.data_mapping import data_names
from msprobe.compare.alignment.layer_mapping import NO_PARTNER, PLUS, TOP, is_top, layer_mapping
from msprobe.compare.alignment.mapping_file import Marked, read_mapping
from msprobe.compare.alignment.options import MAPPINGS, MappingOptions, mapping_options
from msprobe.compare.alignment.protocol import Side
from msprobe.compare.inputs.locations import is_path
from msprobe.compare.records.entries import entry_keys, stem_of
from msprobe.core.errors import ReadError
from msprobe.core.naming.names import MODULE_PREFIXES
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import leaves
from msprobe.trace.leaves import row_name


def read_mapping_options(keywords: Mapping[str, Any]) -> MappingOptions:
    """Return the options of some keywords (see ``mapping_options``), whose mappings may be files.

    Raises:
        MsprobeException: a keyword is unknown, or has a value that it cannot have.
        ReadError: a mapping file cannot be read, or contradicts itself; names line and key.
    """
    given = {name: keywords[name] for name in MAPPINGS if _has_content(keywords.get(name))}
    files = {name: str(value) for name, value in given.items() if is_path(value)}
    return mapping_options({**keywords, **{name: content_of(name, value) for name, value in given.items()}}, files)


def _has_content(value: Any) -> bool:
    """Return whether a mapping is given as a file or by its content; the empty text says that none is wanted."""
    return (is_path(value) and value != "") or isinstance(value, (Mapping, list, tuple))


def content_of(keyword: str, given: Any) -> Any:
    """Return the content of the mapping of a keyword as lists, dicts and texts; an empty file is an empty dict.

    Raises:
        ReadError: it cannot be read, or contradicts itself; names the line.
    """
    content = read_mapping(given, keyword.partition("_")[0])
    if keyword in _CHECKED:
        _CHECKED[keyword].parse(content)
    return {} if content.value is None else _plain(content)


def _plain(content: Marked) -> Any:
    if isinstance(content.value, dict):
        return {key: _plain(value) for key, value in content.value.items()}
    return [_plain(item) for item in content.value] if isinstance(content.value, list) else content.value


UnusedEntry = tuple[str, str, str]
"""The keyword of a mapping, the left name of an entry of it, and why the entry does not apply."""
_SHOWN = 3


def unused_mapping_entries(options: MappingOptions, target: Dump, golden: Dump) -> list[UnusedEntry]:
    """Return the entries of all mappings that do not apply to these two dumps."""
    unused = []
    for keyword, content in _used_mappings(options):
        for entry, left, right in _CHECKED[keyword].needed_names(content, target, golden):
            reasons = [reason for needed in (left, right) if (reason := needed.reason())]
            if reasons:
                unused.append((keyword, entry, "; ".join(reasons)))
    return unused


def unused_entry_notes(options: MappingOptions, unused: Sequence[Sequence[UnusedEntry]]) -> list[str]:
    """Return a sentence for each mapping with entries that apply to no pair of dumps.

    Args:
        options: the options with the mappings.
        unused: the result of ``unused_mapping_entries`` for each pair of dumps.

    Raises:
        ReadError: a mapping has entries and none of them applies.
    """
    sentences = []
    for keyword, content in _used_mappings(options) if unused else ():
        by_pair = [{entry: reason for name, entry, reason in pair if name == keyword} for pair in unused]
        nowhere = {entry: reason for entry, reason in by_pair[0].items() if all(entry in pair for pair in by_pair)}
        if not nowhere:
            continue
        file, total = options.files.get(keyword, keyword.replace("_", " ")), _entry_count(keyword, content)
        listed = "; ".join(f"{entry!r}: {reason}" for entry, reason in list(nowhere.items())[:_SHOWN])
        listed += f"; and {len(nowhere) - _SHOWN} more" if len(nowhere) > _SHOWN else ""
        if len(nowhere) == total:
            raise ReadError(f"{file}: none of its {total} entries fits the dumps, so it is not applied: {listed}")
        sentences.append(f"{file}: {len(nowhere)} of its {total} entries fit nothing in the dumps: {listed}")
    return sentences


def _used_mappings(options: MappingOptions) -> Iterator[tuple[str, Any]]:
    """Yield the mappings that are used and not built in, with their content; a layer mapping is used alone."""
    for keyword in ("layer_mapping",) if options.layer_mapping is not None else _CHECKED:
        content = getattr(options, keyword)
        if content is not None and content is not True:
            yield keyword, content_of(keyword, content) if is_path(content) else content


def _entry_count(keyword: str, content: Any) -> int:
    if keyword == "layer_mapping":
        return sum(len(section or {}) for section in content.values())
    return len(content)


class Names:
    """A set of names of a dump.

    Args:
        names: the names.
        part: whether any part of a name is a name too.
        further: returns more names; called when one is not among ``names``.
    """

    def __init__(
        self, names: Iterable[str], *, part: bool = False, further: Callable[[], Iterable[str]] = tuple
    ) -> None:
        self._names: Collection[str] = frozenset(names)
        self._part, self._further = part, further
        self._sorted: list[str] | None = None

    def __contains__(self, name: str) -> bool:
        """Return whether the dump has this name."""
        if name in self._names or (self._part and any(name in other for other in self._names)):
            return True
        if self._sorted is None:
            self._sorted = sorted({*self._names, *self._further()})
            self._names = frozenset(self._sorted)
        return name in self._names

    def nearest(self, name: str) -> str:
        """Return the most similar name; "" where none is similar.

        Of more than ``_SEARCHED`` names, only the alphabetical neighbours are considered.
        """
        names = self._sorted or sorted(self._names)
        index = bisect.bisect_left(names, name)
        neighbours = names[max(index - _SEARCHED // 2, 0) : index + _SEARCHED // 2]
        return next(iter(difflib.get_close_matches(name, neighbours, n=1)), "")


_SEARCHED = 2000


class NeededName(NamedTuple):
    """A name that an entry of a mapping needs in one of the dumps; ``names`` is None where it needs none."""

    names: Names | None
    name: str
    side: str

    def reason(self) -> str:
        """Return in words why the name is not there; "" where it is."""
        if self.names is None or self.name in self.names:
            return ""
        near = self.names.nearest(self.name)
        return f"the {self.side} has no {self.name!r}" + (f", the nearest is {near!r}" if near else "")


_TARGET, _GOLDEN = "target", "golden run"
_NO_NAME = NeededName(None, "", "")
_Needed = Iterator[tuple[str, NeededName, NeededName]]
"""The left name of each entry, and the names that it needs in the target and in the golden run."""


@dataclass(frozen=True, slots=True)
class LayerNames:
    """The names of a dump as a layer mapping writes them; paths are texts with dots.

    Args:
        classes: the classes of modules.
        children: the paths below the modules of each class.
        top: the paths below the model.
        anywhere: all pieces of paths.
    """

    classes: Names
    children: dict[str, Names]
    top: Names
    anywhere: Names


def layer_names(dump: Dump) -> LayerNames:
    """Return the names of a dump as a layer mapping writes them."""
    dump_scopes = scopes(Side(dump, entry_keys(dump.data, dump.construct)))
    below: dict[str, _Paths] = {name: _Paths() for name in dump_scopes.classes.values()}
    paths = {*dump_scopes.paths, *dump_scopes.classes}
    for path in paths:
        for depth in range(len(path)):
            cls = dump_scopes.classes.get(path[:depth])
            if cls is not None:
                below[cls].paths.add(path[depth:])
    pieces = {path[start:] for path in paths for start in range(len(path))}
    children = {name: paths_below.names() for name, paths_below in below.items()}
    return LayerNames(Names(below), children, _Paths(paths).names(), _Paths(pieces).names())


@dataclass(slots=True)
class _Paths:
    """Paths below modules, each once."""

    paths: set[Path] = field(default_factory=set)

    def names(self) -> Names:
        """Return the paths, and the beginnings of them, as texts."""
        return Names(".".join(path[:end]) for path in self.paths for end in range(1, len(path) + 1))


def _needed_by_layers(content: Any, target: Dump, golden: Dump) -> _Needed:
    left_names, right_names = layer_names(target), layer_names(golden)
    for title, section in content.items():
        top = is_top(title)
        children = left_names.top if top else left_names.children.get(title)
        for left, right in (section or {}).items():
            entry = f"{TOP if top else title}.{left}"
            if children is None:
                yield entry, NeededName(left_names.classes, title, _TARGET), _NO_NAME
                continue
            partner = right.partition("(")[0].strip()
            lefts = [NeededName(children, name.strip(), _TARGET) for name in left.split(PLUS)]
            rights = [
                NeededName(right_names.anywhere, name.strip(), _GOLDEN)
                for name in partner.split(PLUS)
                if name != NO_PARTNER
            ]
            yield entry, _first_absent(lefts), _first_absent(rights)


def _first_absent(needed: list[NeededName]) -> NeededName:
    return next((name for name in needed if name.reason()), _NO_NAME)


def _needed_by_cells(content: Any, target: Dump, golden: Dump) -> _Needed:
    left_names, right_names = _module_names(target), _module_names(golden)
    for left, right in content.items():
        yield left, NeededName(left_names, left, _TARGET), NeededName(right_names, right, _GOLDEN)


def _module_names(dump: Dump) -> Names:
    """Return ``path.Class`` of every module; any part of it is a name as well."""
    stems = {stem_of(name) for name in (*dump.data, *dump.construct)}
    return Names(
        (rest for prefix, _, rest in (stem.partition(".") for stem in stems) if prefix in MODULE_PREFIXES), part=True
    )


def _needed_by_apis(content: Any, target: Dump, golden: Dump) -> _Needed:
    left_names, right_names = (Names({stem_of(name) for name in dump.data}) for dump in (target, golden))
    left, right = ("ms_api", "pt_api") if translates_target(target, golden) else ("pt_api", "ms_api")
    for entry in content:
        needed = NeededName(left_names, entry[left].strip(), _TARGET)
        yield entry["ms_api"].strip(), needed, NeededName(right_names, entry[right].strip(), _GOLDEN)


def _needed_by_items(content: Any, target: Dump, golden: Dump) -> _Needed:
    left_names, right_names = _ItemNames(target), _ItemNames(golden)
    for left, right in data_names(content).items():
        needed = _NO_NAME if right is None else NeededName(right_names, right, _GOLDEN)
        yield left, NeededName(left_names, left, _TARGET), needed


class _ItemNames(Names):
    """The names of entries, and those of their items as result tables write them.

    The items of an entry are read when a name of it is looked up. All entries are read when that fails, because the
    name of a file may stand for an item of any entry.
    """

    def __init__(self, dump: Dump) -> None:
        super().__init__(dump.data, further=self._all_items)
        self._dump = dump
        self._items: dict[str, frozenset[str]] = {}

    def __contains__(self, name: str) -> bool:
        """Return whether the dump has an entry or an item of this name."""
        entry = name
        while entry and entry not in self._dump.data:
            entry = entry.rpartition(".")[0]
        return (entry != "" and (entry == name or name in self._items_of(entry))) or super().__contains__(name)

    def _items_of(self, entry: str) -> frozenset[str]:
        if entry not in self._items:
            self._items[entry] = frozenset(row_name(entry, leaf) for leaf in leaves(entry, self._dump.data[entry]))
        return self._items[entry]

    def _all_items(self) -> Iterator[str]:
        for entry in self._dump.data:
            yield from self._items_of(entry)


class _Checks(NamedTuple):
    """How a mapping is checked: ``parse`` raises ReadError for a content that contradicts itself, ``needed_names``
    yields the names that each entry needs in the two dumps."""

    parse: Callable[[Marked], object]
    needed_names: Callable[[Any, Dump, Dump], _Needed]


_CHECKED = {
    "cell_mapping": _Checks(cell_mapping, _needed_by_cells),
    "api_mapping": _Checks(api_mapping, _needed_by_apis),
    "data_mapping": _Checks(data_names, _needed_by_items),
    "layer_mapping": _Checks(layer_mapping, _needed_by_layers),
}
"""By keyword. Another mapping is read without a check; its strategy parses it."""
