"""What a mapping says about names that neither dump has: a mistyped name must not pass as a mapping.

An entry applies where the target has its left name and the golden run its right one. One file may serve many ranks, so
an entry counts as lost only when it applies to none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msprobe.compare.alignment.content import content_of
from msprobe.compare.alignment.frameworks import is_mindspore
from msprobe.compare.alignment.known_names import Names, item_names, layer_names, module_names, stem_names
from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.locations import is_path
from msprobe.core.errors import ReadError
from msprobe.core.store.reader import Dump

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
