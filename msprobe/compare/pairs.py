"""Which entry of one dump stands for which entry of the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msprobe.core.naming import ApiName, ModuleName, NameSyntaxError, Phase, parse_entry

Parsed = ApiName | ModuleName | None


@dataclass(frozen=True, slots=True)
class EntryKey:
    """One entry as matching sees it.

    ``stem`` is the name without call number and phase, ``parent`` the path of the enclosing module without its call
    number ("" when unknown), ``recompute`` marks a forward call repeated by activation checkpointing.
    """

    name: str
    stem: str
    phase: str
    call: int | None
    parent: str
    recompute: bool


@dataclass(frozen=True, slots=True)
class EntryPair:
    """Two entries of the same call, or one entry alone (the other name is None).

    ``benign`` marks a lone recomputed forward call: nothing is missing on the other side.
    """

    target: str | None
    golden: str | None
    benign: bool = False


def entry_keys(data: Mapping[str, Any], construct: Mapping[str, Any]) -> list[EntryKey]:
    """Keys of all entries in file order. Names that follow no grammar are their own stem."""
    parents: dict[str, str] = {}
    return [_key(name, body, parent_of(construct, name), parents) for name, body in data.items()]


def _key(name: str, body: Any, parent: str | None, cache: dict[str, str]) -> EntryKey:
    if parent is not None and parent not in cache:
        cache[parent] = stem_of(parent)
    recompute = type(body) is dict and body.get("is_recompute") is True
    try:
        parsed = parse_entry(name)
    except NameSyntaxError:
        return EntryKey(name, name, "", None, "", recompute)
    phase = getattr(parsed, "phase", None)
    text = phase.value if isinstance(phase, Phase) else ""
    return EntryKey(name, parsed.stem, text, parsed.call, cache[parent] if parent else "", recompute)


def parent_of(construct: Mapping[str, Any], name: str) -> str | None:
    """The parent recorded in construct.json; tolerates the form ``[parent, micro step]``."""
    parent = construct.get(name)
    if isinstance(parent, list):
        parent = parent[0] if parent else None
    return parent if isinstance(parent, str) else None


def stem_of(name: str) -> str:
    """The name without call number and phase; a text that is no entry name stays as it is."""
    try:
        return parse_entry(name).stem
    except NameSyntaxError:
        return name


def in_execution_order(
    pairs: Sequence[tuple[int | None, int | None]], target: Sequence[EntryKey], golden: Sequence[EntryKey]
) -> Iterator[EntryPair]:
    """Pairs of positions as pairs of names in target order; a golden-only entry follows its golden predecessor."""
    partner = {j: i for i, j in pairs if i is not None and j is not None}
    by_target = {i: j for i, j in pairs if i is not None}
    waiting: dict[int, list[int]] = {}
    last = -1
    for j in range(len(golden)):
        if j in partner:
            last = max(last, partner[j])
        else:
            waiting.setdefault(last, []).append(j)
    for i in range(-1, len(target)):
        if i >= 0:
            match = by_target.get(i)
            alone = match is None and target[i].recompute
            yield EntryPair(target[i].name, None if match is None else golden[match].name, alone)
        for j in waiting.get(i, ()):
            yield EntryPair(None, golden[j].name, golden[j].recompute)
