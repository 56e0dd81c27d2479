"""Which recorded call a number of Python comes from: ``tensor.item()`` and what is made of it leave no record.

A norm becomes the factor by which gradients are clipped, a count a divisor. What a program makes of one number is a
power of it as often as not: where the numbers of two runs have the ratio of a power of what one call shows, that call
makes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from msprobe.compare.after_backward.gradient_trails import calls_after_backward
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import INPUT, OUTPUT, is_tensor, leaves
from msprobe.core.tensors.statistics import LARGEST
from msprobe.trace.leaves import as_float, element_count

_Places = Mapping[tuple[str, str], Sequence[str]]
"""Names of calls by function and file."""
_POWERS = (1.0, -1.0, 0.5, -0.5, 2.0, -2.0)
_SAME, _OTHER, _FEW = 1e-5, 1e-5, 4


class MadeNumber(NamedTuple):
    """The call of the target that a number comes from, and whether the target goes on with what it gave to that call,
    where the golden run goes on with the result."""

    call: str
    unused: bool

    @property
    def text(self) -> str:
        """The sentence about it."""
        if self.unused:
            return f"the number follows from what the target gives to {self.call}, in the golden run from its result"
        return f"the number follows from the result of {self.call}"


def maker_of_number(
    dumps: tuple[Dump, Dump], calls: tuple[str, str], numbers: tuple[float, float]
) -> MadeNumber | None:
    """Return where a number that differs comes from; None where no call between backward pass and optimizer tells.

    Args:
        dumps: target and golden run.
        calls: the call that is given the number, on both sides.
        numbers: what it is given.
    """
    if not all(math.isfinite(number) and number for number in numbers) or math.isclose(*numbers, rel_tol=_OTHER):
        return None
    ratio = numbers[0] / numbers[1]
    target, golden = dumps
    pairs = _counterparts(_few_at_each_place(target, calls[0]), _few_at_each_place(golden, calls[1]))
    order = {name: number for number, name in enumerate(_before(target, calls[0]))}
    for name, counterpart in sorted(pairs, key=lambda pair: -order[pair[0]]):
        for slot in (OUTPUT, INPUT):
            values = product(_numbers(target, name, slot), _numbers(golden, counterpart, OUTPUT))
            if any(_explains(own / other, ratio) for own, other in values):
                return MadeNumber(name, unused=slot == INPUT)
    return None


def _counterparts(target: _Places, golden: _Places) -> Iterator[tuple[str, str]]:
    """Yield the calls of the target with those of the golden run at the same place; a call that the target alone makes
    with each of the golden run."""
    for place, names in target.items():
        others = golden.get(place)
        if others is None:
            yield from product(names, (name for own in golden.values() for name in own))
        elif len(names) == len(others):
            yield from zip(names, others, strict=True)


def _few_at_each_place(dump: Dump, call: str) -> dict[tuple[str, str], list[str]]:
    """Return the calls before a call that return a number, by place; where there are many, as of all parameters, one of
    them has any ratio by chance."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in _before(dump, call):
        if next(_numbers(dump, name, OUTPUT), None) is not None:
            found.setdefault(place_of(dump, name), []).append(name)
    return {place: names for place, names in found.items() if len(names) <= _FEW}


def place_of(dump: Dump, name: str) -> tuple[str, str]:
    """Return what tells a call from others in two runs: its function, and the file where it is made."""
    frames = dump.stacks.get(name) or [""]
    return name.rpartition(".forward")[0].rpartition(".")[0], frames[0].rpartition("/")[2].partition(", line ")[0]


def _before(dump: Dump, call: str) -> Iterator[str]:
    for name in calls_after_backward(dump):
        if name == call:
            return
        yield name


def _numbers(dump: Dump, name: str, slot: str) -> Iterator[float]:
    """Yield the positive numbers that a call gets or returns as tensors of one element."""
    for leaf in leaves(name, dump.data[name]):
        raw: Any = leaf.raw
        if leaf.slot == slot and is_tensor(raw) and element_count(raw) == 1:
            number = as_float(raw.get(LARGEST.name))
            if number > 0.0 and math.isfinite(number):
                yield number


def _explains(own: float, ratio: float) -> bool:
    if ratio <= 0.0 or math.isclose(own, 1.0, rel_tol=_OTHER):
        return False
    return any(math.isclose(own**power, ratio, rel_tol=_SAME) for power in _POWERS)
