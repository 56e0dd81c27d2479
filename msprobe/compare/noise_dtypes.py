"""Whether a learned spread was learned from numbers of the format that it is to judge.

Rounding of bfloat16 says nothing about float32. An operator that the reruns had in another dtype is judged as without
the profile, and that is told; where this is so for every floating-point value, the profile is for another run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msprobe.core.errors import NotComparableError
from msprobe.numerics.tolerance import unit_roundoff

OperatorRole = tuple[str, str, str]
"""Operator, phase and role."""


@dataclass(slots=True)
class NoiseDtypes:
    """``learned`` are the dtypes of the profile by kind of value. ``known`` counts the floating-point rows that it can
    judge, ``alone`` those whose operator it lacks, ``other`` those that it knows in another dtype, by their own."""

    learned: dict[OperatorRole, set[str]] = field(default_factory=dict)
    known: int = 0
    alone: int = 0
    other: dict[str, int] = field(default_factory=dict)

    def count(self, rows: Iterable[tuple[OperatorRole, str]]) -> NoiseDtypes:
        """Note the kind and dtype of each row that a table holds."""
        for kind, dtype in rows:
            if unit_roundoff(dtype) == 0.0:
                continue
            dtypes = self.learned.get(kind)
            if dtypes is None:
                self.alone += 1
            elif dtype in dtypes:
                self.known += 1
            else:
                self.other[dtype] = self.other.get(dtype, 0) + 1
        return self

    def check(self) -> None:
        """Raises:
        NotComparableError: the profile has these operators, and all of them in other dtypes.
        """
        if self.other and not self.known:
            raise NotComparableError(
                f"the noise file was learned from values of {self._learned()}, these are of {_listed(self.other)}; "
                "learn one from reruns of this dtype"
            )

    def notes(self) -> list[str]:
        """What was judged as without the profile although one was given."""
        notes = []
        if self.other:
            rows = sum(self.other.values())
            notes.append(
                f"{rows} values of {_listed(self.other)} were judged as without the noise file, "
                f"which has their operators only in {self._learned()}"
            )
        elif self.alone and not self.known:
            notes.append("the noise file has none of these operators: all values were judged as without it")
        return notes

    def _learned(self) -> str:
        return _listed({dtype for dtypes in self.learned.values() for dtype in dtypes if unit_roundoff(dtype)})


def _listed(dtypes: Iterable[str]) -> str:
    return ", ".join(sorted(dtypes)) or "no floating-point dtype"
