"""Modules that round what they multiply to a few bits, as training in eight bits does: where, and with which scale.

A conversion to another dtype is not recorded. But a value that is multiplied by a scale, and comes back to be divided
by it with other statistics, was rounded in between, and the largest numbers that come back tell how many bits it kept.
Where both sides round with the same scales to as many bits, what they make of inputs that differ in their last digit
may differ by a step of the coarse format. Another scale, or another number of bits, is no rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msprobe.compare.parallel.identity import RankCalls
from msprobe.compare.records.entries import parent_of
from msprobe.core.store.record_walk import is_tensor
from msprobe.core.tensors.statistics import LARGEST, SMALLEST
from msprobe.trace.likeness import same_values

_TIMES, _OVER = ("mul", "__mul__"), ("div", "__truediv__")
_CLOSE = 1e-3
_FEW_BITS = 11
"""A number that needs more bits is one of the formats that tensors are recorded in."""


class Rounding(NamedTuple):
    """One rounding: its scale, and the number of bits that the extremes of the result need."""

    scale: float
    bits: int


def rounded_alike(target: Sequence[RankCalls], golden: Sequence[RankCalls]) -> frozenset[str]:
    """Return the paths of the modules that round alike on all ranks of both sides."""
    sides = [[dict(_of_rank(rank)) for rank in ranks] for ranks in (target, golden)]
    if not all(any(found) for found in sides):
        return frozenset()
    bits = [max(one.bits for rank in found for own in rank.values() for one in own) for found in sides]
    if bits[0] != bits[1] or bits[0] > _FEW_BITS:
        return frozenset()
    known = {path: own for rank in sides[1] for path, own in rank.items()}
    ours = {path for rank in sides[0] for path in rank}
    return frozenset(
        path
        for path in ours & known.keys()
        if all(_same_scales(rank.get(path, known[path]), known[path]) for found in sides for rank in found)
    )


def _same_scales(own: Sequence[Rounding], other: Sequence[Rounding]) -> bool:
    return len(own) == len(other) and all(
        math.isclose(one.scale, two.scale, rel_tol=_CLOSE) for one, two in zip(own, other, strict=True)
    )


def _of_rank(rank: RankCalls) -> Iterator[tuple[str, list[Rounding]]]:
    """Yield the modules of a rank with their roundings."""
    paths = {call.name: call.key.path for call in rank.calls if not call.key.micro and not call.key.turn}
    found: dict[str, list[Rounding]] = {}
    scaled: dict[tuple[str, str, float], Mapping[str, Any]] = {}
    for name, body in rank.dump.data.items():
        function = name.partition(".")[2].partition(".")[0]
        if function not in _TIMES and function not in _OVER:
            continue
        path = paths.get(parent_of(rank.dump.construct, name) or "")
        given: list[Any] = body.get("input_args") or []
        if path is None or len(given) != 2 or not all(map(is_tensor, given)) or given[1]["shape"] not in ([], [1]):
            continue
        scale, kind = given[1].get(LARGEST.name), str(given[0]["shape"])
        if function in _TIMES:
            scaled[path, kind, scale] = (body.get("output") or [None])[0]
        elif (made := scaled.pop((path, kind, scale), None)) is not None and not same_values(made, given[0], 0.0):
            found.setdefault(path, []).append(Rounding(scale, max(map(_bits, _extremes(given[0])))))
    yield from found.items()


def _extremes(raw: Mapping[str, Any]) -> list[float]:
    return [float(raw.get(spec.name) or 0.0) for spec in (LARGEST, SMALLEST)]


def _bits(number: float) -> int:
    """Return how many binary digits a number needs, its leading one included."""
    if not number or not math.isfinite(number):
        return 1
    numerator = abs(number).as_integer_ratio()[0]
    return len(bin(numerator).rstrip("0")) - len("0b")
