"""Names of one side translated before matching, so that the same call has the same name on both sides.

A translator changes what matching sees of an entry, its name without number and its parent; the entry itself and the
table keep the recorded names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from msprobe.compare.alignment.protocol import Alignment as Aligned
from msprobe.compare.alignment.protocol import ItemRule, Side, Strategy
from msprobe.compare.pairs import EntryKey

Translator = Callable[[str], str]
"""A name without call number and phase (``Functional.dense``, ``Cell.net.fc.Dense``) to the one matching sees."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """Matches translated names: those of the target by ``target`` in turn, those of the golden run by ``golden``."""

    matcher: Strategy
    target: tuple[Translator, ...] = ()
    golden: tuple[Translator, ...] = ()
    rule: ItemRule | None = None

    def align(self, target: Side, golden: Side) -> Aligned:
        left = Side(target.dump, translated(target.keys, self.target))
        right = Side(golden.dump, translated(golden.keys, self.golden))
        found = self.matcher.align(left, right)
        return replace(found, rule=self.rule)


def translated(keys: Sequence[EntryKey], translators: Sequence[Translator]) -> list[EntryKey]:
    """The keys under their new names. Calls of several names that become one are numbered anew, in their order."""
    known: dict[str, str] = {"": ""}
    for stem in {key.stem for key in keys} | {key.parent for key in keys}:
        name = stem
        for translator in translators:
            name = translator(name)
        known[stem] = name
    merged = _merged({key.stem for key in keys}, known)
    renamed = [key._replace(stem=known[key.stem], parent=known[key.parent]) for key in keys]
    return numbered(keys, renamed, merged) if merged else renamed


def _merged(stems: set[str], known: dict[str, str]) -> set[str]:
    """Names that several of these stems become."""
    seen: set[str] = set()
    return {name for name in map(known.__getitem__, sorted(stems)) if name in seen or seen.add(name)}  # type: ignore[func-returns-value]


def numbered(keys: Sequence[EntryKey], renamed: list[EntryKey], merged: set[str]) -> list[EntryKey]:
    """A call keeps one number in all its phases: the one of its first record."""
    numbers: dict[tuple[str, int | None], int] = {}
    counted: dict[str, int] = {}
    found: list[EntryKey] = []
    for key, new in zip(keys, renamed, strict=True):
        if new.stem not in merged:
            found.append(new)
            continue
        place = key.stem, key.call
        if place not in numbers:
            numbers[place] = counted.get(new.stem, 0)
            counted[new.stem] = numbers[place] + 1
        found.append(new._replace(call=numbers[place]))
    return found
