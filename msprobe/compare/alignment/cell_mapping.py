"""Cell mapping (``-cm``): module paths and class names of the target become those of the golden run.

    fc1.Linear: proj.Dense                  # path and class of a module, whole
    RowParallelLinear: TERowParallelLinear  # or any part of it

A module whose whole ``path.Class`` is a key gets that value. Otherwise each line whose left text occurs replaces it
once, in the order of the file; a later line leaves alone what an earlier one has written. ``Cell`` at the front becomes
``Module``.

``Renamed`` applies this and other translations of names before matching, so that the same call has the same name on
both sides. Only matching sees the translated names; entries and tables keep the recorded ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msprobe.compare.alignment.mapping_file import read_mapping
from msprobe.compare.alignment.protocol import Alignment, ItemRule, Side, Strategy
from msprobe.compare.records.entries import EntryKey
from msprobe.core.naming.names import MODULE_PREFIXES

Translator = Callable[[str], str]
"""Returns the name by which an entry is matched: names without call number and phase (``Functional.dense``,
``Cell.net.fc.Dense``)."""


@dataclass(frozen=True, slots=True)
class CellMapping:
    """Translates the names of modules (see the module docstring); ``rules`` are the lines of the file."""

    rules: dict[str, str] = field(default_factory=dict)

    def __call__(self, stem: str) -> str:
        """Return the translated name of a module; the name of a function stays as it is."""
        prefix, dot, rest = stem.partition(".")
        if not dot or prefix not in MODULE_PREFIXES:
            return stem
        return f"{MODULE_PREFIXES[0]}.{self.rules.get(rest) or self._replaced(rest)}"

    def _replaced(self, text: str) -> str:
        pieces = [(text, False)]  # a text, and whether a line has written it
        for left, right in self.rules.items():
            for index, (piece, written) in enumerate(pieces):
                start = -1 if written else piece.find(left)
                if start >= 0:
                    rest = piece[start + len(left) :]
                    pieces[index : index + 1] = [(piece[:start], False), (right, True), (rest, False)]
                    break
        return "".join(piece for piece, _ in pieces)


def cell_mapping(given: Any) -> CellMapping:
    """Return the mapping of a file or a dict; True means the change of the prefix alone.

    Raises:
        ReadError: the mapping cannot be read; names the line.
    """
    if given is True:
        return CellMapping()
    table = read_mapping(given, "cell").table("a cell mapping")
    return CellMapping({left: value.text(f"the cell for {left!r}") for left, value in table.items()})


@dataclass(frozen=True, slots=True)
class Renamed:
    """Matches entries by translated names.

    Args:
        strategy: the strategy that pairs the entries under their new names.
        target: the translators of the names of the target, applied in turn.
        golden: those of the golden run.
        rule: how items of paired entries pair.
    """

    strategy: Strategy
    target: tuple[Translator, ...] = ()
    golden: tuple[Translator, ...] = ()
    rule: ItemRule | None = None

    def align(self, target: Side, golden: Side) -> Alignment:
        """Return the pairs of entries."""
        left = Side(target.dump, translated(target.keys, self.target))
        right = Side(golden.dump, translated(golden.keys, self.golden))
        return replace(self.strategy.align(left, right), rule=self.rule)


def translated(keys: Sequence[EntryKey], translators: Sequence[Translator]) -> list[EntryKey]:
    """Return the keys under their new names; calls of several names that become one are renumbered in their order."""
    new_names: dict[str, str] = {"": ""}
    for stem in {key.stem for key in keys} | {key.parent for key in keys}:
        name = stem
        for translator in translators:
            name = translator(name)
        new_names[stem] = name
    renamed = [key._replace(stem=new_names[key.stem], parent=new_names[key.parent]) for key in keys]
    merged = _merged_names({key.stem for key in keys}, new_names)
    return renumbered(keys, renamed, merged) if merged else renamed


def _merged_names(stems: set[str], new_names: dict[str, str]) -> set[str]:
    """Return the new names that several of these names become."""
    counts = Counter(new_names[stem] for stem in stems)
    return {name for name, count in counts.items() if count > 1}


def renumbered(keys: Sequence[EntryKey], renamed: list[EntryKey], merged: set[str]) -> list[EntryKey]:
    """Return renamed keys in which the calls of merged names are counted together.

    A call keeps one number in all its phases: that of its first record.

    Args:
        keys: the keys under their old names.
        renamed: the same keys under their new names.
        merged: the new names that several old names became.
    """
    numbers: dict[tuple[str, int | None], int] = {}
    counts: dict[str, int] = {}
    result: list[EntryKey] = []
    for key, new in zip(keys, renamed, strict=True):
        if new.stem not in merged:
            result.append(new)
            continue
        call = key.stem, key.call
        if call not in numbers:
            numbers[call] = counts.get(new.stem, 0)
            counts[new.stem] = numbers[call] + 1
        result.append(new._replace(call=numbers[call]))
    return result
