"""The dump of a model that several ranks hold, merged value by value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msprobe.core.store.reader import Dump


@dataclass(frozen=True, slots=True)
class Suspect:
    """A call of a function outside of modules: where it is made, and why it is named."""

    stack: Sequence[str]
    reason: str


def _nothing(name: str) -> Suspect | None:
    """Return that no call is known."""
    return None


@dataclass(frozen=True, slots=True)
class MergedDump(Dump):
    """A dump with the calls of modules of all ranks, each value whole.

    Attributes:
        suspect: returns for a module call whose input is wrong the call outside of the modules that makes it so.
    """

    suspect: Callable[[str], Suspect | None] = _nothing
