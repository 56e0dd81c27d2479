"""Twins: the values of the other run that are as near as their computation allows, wherever they stand."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from msprobe.compare.parallel.by_name.joined_record import joined_record
from msprobe.compare.verdict.row_twins import RowTwins
from msprobe.core.tensors.projection import KEY
from msprobe.core.tensors.statistics import LARGEST, NORM, SMALLEST
from msprobe.numerics.tolerance import rounded_to, unit_roundoff, with_digits
from msprobe.trace.leaves import as_float, element_count
from msprobe.trace.likeness import UNMOVED, distance, is_part, is_telling, recorded_count, same_checksums

EQUAL = 2e-5
"""How far a value that leaves a step may be apart in float32, relative to its scale."""
_ROUNDINGS = 4.0
"""The same in units of round-off of a coarser dtype."""
_OF_ONE_ELEMENT = 8.0
"""How much farther than their norm the extremes and the projection of sums of rounded numbers may be apart."""
_EXTREMES = LARGEST.name, SMALLEST.name
_ROUNDED = "Mean", NORM.name
"""The statistics that are recorded in the dtype of their tensor."""
Raw = Mapping[str, Any]
Mark = tuple[Any, ...]
_BySize = dict[float, list[tuple[Mark, Raw]]]
_Value = TypeVar("_Value")


class Twins:
    """The values of two runs, found by what they are.

    Args:
        sides: the recorded tensors of target and golden run.
        coarsest: the unit round-off of the coarsest dtype that a value has passed.
        folders: where the files of their tensors lie.
    """

    def __init__(
        self, sides: tuple[Iterable[Raw], Iterable[Raw]], coarsest: float, folders: Sequence[Path] = ()
    ) -> None:
        self._sides, self.coarsest, self._folders = sides, coarsest, folders

    def turned(self) -> Twins:
        """Return the same with the sides exchanged."""
        other = Twins(self._sides, self.coarsest, self._folders[::-1])
        other._values, other.most_allowed = self._values[::-1], self.most_allowed
        return other

    def allowed(self, *raws: Raw) -> float:
        """Return how far twins with these records may be apart, relative to their scale."""
        roundoff = max(self.coarsest, *(unit_roundoff(str(raw.get("dtype"))) for raw in raws))
        return max(EQUAL, _ROUNDINGS * roundoff)

    def apart(self, side: int, raw: Raw, without: Raw | None = None) -> float:
        """Return how far the nearest value of the other side is, infinite where none is near enough to be a twin: no
        farther than is allowed, and in the same order where both have one shape. ``without`` is no twin."""
        nearest, unwanted = math.inf, None if without is None else mark_of(without)
        for mark, other in self._near(1 - side, raw):
            if without is None or mark != unwanted or _has_other_order(other, without):
                nearest = min(nearest, self.distance(raw, other))
        return nearest

    def are_in_another_order(self, side: int, raw: Raw) -> bool:
        """Return whether the other side has these elements, in this order or another one."""
        return any(self.hold_the_same(raw, other) for _, other in self._near(1 - side, raw))

    def has_whole_or_part(self, side: int, raw: Raw, among: Sequence[Raw] = ()) -> bool:
        """Return whether the other side has a larger value, or a smaller one, with an extreme of this one that hardly
        occurs twice by chance, and nothing that speaks against it: one of them may be a part of the other. It is looked
        for ``among`` some values, or all."""
        near = (other for spec in _EXTREMES for other in self._with_extreme(1 - side, spec, raw))
        near = (other for other in near if not among or any(other is one for one in among))
        return any(self._is_part_of(*pair) for other in near for pair in ((raw, other), (other, raw)))

    def _is_part_of(self, raw: Raw, whole: Raw) -> bool:
        allowed = self.allowed(raw, whole)
        return is_part(raw, whole, allowed) and norm_of(raw) <= norm_of(whole) * (1.0 + allowed)

    def _with_extreme(self, side: int, name: str, raw: Raw) -> list[Raw]:
        """Return the values of a side with one extreme of a value, where it tells something."""
        extreme = as_float(raw.get(name))
        if not is_telling(extreme):
            return []
        values, reach = self._by_extreme[side][name], self.allowed(raw) * abs(extreme)
        first = bisect_left(values, extreme - reach, key=lambda one: as_float(one[name]))
        return values[first : bisect_right(values, extreme + reach, key=lambda one: as_float(one[name]))]

    @cached_property
    def _by_extreme(self) -> tuple[dict[str, list[Raw]], ...]:
        """By side and extreme the values in its order."""
        sides = [[raw for own in values.values() for _, raw in own] for values in self._values]
        return tuple({name: _in_order_of(name, raws) for name in _EXTREMES} for raws in sides)

    def has_one_of_shape(self, side: int, raw: Raw) -> bool:
        """Return whether the other side has a twin of one shape."""
        near = (other for _, other in self._near(1 - side, raw) if other.get("shape") == raw.get("shape"))
        return any(math.isfinite(self.distance(raw, other)) for other in near)

    def hold_the_same(self, raw: Raw, other: Raw) -> bool:
        """Return whether two values have the same elements, in any order."""
        return distance(raw, other, UNMOVED) <= self.allowed(raw, other)

    def are_shifted(self, raw: Raw, other: Raw) -> bool:
        """Return whether the elements of a value are those of another one with one number more, the same for all."""
        means, norms = ([as_float(one.get(name)) for one in (raw, other)] for name in ("Mean", NORM.name))
        size, shift = element_count(other), means[0] - means[1]
        shifted = {spec: as_float(other.get(spec)) + shift for spec in _EXTREMES}
        shifted[NORM.name] = math.sqrt(max(norms[1] ** 2 + size * shift * (2.0 * means[1] + shift), 0.0))
        return element_count(raw) == size and distance(raw, shifted, UNMOVED) <= self.allowed(raw, other)

    def distance(
        self, raw: Raw, other: Raw, factor: float = 1.0, *, in_order: bool = True, summed: bool = False
    ) -> float:
        """Return how far two values are apart, infinite where that is more than ``factor`` times what is allowed; those
        of one shape have their elements ``in_order``. Where elements are sums of what a coarse dtype has rounded
        (``summed``), a norm averages their rounding; extremes have that of one, and a projection adds it up."""
        by_checksum = same_checksums(raw, other)
        if by_checksum is not None:
            return 0.0 if by_checksum else math.inf
        if recorded_count(raw) != recorded_count(other):
            return math.inf
        allowed = self.allowed(raw, other)
        apart = _apart(raw, other, in_order, _OF_ONE_ELEMENT if summed and allowed > EQUAL else 1.0)
        return apart if apart <= factor * allowed else math.inf

    def joined_distance(self, *sides: Sequence[Raw]) -> float:
        """Return how far the values of a side, taken together, are apart from those of the other one."""
        if not all(sides):
            return math.inf
        if [len(side) for side in sides] == [1, 1]:
            return self.distance(sides[0][0], sides[1][0])
        sizes = [[int(element_count(raw)) for raw in side] for side in sides]
        if sum(sizes[0]) != sum(sizes[1]):
            return math.inf
        left, right = (_joined(side, size) for side, size in zip(sides, sizes, strict=True))
        return self.distance(left, right)

    def unions_distance(self, *sides: Sequence[Raw]) -> float:
        """Return how far the values of both sides are apart, all together: fused and split tensors hold the same
        elements, so they have one norm and the same extremes. Zeros may be left out on one side."""
        if not all(sides):
            return math.inf
        left, right = (
            {
                LARGEST.name: max(as_float(raw.get(LARGEST.name)) for raw in side),
                SMALLEST.name: min(as_float(raw.get(SMALLEST.name)) for raw in side),
                NORM.name: norm_of_all(side),
            }
            for side in sides
        )
        if not all(map(math.isfinite, (*left.values(), *right.values()))):
            return math.inf
        apart = distance(left, right, UNMOVED)
        return apart if apart <= self.allowed(*sides[0], *sides[1]) else math.inf

    @cached_property
    def rows(self) -> RowTwins:
        """The rows of all values."""
        sides = [[raw for own in values.values() for _, raw in own] for values in self._values]
        return RowTwins(sides, self._folders, self.allowed)

    def _near(self, side: int, raw: Raw) -> list[tuple[Mark, Raw]]:
        """Return the values of a side with as many elements, and a norm that a twin may have."""
        values = self._values[side].get(recorded_count(raw), [])
        return with_near_norm(values, raw, _norm_of_entry, self.most_allowed)

    @cached_property
    def _values(self) -> tuple[_BySize, _BySize]:
        """By side all recorded tensors with their marks, by number of elements, in the order of their norms."""
        sides: tuple[_BySize, _BySize] = ({}, {})
        for values, raws in zip(sides, self._sides, strict=True):
            seen = set()
            for raw in raws:
                mark = mark_of(raw)
                value = mark, str(raw.get(KEY))  # a damaged dump may hold anything
                if value not in seen:
                    seen.add(value)
                    values.setdefault(recorded_count(raw), []).append((mark, raw))
            for own in values.values():
                own.sort(key=_norm_of_entry)
        return sides

    @cached_property
    def most_allowed(self) -> float:
        """How far two values of any dtype of both sides may be apart."""
        dtypes = {str(raw.get("dtype")) for values in self._values for own in values.values() for _, raw in own}
        return max(EQUAL, _ROUNDINGS * max((self.coarsest, *map(unit_roundoff, dtypes))))


def mark_of(raw: Raw) -> Mark:
    """Return what is equal of a value and its uses."""
    return recorded_count(raw), *(str(raw.get(name)) for name in (*UNMOVED, "md5"))


def norm_of(raw: Raw) -> float:
    """Return the recorded L2 norm of a value; NaN where there is none."""
    return as_float(raw.get(NORM.name))


def with_near_norm(values: list[_Value], raw: Raw, norm: Callable[[_Value], float], apart: float) -> list[_Value]:
    """Return which of these values, in the order of their norms, have one that is no farther than ``apart`` from that
    of a tensor; all where it has none."""
    own = norm_of(raw)
    if raw.get("md5") is not None or not math.isfinite(own):
        return values
    reach = 1.0 - min(apart, 0.99)
    first = bisect_left(values, own * reach, key=norm)
    return values[first : bisect_right(values, own / reach, key=norm)]


def order_of(raw: Raw) -> float:
    """Return the norm of a value by which values are in order, infinity where none is recorded."""
    norm = norm_of(raw)
    return math.inf if math.isnan(norm) else norm


def norm_of_all(raws: Sequence[Raw]) -> float:
    """Return the L2 norm of all elements of several tensors."""
    return math.sqrt(sum(norm_of(raw) ** 2 for raw in raws))


def _in_order_of(name: str, raws: Sequence[Raw]) -> list[Raw]:
    """Return the values with a finite statistic in the order of it."""
    return sorted((raw for raw in raws if math.isfinite(as_float(raw.get(name)))), key=lambda raw: as_float(raw[name]))


def _joined(pieces: Sequence[Raw], sizes: Sequence[int]) -> Raw:
    """Return the record of what pieces make together, with as many digits as theirs where a dtype rounds these."""
    whole = joined_record(list(map(dict, pieces)), sizes, [sum(sizes)])
    norms = np.array([norm_of(raw) for raw in pieces])
    roundoff = unit_roundoff(str(whole.get("dtype")))
    if not rounded_to(norms, np.full(len(norms), roundoff)).all():
        return whole
    rounded = {name: with_digits(as_float(whole[name]), roundoff) for name in _ROUNDED if whole.get(name) is not None}
    return whole | rounded


def _apart(raw: Raw, other: Raw, in_order: bool, rounded: float) -> float:
    """Return how far two tensors are apart in what no view changes, and of one shape also in their order; all but their
    norms may be farther apart by a factor."""
    if not math.isfinite(norm_of(raw)):
        return math.inf  # any two masks of infinity are alike
    apart = max(distance(raw, other, (NORM.name,)), distance(raw, other, _EXTREMES) / rounded)
    if not in_order or raw.get("shape") != other.get("shape"):
        return apart
    left, right = as_float(raw.get(KEY)), as_float(other.get(KEY))
    by_order = abs(left - right) / max(norm_of(raw), norm_of(other), 1e-300)
    return max(apart, by_order / rounded) if math.isfinite(by_order) else apart


def _has_other_order(raw: Raw, other: Raw) -> bool:
    """Return whether two tensors of the same elements and one shape have them in another order, as far as is known."""
    return raw.get("shape") == other.get("shape") and raw.get(KEY) != other.get(KEY)


def _norm_of_entry(entry: tuple[Mark, Raw]) -> float:
    """Return the norm of a value, infinity where none is recorded."""
    return order_of(entry[1])
