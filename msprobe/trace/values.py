"""When two recorded tensors are one value: by the memory that the records name, else by their statistics.

A tensor that one call returns and a later one gets lies in one storage. Where a record names it, the value is the last
result in this storage that covers the same part and has the same statistics: these decide where something that leaves
no record, or does not count as a write, has written in between. Views in between (transpose, reshape) change the shape
and the order of the elements, and neither the extremes nor the norm. So without a storage, or for what a copy without a
record has moved, a value is looked up by what no view changes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from msprobe.core.store.record_walk import MEMORY, PART, is_tensor
from msprobe.core.tensors.projection import KEY
from msprobe.core.tensors.statistics import LARGEST, NORM, SMALLEST, STATISTIC_NAMES
from msprobe.trace.leaves import as_float, is_shape
from msprobe.trace.likeness import NEAR, recorded_count, same_values

Raw = Mapping[str, Any]
Signature = tuple[Any, ...]
_DIGEST = "md5"
_COMMON = frozenset({0.0, 1.0, -1.0, math.inf, -math.inf})
"""Tensors that are full of such a number say nothing about where they come from."""


class Memory(NamedTuple):
    """Where a tensor lies: the number of its storage, and the version of the content, "" where nothing counts it."""

    storage: str
    version: str


def memory_of(raw: Raw) -> Memory | None:
    """Return where a recorded tensor lies; None where the record does not say."""
    text = raw.get(MEMORY)
    if not isinstance(text, str):
        return None
    storage, _, version = text.partition(".")
    return Memory(storage, version)


def span_of(raw: Raw) -> tuple[int, int]:
    """Return the first element of the storage that a tensor covers, and the first behind it."""
    shape, part = raw.get("shape"), raw.get(PART)
    if not is_shape(shape) or 0 in shape:
        return 0, 0
    if not isinstance(part, str):
        return 0, math.prod(shape)
    return _span(tuple(shape), part)


@lru_cache(4096)
def _span(shape: tuple[int, ...], part: str) -> tuple[int, int]:
    offset, _, strides = part.partition(":")
    try:
        steps = [int(step) for step in strides.split(",") if step]
        return int(offset), int(offset) + 1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
    except ValueError:  # a damaged dump may hold anything
        return 0, math.prod(shape)


def signature_of(raw: Raw) -> Signature | None:
    """Return what no view changes of a tensor; None where that says nothing about where it comes from."""
    digest = raw.get(_DIGEST)
    if digest is not None:  # a damaged dump may hold anything
        return (digest,) if isinstance(digest, str) else None
    largest, smallest = raw.get(LARGEST.name), raw.get(SMALLEST.name)
    if not isinstance(largest, (int, float)) or not isinstance(smallest, (int, float)):
        return None
    if largest == smallest and largest in _COMMON:
        return None
    return recorded_count(raw), largest, smallest


def fingerprint(raw: Any) -> Signature | None:
    """Return what recognises a tensor of this shape, None for one without statistics or with equal elements."""
    if not is_tensor(raw) or raw.get(LARGEST.name) is None or raw.get(LARGEST.name) == raw.get(SMALLEST.name):
        return None
    return str(raw["shape"]), *(repr(raw.get(name)) for name in STATISTIC_NAMES)  # a damaged one may hold anything


def has_mark(raw: Raw) -> bool:
    """Return whether a recorded tensor has numbers, by which it is known again."""
    return raw.get(LARGEST.name) is not None


def mark(raw: Raw) -> int:
    """Return a number by which the same values are known again, whatever their shape.

    A tensor without numbers has a mark of its own: equal sizes are no reason to take two for one.
    """
    largest = raw.get(LARGEST.name)
    return id(raw) if largest is None else mark_from(largest, raw.get(SMALLEST.name), raw.get(NORM.name), count_of(raw))


def mark_from(largest: Any, smallest: Any, norm: Any, count: int) -> int:
    """Return the mark of a tensor with these statistics and this number of elements."""
    return hash((largest, smallest, norm, count))


def count_of(raw: Raw) -> int:
    """Return the number of elements of a recorded tensor."""
    shape = raw.get("shape")
    return _product(tuple(shape)) if type(shape) is list else 1


@lru_cache(maxsize=4096)
def _product(shape: tuple[Any, ...]) -> int:
    return math.prod(length if isinstance(length, int) else 0 for length in shape)


def has_same_order(one: Raw, two: Raw, norm: float) -> bool:
    """Return whether two tensors of equal elements have them in the same order, as the projection tells."""
    left, right = as_float(one.get(KEY)), as_float(two.get(KEY))
    return math.isfinite(left) and is_near(left, right, NEAR * norm)


def is_near(one: float, two: float, allowed: float) -> bool:
    """Return whether two numbers are at most this far apart; NaN is near NaN."""
    return one == two or (one != one and two != two) or abs(one - two) <= allowed


class Result(NamedTuple):
    """A tensor that a call returns: the number of the call, and the record of the tensor."""

    call: int
    raw: Raw


class Results:
    """The results of the calls of one run, found by the values that later calls get.

    Args:
        results: all of them, in the order of the calls.
        arguments: returns the tensors that a call gets.
    """

    def __init__(self, results: Iterable[tuple[int, Raw]], arguments: Callable[[int], Iterable[Raw]]) -> None:
        self._arguments = arguments
        self._by_storage: dict[str, list[Result]] = {}
        self._by_signature: dict[Signature, list[Result]] = {}
        for call, raw in results:
            memory, signature = memory_of(raw), signature_of(raw)
            if memory is not None:
                self._by_storage.setdefault(memory.storage, []).append(Result(call, raw))
            if signature is not None:
                self._by_signature.setdefault(signature, []).append(Result(call, raw))

    def recorded(self, raw: Raw, before: int) -> Result | None:
        """Return the last result of the calls below ``before`` that is this value, or the part of it that was written
        last, by the memory that the records name; None where none is."""
        memory = memory_of(raw)
        if memory is None:
            return None
        found = self._by_storage.get(memory.storage, [])
        begin, end = span_of(raw)
        overwritten = False
        for result in reversed(found[: bisect_left(found, before, key=lambda one: one.call)]):
            first, behind = span_of(result.raw)
            if behind <= begin or end <= first:
                continue
            if (first, behind) == (begin, end) and recorded_count(raw) == recorded_count(result.raw):
                if is_unchanged(raw, result.raw):
                    return result
            elif not overwritten and _may_overlap(raw, result.raw):
                return result
            overwritten = True
        return None

    def with_equal_statistics(self, raw: Raw, before: int) -> list[Result]:
        """Return the results of the calls below ``before`` with the statistics of a tensor, the last one first; those
        with its elements in its order where there are some."""
        near, norm = list(self._near(raw, before)), as_float(raw.get(NORM.name))
        return [one for one in near if has_same_order(raw, one.raw, norm)] or near

    def last_with_equal_statistics(self, raw: Raw, before: int) -> Result | None:
        """Return the first of these."""
        norm = as_float(raw.get(NORM.name))
        in_order = (one for one in self._near(raw, before) if has_same_order(raw, one.raw, norm))
        return next(in_order, None) or next(self._near(raw, before), None)

    def _near(self, raw: Raw, before: int) -> Iterator[Result]:
        norm, found = as_float(raw.get(NORM.name)), self._by_signature.get(signature_of(raw) or (), [])
        for one in reversed(found[: bisect_left(found, before, key=lambda one: one.call)]):
            if is_near(norm, as_float(one.raw.get(NORM.name)), NEAR * norm):
                yield one

    def same(self, raw: Raw, before: int) -> list[int]:
        """Return the calls below ``before`` that return a value, ascending; with what they got it from, such as what a
        copy was made of."""
        last = self.recorded(raw, before)
        alike = self.with_equal_statistics(raw, before)
        if last is None or not alike:
            return [one.call for one in reversed(alike)]
        return sorted(self._lineage(last, {one.call for one in alike}))

    def _lineage(self, last: Result, alike: set[int]) -> Iterator[int]:
        """Yield which of the calls with a value return it in its memory, or in memory that was copied to it."""
        seen: set[str] = set()
        waiting = [last]
        while waiting:
            result = waiting.pop()
            memory = memory_of(result.raw)
            if memory is None or memory.storage in seen:
                continue
            seen.add(memory.storage)
            for own in self._by_storage[memory.storage]:
                if own.call not in alike or not is_unchanged(own.raw, result.raw):
                    continue
                yield own.call
                copied = (self.recorded(raw, own.call) for raw in self._arguments(own.call))
                waiting += [one for one in copied if one is not None and is_unchanged(one.raw, result.raw)]


def is_unchanged(raw: Raw, earlier: Raw) -> bool:
    """Return whether two views of one memory show the same elements: their statistics agree, or neither has any and
    nothing was written in between."""
    if has_mark(raw) or raw.get(_DIGEST) is not None:
        return same_values(raw, earlier)
    return raw.get(MEMORY) == earlier.get(MEMORY)


def _may_overlap(one: Raw, two: Raw) -> bool:
    """Return whether two tensors in one memory may show the same elements where they overlap: a part of a tensor that
    has no gaps has no elements beyond its extremes."""
    part, whole = (one, two) if recorded_count(one) < recorded_count(two) else (two, one)
    (begin, end), (first, behind) = span_of(part), span_of(whole)
    if not (first <= begin and end <= behind == first + recorded_count(whole)):
        return True
    largest, smallest = (as_float(whole.get(spec.name)) for spec in (LARGEST, SMALLEST))
    return not (as_float(part.get(LARGEST.name)) > largest or as_float(part.get(SMALLEST.name)) < smallest)
