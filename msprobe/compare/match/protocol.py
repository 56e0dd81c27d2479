"""What a matching strategy is: two lists of entries in, pairs of positions out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msprobe.compare.pairs import EntryKey

Positions = list[tuple[int | None, int | None]]


class Match(Protocol):
    """Pairs every entry of both sides at most once; entries left out of the result count as unmatched."""

    def pairs(self, target: Sequence[EntryKey], golden: Sequence[EntryKey]) -> Positions: ...
