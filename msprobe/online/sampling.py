"""Which operators are checked while a program runs, so that the check can stay on for days."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass

NO_VALUES = frozenset({
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted", "resize_",
})  # fmt: skip
"""Operators whose results nobody has written."""


GRACE = 0.5
"""Seconds that checks may take beyond their share, so that the first calls of a program are among them."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a user has chosen.

    Attributes:
        first: how many calls of an operator with the same dtypes and shapes are checked.
        share: the share of the time of the program that checks may take.
        operators: names of operators (``mm``, or ``add.Tensor``) that are checked; empty for all.
    """

    first: int = 3
    share: float = 0.05
    operators: Collection[str] = ()


class Sampler:
    """Decides call by call."""

    def __init__(self, sampling: Sampling, clock: Callable[[], float] = time.perf_counter) -> None:
        self._sampling, self._clock = sampling, clock
        self._counts: Counter[tuple[str, Hashable]] = Counter()
        self._begin, self._since, self._spent = clock(), 0.0, 0.0
        self.skipped = 0

    def wants(self, name: str, signature: Hashable) -> bool:
        """Return whether a call is checked: it is one of the first of its kind, and there is time for it."""
        base = name.partition(".")[0]
        chosen = self._sampling.operators
        if base in NO_VALUES or (chosen and base not in chosen and name not in chosen):
            return False
        key = name, signature
        if self._counts[key] >= self._sampling.first:
            return False
        if self._spent > self._sampling.share * (self._clock() - self._begin) + GRACE:
            self.skipped += 1  # a later call of its kind is checked in its place
            return False
        self._counts[key] += 1
        self._since = self._clock()
        return True

    def end_check(self) -> None:
        """Count the time since a check was wanted: that of the copies, of the call itself, and of its judgement."""
        self._spent += self._clock() - self._since
