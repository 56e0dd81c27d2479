"""Copies: what one call returns reaches the next one whole, also where it is moved on the way.

Copies and moves between devices are seldom recorded themselves. The backward pass shows them: where the gradient of
what a call gets is that of what an earlier call returned, nothing but copies and views lie between the two, so the
values must be the same too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from msprobe.check.facts.calls import Call, is_finite
from msprobe.check.facts.dataflow import mark_of
from msprobe.check.facts.read_step import StepView
from msprobe.check.facts.step_facts import differ
from msprobe.check.facts.tensors import tensor_of
from msprobe.check.findings import Certainty, Finding
from msprobe.check.needs import CALLS
from msprobe.check.rule import Rule
from msprobe.compare.records.entries import OF_PARAMETERS
from msprobe.core.naming.names import is_communication
from msprobe.core.store.record_walk import SAMPLED, Leaf, is_tensor
from msprobe.trace.values import count_of

_COPIES = frozenset({"to", "cuda", "cpu", "npu", "clone", "contiguous", "detach"})
_IN_PLACE = re.compile(r"[^_]_$|^__i[a-z]+__$|^__setitem__$")
_LOST = 0.05
"""Share of the norm that is missing where a part is lost; rounding to few digits takes less."""
_ROUNDED = 0.02
"""How far sizes may be apart after a cast to fewer digits, relative to the tensor."""
_FEWEST = 8
"""Elements below which gradients may be equal by chance."""


def changed_copies(view: StepView) -> Iterator[Finding]:
    """Yield copies and moves between devices whose result differs from what they got."""
    for call in _functions(view):
        if call.function == "copy_":
            source = call.argument(1, "src")
            given = tensor_of(source) if is_tensor(source) else None
        elif call.function in _COPIES and call.given:
            given = tensor_of(call.given[0].raw)
        else:
            continue
        result = call.result
        if given is None or result is None or given.shape != result.shape or given.dtype != result.dtype:
            continue
        if given.is_measured and result.is_measured and differ(given, result):
            reason = (
                f"{call.function} returns other values than it gets (norm {result.norm:.6g} instead of "
                f"{given.norm:.6g}): the copy is incomplete, or read before it has arrived"
            )
            yield view.finding("copy_changes_values", call, reason, certainty="certain")
            return


class _End(NamedTuple):
    """One end of a way without recorded calls: a call, and a value that it returns or gets."""

    call: Call
    raw: Mapping[str, Any]


def changed_on_the_way(view: StepView) -> Iterator[Finding]:
    """Yield a value that comes to a function changed, although its gradient goes back unchanged to where it was made.

    Only functions are looked at: inside of compiled code, and at level L0, calls that change values are not recorded.
    """
    arrivals = [] if SAMPLED in view.dump.header else list(_unmade(view))  # a sample lacks what lies between
    if not arrivals:
        return
    backward = {(call.stem, call.number): call for call in view.calls if call.phase == "backward"}
    for call, leaf in arrivals:
        back = backward.get((call.stem, call.number))
        gradient = _partner(leaf, back, arrives=True)
        if gradient is not None and _tells(gradient) and not _is_shared(leaf, gradient, back):
            sent = _source(view, call, gradient)
            if sent is not None and not _may_change(view, sent.call, call):
                yield from _judged(view, sent, _End(call, leaf.raw))


def _functions(view: StepView) -> Iterator[Call]:
    for call in view.calls:
        if not call.is_module and call.phase == "forward" and call.parent not in OF_PARAMETERS:
            yield call


def _unmade(view: StepView) -> Iterator[tuple[Call, Leaf]]:
    """Yield what functions get that needs a gradient, is no parameter, and that no recorded call has made.

    A constant, of which all elements are equal, cannot be known again, and counts too.
    """
    values = (one for state in view.facts.parameters.values() for one in (state.used, state.left))
    made = {mark_of(value) for value in values if value is not None}
    for call in _functions(view):
        for own, leaf in zip(call.given_marks, call.given, strict=True):
            raw = leaf.raw
            known = own in made and not _is_constant(raw)
            if not known and raw.get("requires_grad") is True and count_of(raw) >= _FEWEST:
                yield call, leaf
        made.update(call.given_marks)
        made.update(call.returned_marks)


def _source(view: StepView, receiver: Call, gradient: Mapping[str, Any]) -> _End | None:
    """Return the last function before a call of which a result has this gradient.

    None where there is none, or where results with other values have it too, as the terms of a sum have.
    """
    norm, key = gradient.get("Norm"), _key(gradient)
    having = {
        (back.stem, back.number): back
        for back in view.calls
        if back.phase == "backward" and not back.is_module
        if any(leaf.raw.get("Norm") == norm and _key(leaf.raw) == key for leaf in back.given)
    }
    found: list[_End] = []
    for call in _functions(view) if having else ():
        back = having.get((call.stem, call.number))
        if call.place >= receiver.place:
            break
        for leaf in call.returned if back is not None else ():
            own = _partner(leaf, back, arrives=False)
            if own is not None and _key(own) == key:
                found.append(_End(call, leaf.raw))
    return found[-1] if len({_key(one.raw) for one in found}) == 1 else None


def _is_shared(leaf: Leaf, gradient: Mapping[str, Any], back: Call | None) -> bool:
    """Return whether another argument of the same call has the same gradient, as the terms of a sum have."""
    own, key = _position(leaf), _key(gradient)
    return back is not None and any(_key(one.raw) == key and _position(one) != own for one in back.returned)


def _partner(leaf: Leaf, back: Call | None, *, arrives: bool) -> Mapping[str, Any] | None:
    """Return the gradient of an argument of a call (it ``arrives``) or of a result, where it has the same shape."""
    gradients = () if back is None else back.returned if arrives else back.given
    found = next((one.raw for one in gradients if _position(one) == _position(leaf)), None)
    return found if found is not None and found.get("shape") == leaf.raw.get("shape") else None


def _is_constant(raw: Mapping[str, Any]) -> bool:
    """Return whether all elements are equal, by which a value cannot be known again."""
    return bool(raw.get("Max") == raw.get("Min"))


def _position(leaf: Leaf) -> str:
    """Return the position of a value among the arguments or results of its call: ``0`` of ``.input.0``."""
    return leaf.suffix.split(".", 2)[-1]


def _key(gradient: Mapping[str, Any]) -> tuple[object, ...]:
    return gradient.get("Max"), gradient.get("Min"), gradient.get("Norm"), count_of(gradient)


def _tells(gradient: Mapping[str, Any]) -> bool:
    """Return whether a gradient is not equal to another one by chance."""
    return count_of(gradient) >= _FEWEST and not _is_constant(gradient) and is_finite(gradient)


def _may_change(view: StepView, first: Call, last: Call) -> bool:
    """Return whether a call from one to another one is a collective, or changes in place what needs a gradient."""
    return any(
        is_communication(call.name) or (_IN_PLACE.search(call.function) and _needs_gradient(call))
        for call in _functions(view)
        if first.place <= call.place <= last.place
    )


def _needs_gradient(call: Call) -> bool:
    return bool(call.given) and call.given[0].raw.get("requires_grad") is True


def _judged(view: StepView, begin: _End, end: _End) -> Iterator[Finding]:
    """Yield a finding where a value differs from the one that it must be by its gradient, by more than a cast does."""
    sent, got = tensor_of(begin.raw), tensor_of(end.raw)
    if not (sent.is_measured and got.is_measured and sent.is_finite and got.is_finite):
        return
    size = max(abs(sent.largest), abs(sent.smallest))
    apart = (abs(sent.largest - got.largest), abs(sent.smallest - got.smallest))
    if max(apart) <= _ROUNDED * size and abs(sent.norm - got.norm) <= _ROUNDED * sent.norm:
        return
    lost = got.norm < (1.0 - _LOST) * sent.norm and got.largest <= sent.largest + _ROUNDED * size
    lost = lost and got.smallest >= sent.smallest - _ROUNDED * size
    certainty: Certainty = "likely" if lost else "possible"
    how = "a part of it is lost" if lost else "it is another value"
    reason = (
        f"{end.call.function} gets a tensor of norm {got.norm:.6g} where {begin.call.name} returns one of norm "
        f"{sent.norm:.6g}, although the gradient goes back unchanged from one to the other, as over a copy: {how} (the "
        "move to another device, or the copy, is incomplete or read before it has arrived)"
    )
    yield view.finding("copy_changes_values", end.call, reason, certainty=certainty)


def _copies(view: StepView) -> Iterator[Finding]:
    found = list(changed_copies(view))
    yield from found or islice(changed_on_the_way(view), 1)


RULES = (
    Rule(
        "copy_changes_values",
        "values",
        "A copy has the values of what it was made from, and so has what comes to a call over unrecorded copies.",
        (CALLS,),
        "certain",
        "Wait for asynchronous copies; test the links between the devices.",
        of_step=_copies,
        first_only=True,
    ),
)
