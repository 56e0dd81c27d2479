"""The entries of a dump as alignment sees them, and pairs of entries of two dumps.

``entry_keys`` reads names and parents once: stem, phase, call number, enclosing module, and whether activation
checkpointing repeats the call. ``in_execution_order`` turns pairs of positions into pairs of names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple, cast

from msprobe.core.naming import NameSyntaxError, split_entry
from msprobe.core.naming.names import MODULE_PREFIXES, is_module_name

_Parts = tuple[str, str, int | None]
_ORDINARY, _BACKWARD, _REPEATED = range(3)
_WITH_STATE = frozenset({"batchnorm", "instancenorm"})
_MODULES = tuple(f"{prefix}." for prefix in MODULE_PREFIXES)


OPTIMIZER = "optimizer"
"""The parent of the calls that a step of an optimizer makes."""
CLIPPING = "clip_grad"
"""The parent of the calls that clipping of gradients makes."""
OF_PARAMETERS = frozenset({OPTIMIZER, CLIPPING})
"""The parents of calls that belong to parameters: what they get depends on the order of parameters."""


class EntryKey(NamedTuple):
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


def has_state(key: EntryKey) -> bool:
    """Return whether a call keeps running statistics of what it gets: they leave the step, and no result shows them."""
    return key.stem.rpartition(".")[2].replace("_", "").lower() in _WITH_STATE


def is_module(key: EntryKey) -> bool:
    """Return whether an entry is a call of a module, and not of a function."""
    return is_module_name(key.name)


# Half the time of EntryKey(...).
_entry_key = cast(Callable[[tuple[Any, ...]], EntryKey], partial(tuple.__new__, EntryKey))


class Absence(Enum):
    """Why an entry of one side means nothing. Whoever knows the reason sets it: the alignment or an exemption."""

    RECORDED_OTHERWISE = auto()
    """The tool that recorded the other side records no such call (``RecordedByOthers``)."""
    RECOMPUTED = auto()
    """A forward call that activation checkpointing repeats (``in_execution_order``)."""
    RECOMPUTED_UNMATCHED = auto()
    """A repeated forward call, for which no call with values is recorded that it repeats (``Recompute``)."""
    RUN_ENDED = auto()
    """The other run died, or still runs, and has no call behind this one (``Unrecorded``)."""
    OTHER_PROGRAM = auto()
    """The sides are different programs, and this entry is code of one of them (``OtherProgram``)."""
    FUSED = auto()
    """The entry lies in a layer that the other program has fused with others, or divided (``OtherProgram``)."""
    OTHER_CODE = auto()
    """Both sides are one program, and compute the same here by other calls: the values around agree (``regions``)."""
    NOT_SHOWN = auto()
    """Only one side makes this call, and nothing that both sides record later shows its values (``regions``)."""
    ACCEPTED = auto()
    """The user has accepted that only one side has the entry (``accepted``)."""
    NOT_RECORDED_AT_LEVEL = auto()
    """The level at which the other side was recorded leaves the call out (``Unrecorded``)."""


class EntryPair(NamedTuple):
    """Two entries of the same call, or one entry alone (the other name is None).

    ``absence`` is the reason why an entry alone means nothing; None where it is a difference.
    """

    target: str | None
    golden: str | None
    absence: Absence | None = None

    @property
    def of_both(self) -> bool:
        """Return whether both sides have the entry."""
        return self.target is not None and self.golden is not None

    @property
    def benign(self) -> bool:
        """Return whether it means nothing that only one side has the entry."""
        return self.absence is not None

    @property
    def name(self) -> str:
        """Return the name of the entry: of the target where the target has it."""
        return self.target or self.golden or ""

    @property
    def sided(self) -> str:
        """Return the name of the entry and which side has it, for people."""
        return sided_name(self.target, self.golden)


def sided_name(target: str | None, golden: str | None) -> str:
    """Return the names of one call on both sides as one text that says which side has which name."""
    if target is None or golden is None:
        side = "golden run" if target is None else "target"
        return f"{target or golden or 'a call'} of the {side} alone"
    return target if target == golden else f"{target} of the target, {golden} of the golden run"


def entry_keys(
    data: Mapping[str, Any],
    construct: Mapping[str, Any],
    parsed: dict[str, _Parts] | None = None,
    below: dict[str, int] | None = None,
) -> list[EntryKey]:
    """Return the keys of all entries in file order. A name that follows no grammar is its own stem.

    Dumps of other tools do not mark what activation checkpointing repeats. There, a module that is called below a
    backward call is a repeated one.

    Args:
        data: the records by name.
        construct: the parents by name.
        parsed: a cache of parsed names; give the same dict for both sides, which share most names.
        below: is filled with what each parent says about the calls inside it (see ``repeats``).
    """
    cache: dict[str, _Parts] = {} if parsed is None else parsed
    parents: dict[str | None, str] = {None: ""}
    below = {} if below is None else below
    keys = []
    for name, body in data.items():
        parts = cache.get(name)
        if parts is None:
            parts = cache[name] = _parts(name)
        parent = parent_of(construct, name) if construct else None
        above = parents.get(parent)
        if above is None:
            above = parents[parent] = stem_of(parent or "")
        recompute = type(body) is dict and body.get("is_recompute") is True
        if parent is not None:
            context = below.get(parent)
            if context is None:
                context = _context(construct, parent, below)
            if context and parts[1] == "forward":
                recompute = recompute or context == _REPEATED or name.startswith(_MODULES)
        keys.append(_entry_key((name, *parts, above, recompute)))
    if repeats(below):
        _mark_left_early(keys, construct)
    return keys


def repeats(below: Mapping[str, int]) -> bool:
    """Return whether calls inside some parent are repeated."""
    return _REPEATED in below.values()


def _mark_left_early(keys: list[EntryKey], construct: Mapping[str, Any]) -> None:
    """Mark repeated calls that ended as soon as backward had what it needs.

    Such a call is not in construct.json, and the entry of the module around it follows.
    """
    for number in range(len(keys) - 2, -1, -1):
        key = keys[number]
        if keys[number + 1].recompute and key.phase == "forward" and key.name not in construct:
            keys[number] = key._replace(recompute=True)


def _context(construct: Mapping[str, Any], parent: str, below: dict[str, int]) -> int:
    """Return what a parent says about the calls inside it; ``below`` caches this for it and all parents around it."""
    chain: list[str] = []
    name: str | None = parent
    while name is not None and name not in below:
        below[name] = _ORDINARY  # also ends a cycle
        chain.append(name)
        name = parent_of(construct, name)
    around = _ORDINARY if name is None else below[name]
    for call in reversed(chain):
        phase = _parts(call)[1]
        if phase == "backward":
            around = _BACKWARD
        elif phase != "forward" or not (around == _REPEATED or (around == _BACKWARD and call.startswith(_MODULES))):
            around = _ORDINARY
        else:
            around = _REPEATED
        below[call] = around
    return below[parent]


def _parts(name: str) -> _Parts:
    """Return stem, phase and call number."""
    try:
        return split_entry(name)
    except NameSyntaxError:
        return name, "", None


def parent_of(construct: Mapping[str, Any], name: str) -> str | None:
    """Return the parent recorded in construct.json, which may have the form ``[parent, micro step]``."""
    parent = construct.get(name)
    if isinstance(parent, list):
        parent = parent[0] if parent else None
    return parent if isinstance(parent, str) else None


def parents_of(construct: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yield the calls around a call, from inside to outside. A circle, which a damaged file may have, ends it."""
    visited = {name}
    parent = parent_of(construct, name)
    while parent is not None and parent not in visited:
        visited.add(parent)
        yield parent
        parent = parent_of(construct, parent)


def phase_of(name: str) -> str:
    """Return the phase of an entry, as forward or backward; empty for a text that is no entry name."""
    try:
        return split_entry(name)[1]
    except NameSyntaxError:
        return ""


def stem_of(name: str) -> str:
    """Return the name without call number and phase; a text that is no entry name stays as it is."""
    try:
        return split_entry(name)[0]
    except NameSyntaxError:
        return name


def function_of(stem: str) -> str:
    """Return the name of the function or of the class of a module alone, in small letters: ``sub`` for
    ``Tensor.__sub__``."""
    return stem.rpartition(".")[2].strip("_").lower()


def path_of(stem: str) -> str:
    """Return the path of a module, without its prefix and class; "" for the model itself."""
    return stem.partition(".")[2].rpartition(".")[0]


def in_execution_order(
    pairs: Sequence[tuple[int, int]], target: Sequence[EntryKey], golden: Sequence[EntryKey]
) -> Iterator[EntryPair]:
    """Yield pairs of positions as pairs of names in target order; a golden-only entry follows its golden predecessor.

    Entries without a partner are yielded alone.
    """
    partner = {j: i for i, j in reversed(pairs)}
    by_target = dict(pairs)
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
            if match is not None:
                yield EntryPair(target[i].name, golden[match].name)
            else:
                yield EntryPair(target[i].name, None, Absence.RECOMPUTED if target[i].recompute else None)
        for j in waiting.get(i, ()):
            yield EntryPair(None, golden[j].name, Absence.RECOMPUTED if golden[j].recompute else None)
