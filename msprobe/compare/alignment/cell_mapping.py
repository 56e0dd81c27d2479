"""Cell mapping (``-cm``): module paths and class names of the target become those of the golden run.

    fc1.Linear: proj.Dense                  # path and class of a module, whole
    RowParallelLinear: TERowParallelLinear  # or any part of it

A module whose whole ``path.Class`` is a key gets that value. Otherwise each line whose left text occurs replaces it
once, in the order of the file; what a line has written, a later one leaves alone. ``Cell`` at the front is ``Module``.

Names of one side translated before matching, so that the same call has the same name on both sides.

A translator changes what matching sees of an entry, its name without number and its parent; the entry itself and the
table keep the recorded names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msprobe.compare.alignment.mapping_file import read_mapping
from msprobe.compare.alignment.protocol import Alignment as Aligned
from msprobe.compare.alignment.protocol import ItemRule, Side, Strategy
from msprobe.compare.records.entries import EntryKey
from msprobe.core.naming.names import MODULE_PREFIXES

_MODULE, _ = MODULE_PREFIXES


@dataclass(frozen=True, slots=True)
class CellMapping:
    """Translates names of modules; see the module text."""

    rules: dict[str, str] = field(default_factory=dict)

    def __call__(self, stem: str) -> str:
        prefix, dot, rest = stem.partition(".")
        if not dot or prefix not in MODULE_PREFIXES:
            return stem
        return f"{_MODULE}.{self.rules.get(rest) or self._replaced(rest)}"

    def _replaced(self, text: str) -> str:
        pieces = [(text, False)]
        for left, right in self.rules.items():
            for at, (piece, done) in enumerate(pieces):
                start = -1 if done else piece.find(left)
                if start >= 0:
                    rest = piece[start + len(left) :]
                    pieces[at : at + 1] = [(piece[:start], False), (right, True), (rest, False)]
                    break
        return "".join(piece for piece, _ in pieces)


def cell_mapping(given: Any) -> CellMapping:
    """From a file or a dict; True means the change of the prefix alone.

    Raises:
        ReadError: the mapping cannot be read; names the line.
    """
    if given is True:
        return CellMapping()
    table = read_mapping(given, "cell").table("a cell mapping")
    return CellMapping({left: value.text(f"the cell for {left!r}") for left, value in table.items()})


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
