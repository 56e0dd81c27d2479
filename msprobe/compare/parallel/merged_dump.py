"""The dump of a model that several ranks hold, merged value by value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from msprobe.core.store.reader import Dump

ENTERS_FROM_OUTSIDE = "its input differs, and was made outside of the modules; functions are left out of merged ranks"


@dataclass(frozen=True, slots=True)
class Suspect:
    """A call of a function outside of modules: where it is made, and why it is named; ``entry`` is that of the wrong
    value, where another one says more than the first one."""

    stack: Sequence[str]
    reason: str
    entry: str | None = None


@dataclass(frozen=True, slots=True)
class WrongRanks:
    """The ranks to blame for a wrong value, and why these."""

    numbers: tuple[int, ...] = ()
    words: str = ""


def _nothing(name: str) -> Suspect | None:
    """Return that no call is known."""
    return None


def _no_ranks(name: str, slot: str | None) -> WrongRanks:
    """Return that no rank is known."""
    return WrongRanks()


@dataclass(frozen=True, slots=True)
class MergedDump(Dump):
    """A dump with the calls of modules of all ranks, each value whole.

    Attributes:
        suspect: returns for a module call whose input is wrong the call outside of the modules that makes it so.
        rounded: the calls of modules that round what they multiply to a few bits, on both sides alike.
        update: returns for a gradient that the optimizer gets what makes it wrong after the backward pass; None for
            other entries.
        summands: the forward calls whose results the ranks hold as summands, in the order of execution, each with the
            first call that returned the same ones.
        blame: returns for an entry and a slot the ranks of the target that make its value wrong.
        reduced: the gradients that the optimizer gets.
    """

    merged: ClassVar[bool] = True
    suspect: Callable[[str], Suspect | None] = _nothing
    update: Callable[[str], Suspect | None] = _nothing
    rounded: frozenset[str] = frozenset()
    summands: Mapping[str, str] = field(default_factory=dict)
    blame: Callable[[str, str | None], WrongRanks] = _no_ranks
    reduced: frozenset[str] = frozenset()


def rounded_calls(dump: Dump) -> frozenset[str]:
    """Return the calls of modules that round on both sides alike what they multiply; none in other dumps."""
    return dump.rounded if isinstance(dump, MergedDump) else frozenset()


def summands_of(dump: Dump) -> Mapping[str, str]:
    """Return the calls whose results the ranks hold as summands, as ``MergedDump.summands``; none in other dumps."""
    return dump.summands if isinstance(dump, MergedDump) else {}


def optimizer_gradients_of(dump: Dump) -> frozenset[str]:
    """Return the entries of the gradients that optimizers get; none in other dumps."""
    return dump.reduced if isinstance(dump, MergedDump) else frozenset()


def suspect_of(dump: Dump, name: str | None) -> Suspect | None:
    """Return the call outside of modules that makes the wrong input of a module call of merged ranks; None without one,
    and for other dumps."""
    found = dump.suspect(name) if isinstance(dump, MergedDump) and name is not None else None
    return found if found is not None and found.stack else None


def update_of(dump: Dump, name: str | None) -> Suspect | None:
    """Return what makes a gradient wrong that the optimizer of merged ranks gets; None for any other entry."""
    return dump.update(name) if isinstance(dump, MergedDump) and name is not None else None


def wrong_ranks(dump: Dump, name: str | None, slot: str | None) -> WrongRanks:
    """Return the ranks of a merged target that make a value wrong; none for other dumps."""
    return dump.blame(name, slot) if isinstance(dump, MergedDump) and name is not None else WrongRanks()
