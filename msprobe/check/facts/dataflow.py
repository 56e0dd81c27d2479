"""Where values of a step come from and whether they reach a backward pass: a call gets what another one returned.

Values are known again by statistics that no view changes. So a call after ``reshape`` or ``transpose``, which are not
always recorded, still gets what the call before them returned. A value without numbers is known again by nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msprobe.check.facts.step_facts import ROUNDED_STATISTICS, Tensor
from msprobe.check.facts.tensors import tensor_of
from msprobe.compare.records.entries import OF_PARAMETERS
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import Leaf, is_tensor
from msprobe.trace.values import count_of, has_mark, mark, mark_from

if TYPE_CHECKING:
    from msprobe.check.facts.calls import Call


WEIGHTED = frozenset({
    *("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "embedding"),
})
"""Functions whose second argument is a weight."""
_FORWARD, _BACKWARD = Phase.FORWARD.value, Phase.BACKWARD.value


def mark_of(tensor: Tensor) -> int:
    """Return the mark of a tensor that was read."""
    return mark_from(tensor.largest, tensor.smallest, tensor.norm, tensor.size)


def readers(calls: Sequence[Call], wanted: Collection[int]) -> Iterator[tuple[int, bool]]:
    """Yield the mark of each wanted tensor that a function gets, and whether its result reaches a backward pass."""
    for call, given, reaches in _reaching(calls):
        if not call.is_module:
            yield from ((one, reaches) for one in given if one in wanted)


def differentiated(calls: Sequence[Call]) -> set[int]:
    """Return the marks of the tensors that go into a backward pass, or into a call whose result does."""
    return {one for _, given, reaches in _reaching(calls) if reaches for one in given}


def numbers_of_parameters(calls: Sequence[Call], wanted: Collection[float]) -> Iterator[float]:
    """Yield which of the wanted values a function gets as a plain number on the way to a backward pass.

    Numbers of few digits do not count, as programs write such numbers themselves.
    """
    odd = {value for value in wanted if value * 64 % 1 and float(f"{value:.6g}") != value}
    if not odd:
        return
    for call, _, reaches in _reaching(calls):
        if reaches and not call.is_module:
            arguments = [*_listed(call.body.get("input_args")), *_named(call.body.get("input_kwargs"))]
            values = (one.get("value") for one in arguments)
            yield from (value for value in values if isinstance(value, float) and value in odd)


def _listed(nodes: Any) -> list[Mapping[str, Any]]:
    return [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []


def _named(nodes: Any) -> list[Mapping[str, Any]]:
    return _listed(list(nodes.values())) if isinstance(nodes, dict) else []


def cut_off(calls: Sequence[Call], known: Collection[int]) -> set[int]:
    """Return the marks of results that need no gradient although they are made of tensors that need one, such as the
    known ones, which are parameters."""
    found: set[int] = set()
    flags: set[tuple[Any, ...]] = set()
    for call in calls:
        if call.phase != _FORWARD or call.is_module or call.parent in OF_PARAMETERS:
            continue
        if any(_is_cut(leaf.raw, found, flags, known) for leaf in call.given):
            cut = [leaf.raw for leaf in call.returned if leaf.raw.get("requires_grad") is not True]
            found.update(map(mark, cut))
            flags.update(_as_flags(raw) for raw in cut if "float" not in str(raw.get("dtype")))
    return found


def _is_cut(raw: Mapping[str, Any], found: set[int], flags: set[tuple[Any, ...]], known: Collection[int]) -> bool:
    one = mark(raw)
    return raw.get("requires_grad") is True or one in found or one in known or _as_flags(raw) in flags


def gradients_of_inputs(calls: Sequence[Call]) -> set[int]:
    """Return the marks of tensors that the program got as gradients of inputs of calls (``torch.autograd.grad``): each
    is the sum of what the backward passes of the calls with that input return, and so are its mean and projection."""
    sums: dict[int, list[Tensor]] = {}
    returned = {
        (call.stem, call.number): {_position(leaf): tensor_of(leaf.raw) for leaf in call.returned}
        for call in calls
        if call.phase == _BACKWARD
    }
    forward = [call for call in calls if call.phase == _FORWARD and not call.is_module]
    for call in forward:
        gradients = returned.get((call.stem, call.number), {})
        for own, leaf in zip(call.given_marks, call.given, strict=True) if gradients else ():
            if _position(leaf) in gradients:
                sums.setdefault(own, []).append(gradients[_position(leaf)])
    by_size: dict[int, list[list[Tensor]]] = {}
    for parts in sums.values():
        by_size.setdefault(parts[0].size, []).append(parts)
    given = {own: leaf.raw for call in forward for own, leaf in zip(call.given_marks, call.given, strict=True)}
    return {
        own
        for own, raw in given.items()
        if count_of(raw) in by_size and raw.get("requires_grad") is not True
        if any(_is_sum(tensor_of(raw), parts) for parts in by_size[count_of(raw)])
    }


def _position(leaf: Leaf) -> str:
    """Return which argument or result of a call a tensor is: a backward pass returns one for each argument."""
    return leaf.suffix.partition("put.")[2]


def _is_sum(one: Tensor, parts: Sequence[Tensor]) -> bool:
    """Return whether a tensor is the sum of others by its mean and projection, which constant ones share by chance."""
    near = ROUNDED_STATISTICS * max(one.norm, *(part.norm for part in parts))
    return (
        not one.is_constant
        and abs(one.mean - sum(part.mean for part in parts)) <= near
        and abs(one.order - sum(part.order for part in parts)) <= near
    )


def _as_flags(raw: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return by what whole numbers and flags are known again after a cast to float, which is not always recorded."""
    return raw.get("Max"), raw.get("Min"), count_of(raw)


def unknown_weights(calls: Sequence[Call], known: Collection[int]) -> list[Call]:
    """Return the calls of functions that read a weight with a gradient that is none of the known tensors and that no
    recorded call has made."""
    backward = {(call.stem, call.number) for call in calls if call.phase == _BACKWARD}
    wanted = {
        call.place: weight
        for call in calls
        if call.function in WEIGHTED and not call.is_module and (weight := _trained_weight(call)) is not None
        if weight not in known and (call.stem, call.number) in backward and call.phase == _FORWARD
    }
    if not wanted:
        return []
    made: set[int] = set()
    found = []
    for call in calls:
        if call.phase == _FORWARD and call.parent not in OF_PARAMETERS:
            if call.place in wanted and wanted[call.place] not in made:
                found.append(call)
            made.update(call.returned_marks)
    return found


def _trained_weight(call: Call) -> int | None:
    weight = call.argument(1, "weight")
    return mark(weight) if is_tensor(weight) and has_mark(weight) and weight.get("requires_grad") is True else None


def reaching_modules(calls: Sequence[Call], wanted: Sequence[Call]) -> list[Call]:
    """Return which of the wanted calls run inside of a module, or make something that a module gets."""
    if not wanted:
        return []
    places = {call.place for call in wanted}
    carried: dict[int, set[int]] = {}
    inside: set[int] = set()
    for call in calls:
        if call.phase != _FORWARD or call.parent in OF_PARAMETERS:
            continue
        sources = set().union(*(carried.get(one, ()) for one in call.given_marks), {call.place} & places)
        if sources:
            carried.update((one, sources) for one in call.returned_marks)
            inside |= sources if call.is_module or call.module else set()
    return [call for call in wanted if call.place in inside]


def _reaching(calls: Sequence[Call]) -> Iterator[tuple[Call, Sequence[int], bool]]:
    """Yield forward calls from the last to the first, the marks of what they get, and whether results reach a backward
    pass."""
    forward = [call for call in calls if call.phase == _FORWARD and call.parent not in OF_PARAMETERS]
    backward = {(call.stem, call.number) for call in calls if call.phase == _BACKWARD}
    alive: set[int] = set()
    for call in reversed(forward):
        reaches = (call.stem, call.number) in backward or not alive.isdisjoint(call.returned_marks)
        if reaches:
            alive.update(call.given_marks)
        yield call, call.given_marks, reaches
