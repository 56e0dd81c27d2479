"""Differences of tensors: inputs of the model, and weights, by step, rank and name.

Equal is what has the same content: dtype, shape and every bit. Where only statistics are known, as in packs of
mindstudio-probe, equal statistics are equal tensors. A relative difference is ``|b - a| / a`` with b of the comparison
and a of the benchmark, empty where a is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from msprobe.core.tensors.dtypes import find_dtype, same_dtype
from msprobe.setup_check.differences.section import Section, one_sided
from msprobe.setup_check.document import StepTensors, TensorFacts
from msprobe.setup_check.levels import Level

_STATISTICS = ("max", "min", "mean", "norm")
_NEIGHBOURS = 4.0
"""Statistics of tensors whose elements differ by one unit in the last place differ by at most so many units."""

SectionName = Literal["dataset", "weights"]
Key = tuple[int, int, str]
"""Step, rank and name."""
Side = dict[Key, TensorFacts | None]
"""The facts of each value; None for an input that is no tensor."""


def compare_tensors(name: SectionName, first: Sequence[StepTensors], second: Sequence[StepTensors]) -> Section:
    """Return a row for each tensor of each step and rank, in the order of the program."""
    title = "tag" if name == "dataset" else "weight_name"
    columns = ("step", "rank", title, "equal", *(f"{one}_relative_diff" for one in _STATISTICS), "level", "reason")
    missing = one_sided(name, columns, first, second)
    if missing is not None:
        return missing
    sides = [_by_key(side) for side in (first, second)]
    keys = [key for key in dict.fromkeys([*sides[0], *sides[1]]) if not all(_is_no_tensor(key, side) for side in sides)]
    keys.sort(key=lambda key: key[:2])
    rows = tuple(dict(zip(columns, _cells(name, key, sides), strict=True)) for key in keys)
    return Section(name, columns, rows)


def _by_key(steps: Sequence[StepTensors]) -> Side:
    found: Side = {}
    for one in steps:
        found.update({(one.step, one.rank, name): facts for name, facts in one.tensors.items()})
        found.update(dict.fromkeys((one.step, one.rank, name) for name in one.others))
    return found


def _is_no_tensor(key: Key, side: Side) -> bool:
    return key in side and side[key] is None


def _cells(name: SectionName, key: Key, sides: Sequence[Side]) -> tuple[Any, ...]:
    first, second = (side.get(key) for side in sides)
    nothing = (None,) * len(_STATISTICS)
    if first is None or second is None:
        return (*key, *_of_one_side(name, key, sides, nothing))
    if first.shape != second.shape:
        reason = f"shape {first.shape} against {second.shape}"
        return (*key, False, *nothing, "error", reason)
    if not (_is_known(first) and _is_known(second)):
        return (*key, False, *nothing, "warning", "not measured: the tensor could not be read, so it is not compared")
    differences = [_relative(getattr(first, one), getattr(second, one)) for one in _STATISTICS]
    if is_equal(first, second):
        return (*key, True, *differences, "pass", "")
    level, reason = _explain(name, key[0], first, second)
    return (*key, False, *differences, level, reason)


def _of_one_side(name: SectionName, key: Key, sides: Sequence[Side], nothing: tuple[None, ...]) -> tuple[Any, ...]:
    """Return the further cells of a value that is a tensor on one side at most."""
    if all(key in side for side in sides):
        return (False, *nothing, "error", "a tensor on one side, no tensor on the other")
    side, words = ("cmp", "comparison") if key in sides[1] else ("bench", "benchmark")
    if name == "weights":
        return (f"only {side} have", *nothing, "error", "a missing tensor cannot be compared")
    return (False, *nothing, "error", f"only the {words} gives the model this input")


def _is_known(facts: TensorFacts) -> bool:
    return bool(facts.content) or any(getattr(facts, one) is not None for one in _STATISTICS)


def is_equal(first: TensorFacts, second: TensorFacts) -> bool:
    """Return whether two tensors are the same: by content where both have a hash, otherwise by their statistics."""
    if first.content and second.content:
        return first.content == second.content
    return all(_same(getattr(first, one), getattr(second, one)) for one in _STATISTICS)


def _same(first: float | None, second: float | None) -> bool:
    if first is None or second is None:
        return first is second
    return first == second or (math.isnan(first) and math.isnan(second))


def _relative(first: float | None, second: float | None) -> float | None:
    """Return ``|second - first| / first``; None where it does not exist."""
    if first is None or second is None or not first or not math.isfinite(first) or not math.isfinite(second):
        return None
    return abs(second - first) / first


def _explain(name: SectionName, step: int, first: TensorFacts, second: TensorFacts) -> tuple[Level, str]:
    """Return how serious the difference is, and in words what differs."""
    if not same_dtype(first.dtype, second.dtype):
        return "error", f"{first.dtype} against {second.dtype}"
    if first.elements and first.elements == second.elements:
        return "error", "the same elements in another order"
    if _are_neighbours(first, second):
        return "warning", "about one unit in the last place: the values agree, not the bits"
    if name == "dataset":
        return "error", "the model gets other data"
    return (
        "error",
        f"weights have parted by the end of step {step - 1}" if step else "the runs begin with other weights",
    )


def _are_neighbours(first: TensorFacts, second: TensorFacts) -> bool:
    """Return whether every statistic, and the weighted sum by position, is within a few units of round-off.

    The projection tells a permutation, which leaves the other statistics as they are. Without it the answer is False.
    """
    dtype = find_dtype(first.dtype)
    if dtype is None or not dtype.digits or None in (first.projection, second.projection, first.norm, second.norm):
        return False
    count = math.prod(first.shape)
    assert first.norm is not None and first.projection is not None and second.projection is not None
    unit = 2 * dtype.unit_roundoff
    if not math.isfinite(first.norm) or abs(first.projection - second.projection) > _NEIGHBOURS * unit * first.norm:
        return False
    scale = max(abs(first.max or 0.0), abs(first.min or 0.0))
    bounds = {"max": scale, "min": scale, "mean": first.norm / math.sqrt(max(count, 1)), "norm": first.norm}
    return all(
        abs((getattr(first, one) or 0.0) - (getattr(second, one) or 0.0)) <= _NEIGHBOURS * unit * bound
        for one, bound in bounds.items()
    )
