"""The dump of a model that several ranks hold, merged value by value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msprobe.core.store.reader import Dump

ENTERS_FROM_OUTSIDE = "its input differs, and was made outside of the modules; functions are left out of merged ranks"


@dataclass(frozen=True, slots=True)
class Suspect:
    """A call of a function outside of modules: where it is made, and why it is named; ``entry`` is that of the wrong
    value, where another one says more than the first one."""

    stack: Sequence[str]
    reason: str
    entry: str | None = None


def _nothing(name: str) -> Suspect | None:
    """Return that no call is known."""
    return None


@dataclass(frozen=True, slots=True)
class MergedDump(Dump):
    """A dump with the calls of modules of all ranks, each value whole.

    Attributes:
        suspect: returns for a module call whose input is wrong the call outside of the modules that makes it so.
        rounded: the calls of modules that round what they multiply to a few bits, on both sides alike.
        update: returns for a gradient that the optimizer gets what makes it wrong after the backward pass; None for
            other entries.
        reduced: the gradients that the optimizer gets.
    """

    suspect: Callable[[str], Suspect | None] = _nothing
    update: Callable[[str], Suspect | None] = _nothing
    rounded: frozenset[str] = frozenset()
    reduced: frozenset[str] = frozenset()


def suspect_of(dump: Dump, name: str | None) -> Suspect | None:
    """Return the call outside of modules that makes the wrong input of a module call of merged ranks; None without one,
    and for other dumps."""
    found = dump.suspect(name) if isinstance(dump, MergedDump) and name is not None else None
    return found if found is not None and found.stack else None


def update_of(dump: Dump, name: str | None) -> Suspect | None:
    """Return what makes a gradient wrong that the optimizer of merged ranks gets; None for any other entry."""
    return dump.update(name) if isinstance(dump, MergedDump) and name is not None else None
