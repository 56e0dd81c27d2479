"""Sets of whole numbers that are written as numbers and ranges: ``[0, "3", "5-8"]``. They select ranks and steps.

A range is kept as its two ends, so ``"0-1000000"`` takes as much memory as ``"0-1"``.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LOWEST = 0
HIGHEST = 1_000_000
_NUMBER = re.compile(r"\s*([0-9]+)\s*\Z")
_RANGE = re.compile(r"\s*([0-9]+)\s*-\s*([0-9]+)\s*\Z")

Bounds = tuple[int, int]


@dataclass(frozen=True, slots=True)
class IntRanges:
    """An immutable set of integers from 0 to 1000000. Where it is a filter, the empty set selects everything.

    ``bounds`` holds the inclusive ends of its ranges; they are sorted and merged, so equal sets are equal values.
    """

    bounds: tuple[Bounds, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", _merged(self.bounds))

    @classmethod
    def of(cls, *items: int | str) -> "IntRanges":
        """Return the set of ``items``, as in ``IntRanges.of(0, "4-6")``. Raises ValueError as ``parse_item`` does."""
        return cls(tuple(parse_item(item) for item in items))

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        index = bisect_right(self.bounds, (number, HIGHEST)) - 1
        return index >= 0 and self.bounds[index][0] <= number <= self.bounds[index][1]

    def __iter__(self) -> Iterator[int]:
        for low, high in self.bounds:
            yield from range(low, high + 1)

    def __len__(self) -> int:
        return sum(high - low + 1 for low, high in self.bounds)

    def __bool__(self) -> bool:
        return bool(self.bounds)

    @property
    def last(self) -> int:
        """The largest member. Raises ValueError when the set is empty."""
        if not self.bounds:
            raise ValueError("an empty set of ranges has no last member; test it with bool() first")
        return self.bounds[-1][1]

    def to_list(self) -> list[int | str]:
        """Return the shortest list that is read as this set again."""
        return [low if low == high else f"{low}-{high}" for low, high in self.bounds]

    def __str__(self) -> str:
        return ", ".join(str(item) for item in self.to_list()) or "all"


def parse_item(item: object) -> Bounds:
    """Return one element of the list, an int, ``"3"`` or ``"4-6"``, as inclusive ends.

    Raises:
        ValueError: the element is something else; the message says what is allowed.
    """
    if isinstance(item, bool) or not isinstance(item, int | str):
        raise ValueError('must be a whole number, "3" or a range like "3-5"')
    low, high = (item, item) if isinstance(item, int) else _ends(item)
    if not (LOWEST <= low <= HIGHEST and LOWEST <= high <= HIGHEST):
        raise ValueError(f"must lie between {LOWEST} and {HIGHEST}")
    if low > high:
        raise ValueError(f'the left end is greater than the right one; write "{high}-{low}"')
    return low, high


def _ends(text: str) -> Bounds:
    if number := _NUMBER.match(text):
        return _whole(number[1]), _whole(number[1])
    if ends := _RANGE.match(text):
        return _whole(ends[1]), _whole(ends[2])
    raise ValueError('text must have the form "3" or "3-5"')


def _whole(digits: str) -> int:
    # Python refuses to convert thousands of digits; so long a number is out of range anyway.
    return int(digits) if len(digits.lstrip("0")) <= len(str(HIGHEST)) else HIGHEST + 1


def _merged(bounds: Iterable[Bounds]) -> tuple[Bounds, ...]:
    merged: list[Bounds] = []
    for low, high in sorted(bounds):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)
