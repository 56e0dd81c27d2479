"""Gradients that a run goes on with as they were before it added them up over ranks.

A program adds up many gradients at once, in a buffer that they are parts of. Where it reduces a copy of the buffer, the
call is recorded with the right values, and what follows has still the gradients of one rank. They show it: they are a
multiple of a gradient of the backward pass, element by element, and a sum over ranks is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msprobe.compare.after_backward.gradient_trails import calls_after_backward
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import INPUT, OUTPUT, PARAMETER_GRAD, is_tensor, leaves
from msprobe.core.tensors.projection import KEY
from msprobe.core.tensors.statistics import NORM, STATISTIC_NAMES
from msprobe.trace.leaves import as_float, element_count
from msprobe.trace.likeness import NEAR, distance, is_part

Raw = Mapping[str, Any]
_COLLECTIVE = "Distributed."
_STATISTICS = (*STATISTIC_NAMES, KEY)


def lost_reduction(dump: Dump, raw: Raw, before: str | None = None) -> str | None:
    """Return the collective after the backward pass whose result a gradient should be a part of, and is not.

    Args:
        dump: the records of a rank.
        raw: the gradient, as it is later.
        before: the call that is given it; None where all collectives come earlier.
    """
    if raw.get(KEY) is None:
        return None
    calls = calls_after_backward(dump)
    if before is not None:
        calls = calls[: calls.index(before)] if before in calls else []
    for name in reversed(calls):
        if name.startswith(_COLLECTIVE) and _adds_up(dump, name, raw):
            return name if _is_as_it_was(dump, raw, name) else None
    return None


def _adds_up(dump: Dump, name: str, raw: Raw) -> bool:
    """Return whether a collective changes a flat buffer, of which a tensor may be a part, by more than a factor."""
    given, made = (list(_tensors(dump, name, slot)) for slot in (INPUT, OUTPUT))
    pairs = ((own, other) for own in given for other in made if element_count(own) == element_count(other))
    return any(len(own["shape"]) == 1 and is_part(raw, own) and not _is_multiple(other, own) for own, other in pairs)


def _is_as_it_was(dump: Dump, raw: Raw, collective: str) -> bool:
    for name in dump.data:
        if name == collective:
            return False
        if any(_is_multiple(raw, own) for slot in (PARAMETER_GRAD, OUTPUT) for own in _tensors(dump, name, slot)):
            return True
    return False


def _tensors(dump: Dump, name: str, slot: str) -> Iterator[Raw]:
    yield from (leaf.raw for leaf in leaves(name, dump.data[name]) if leaf.slot == slot and is_tensor(leaf.raw))


def _is_multiple(raw: Raw, other: Raw) -> bool:
    """Return whether a tensor is a positive multiple of another one of its shape, as all statistics tell."""
    if raw["shape"] != other["shape"] or raw.get(KEY) is None or other.get(KEY) is None:
        return False
    norms = as_float(raw.get(NORM.name)), as_float(other.get(NORM.name))
    if not all(norm > 0.0 for norm in norms):
        return False
    factor = norms[0] / norms[1]
    scaled = {name: as_float(other.get(name)) * factor for name in _STATISTICS}
    turned = abs(as_float(raw[KEY]) - scaled[KEY]) <= NEAR * norms[0]
    return turned and distance(raw, scaled) <= NEAR
