"""Attention: what is causal in one layer is causal in all, and a causal mask hides every later position.

The first row of causal attention has one place to look at, so its weight there is exactly 1: the largest value of the
whole tensor. Where the largest value is smaller, the first position sees a later one. A mask of two values is known by
its projection, which depends on the places of both.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from msprobe.check.facts.calls import Call
from msprobe.check.facts.patterns import pattern_of
from msprobe.check.facts.read_step import StepView
from msprobe.check.facts.step_facts import Tensor
from msprobe.check.facts.tensors import tensor_of
from msprobe.check.findings import Certainty, Finding
from msprobe.check.needs import CALLS
from msprobe.check.rule import Rule

_CAUSAL_MASK, _NEXT, _EARLIER, _SWAPPED = "causal", "next", "earlier", "swapped"
"""What a mask hides: all later places; all but the next one of them; the earlier ones; all that it should not."""
_SAID = {
    _NEXT: "leaves 1 more place open in each row than a causal mask does: each position sees the next one",
    _EARLIER: "hides the earlier places and leaves the later ones open: it is a causal mask that was transposed",
    _SWAPPED: "hides what a causal mask leaves open, and leaves open what it hides: true and false are swapped",
}
_FUSED = "scaled_dot_product_attention"
_MASK, _CAUSAL = 3, 5
_FILLING = frozenset({"masked_fill", "masked_fill_"})
_MASKING = _FILLING | frozenset({"where", "add", "__add__", "__iadd__", "add_"})
_HIDDEN = -1e4
_LARGEST_MASK = 1 << 18
_NEAR = 1e-6
_CARRYING = frozenset({"dropout", "dropout_", "to", "type_as", "float", "bfloat16"})
"""Functions that hand weights on: they drop some of them or change their dtype."""
_PRODUCTS = frozenset({"matmul", "__matmul__", "bmm"})


class _Attention(NamedTuple):
    call: Call
    causal: bool
    masked: bool


def sees_future(view: StepView) -> Iterator[Finding]:
    """Yield attention that sees later positions where others of its kind, or its mask, hide them."""
    kinds: dict[str, list[_Attention]] = {}
    wrong: list[tuple[Call, str]] = []
    usual = False
    for call in view.calls:
        if call.phase != "forward" or call.is_module:
            continue
        found = _attention(call)
        if found is not None:
            kinds.setdefault(pattern_of(call.module), []).append(found)
        effect = _wrong_effect(call)
        if effect is not None:
            wrong.append((call, effect))
        elif call.function in _FILLING | {_FUSED}:
            given = call.tensor(1, "mask") if call.function in _FILLING else call.tensor(_MASK, "attn_mask")
            usual = usual or (given is not None and _effect(call, given) == _CAUSAL_MASK)
    if wrong:
        call, effect = wrong[0]
        # a model that reads backwards hides the earlier places everywhere
        certainty: Certainty = "possible" if effect == _EARLIER and not usual else "likely"
        reason = f"the mask of {call.function} {_SAID[effect]}"
        yield view.finding("attention_sees_future", call, reason, certainty=certainty)
        return
    for attentions in kinds.values():
        found_here = _decided(attentions)
        causal = [one for one in found_here if one.causal]
        open_ones = [one for one in found_here if not one.causal]
        if causal and open_ones and len(open_ones) <= len(causal):
            call, other = open_ones[0].call, causal[0].call
            reason = (
                f"attention of {call.module or 'this layer'} sees later positions, and that of "
                f"{other.module or 'others'} hides them: the causal mask is missing here"
            )
            yield view.finding("attention_sees_future", call, reason, certainty="likely")


def _decided(found: list[_Attention]) -> list[_Attention]:
    """Return attention without that of modules which are called in both ways, with a causal mask and without it."""
    ways: dict[str, set[bool]] = {}
    for one in found:
        ways.setdefault(one.call.module, set()).add(one.causal)
    return [one for one in found if len(ways[one.call.module]) == 1]


def over_other_axis(view: StepView) -> Iterator[Finding]:
    """Yield weights of attention that were normalised along another axis than that over which values are added."""
    weights: dict[Hashable, Call] = {}
    for call in view.calls:
        if call.phase != "forward" or call.is_module:
            continue
        if "softmax" in call.function and "log" not in call.function:
            result, axis = call.result, call.argument(1, "dim")
            if result is None or not _is_square(result) or result.is_constant or not isinstance(axis, int):
                continue
            if axis % len(result.shape) != len(result.shape) - 1:
                weights[result.key] = call
            continue
        if not weights or not call.given:
            continue
        left = tensor_of(call.given[0].raw)
        made = weights.get(left.key)
        if made is not None and call.function in _CARRYING and call.result is not None:
            weights[call.result.key] = made
        elif made is not None and call.function in _PRODUCTS:
            reason = (
                f"{made.function} goes along axis {made.argument(1, 'dim')} of the weights of shape "
                f"{list(left.shape)}, and {call.function} adds values along their last one: what each position adds "
                "up is no distribution, and no mask holds"
            )
            yield view.finding("attention_over_other_axis", made, reason, certainty="likely")
            return


def is_causal(call: Call) -> bool:
    """Return whether a call of a function computes attention that hides later positions."""
    found = _attention(call)
    return found is not None and found.causal


def _attention(call: Call) -> _Attention | None:
    """Return whether a call computes the weights of square attention, and whether it is causal."""
    if call.function == _FUSED:
        query, key = call.tensor(0, "query"), call.tensor(1, "key")
        if (
            query is None
            or key is None
            or len(query.shape) < 3
            or query.shape[-2] != key.shape[-2]
            or key.shape[-2] < 2
        ):
            return None
        mask, flag = call.tensor(_MASK, "attn_mask"), call.argument(_CAUSAL, "is_causal")
        return _Attention(
            call, flag is True or (mask is not None and _effect(call, mask) == _CAUSAL_MASK), mask is not None
        )
    if "softmax" not in call.function or "log" in call.function:
        return None
    result = call.result
    if result is None or not _is_square(result):
        return None
    given = call.tensor(0, "input")
    masked = given is not None and given.smallest <= _HIDDEN
    return _Attention(call, masked and abs(result.largest - 1.0) < _NEAR, masked)


def _is_square(tensor: Tensor) -> bool:
    return len(tensor.shape) >= 3 and tensor.shape[-1] == tensor.shape[-2] > 1


def _wrong_effect(call: Call) -> str | None:
    """Return what a mask does that a call gets, where that is another thing than a causal one does; else None."""
    if call.function == _FUSED:
        masks = [call.tensor(_MASK, "attn_mask")]
    elif call.function in _MASKING:
        masks = [call.tensor(0, "input"), call.tensor(1, "mask")]
    else:
        return None
    effects = (_effect(call, mask) for mask in masks if mask is not None)
    return next((effect for effect in effects if effect is not None and effect != _CAUSAL_MASK), None)


def _effect(call: Call, mask: Tensor) -> str | None:
    """Return what a square mask does in each row, a key of ``_SAID`` or ``_CAUSAL_MASK``; None where it is another one.

    A mask is known by its order-sensitive statistic, which is that of the one or the other and of nothing else. In a
    mask of two values, 1 means a hidden place for functions that fill, and an open one for attention; elsewhere it
    may mean either, and only masks count that mean nothing else.
    """
    if len(mask.shape) < 2 or mask.shape[-1] != mask.shape[-2] or mask.shape[-1] < 3 or mask.size > _LARGEST_MASK:
        return None
    hidden, opened = _mask_sums(mask.shape)
    if mask.is_float and mask.smallest <= _HIDDEN:
        return _known(hidden, mask.order, mask.smallest)
    if not (mask.largest == 1.0 and mask.smallest == 0.0):
        return None
    if call.function in _FILLING:
        return _known(hidden, mask.order)
    if call.function == _FUSED:
        return None if mask.is_float else _known(opened, mask.order)
    either = _known(hidden, mask.order), _known(opened, mask.order)
    return next((effect for effect in either if effect in {_CAUSAL_MASK, _NEXT}), None)


def _known(sums: Mapping[str, float], order: float, scale: float = 1.0) -> str | None:
    return next((name for name, one in sums.items() if abs(order - scale * one) <= _NEAR * abs(scale)), None)


@lru_cache(maxsize=64)
def _mask_sums(shape: tuple[int, ...]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the order-sensitive statistics of masks of a shape by what they hide: of those in which 1 is a hidden
    place, and of those in which it is an open one."""
    import numpy as np  # not free, and few runs have masks

    from msprobe.core.tensors.projection import projection

    length = shape[-1]
    hidden = {
        _CAUSAL_MASK: 1.0 - np.tri(length),
        _NEXT: 1.0 - np.tri(length, k=1),
        _EARLIER: np.tri(length, k=-1),
        _SWAPPED: np.tri(length),
    }
    places = {name: np.broadcast_to(one, shape) for name, one in hidden.items()}
    sums = {name: projection(one) or 0.0 for name, one in places.items()}
    return sums, {name: projection(1.0 - one) or 0.0 for name, one in places.items()}


RULES = (
    Rule(
        "attention_sees_future",
        "attention",
        "Where attention is causal, no position sees a later one.",
        (CALLS,),
        "likely",
        "Look at the diagonal of the mask, and whether every layer gets it.",
        of_step=sees_future,
    ),
    Rule(
        "attention_over_other_axis",
        "attention",
        "The weights with which attention adds up values are normalised along the axis over which it adds.",
        (CALLS,),
        "likely",
        "Look at the dim of the softmax: it is that of the keys, usually -1.",
        of_step=over_other_axis,
    ),
)
