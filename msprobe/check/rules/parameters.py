"""Parameters: each that needs a gradient gets one, is held by an optimizer, and moves when that steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msprobe.check.facts.roles import EXPERT
from msprobe.check.facts.run_facts import ParameterHistory, RunFacts, all_names, gradient_of, histories, updates_of
from msprobe.check.facts.step_facts import HALF_PRECISION, StepFacts, Tensor, Update
from msprobe.check.findings import Certainty, Finding
from msprobe.check.needs import BACKWARD, OPTIMIZERS, PARAMETERS, STEPS
from msprobe.check.rule import Rule
from msprobe.core.tensors.dtypes import find_dtype

_SHOWN = 4
_MOST_MODULES = 8
_SMALLEST_MOVE = 4.0
_SMALLEST_SIZE = 1e-8
_MOST_ROUNDINGS = 64.0
"""Of how many roundings the gradient of a sum whose terms cancel may be."""
_CLEARS = "zero_grad"
_ENOUGH_STEPS = 3
_NORMALISING = re.compile(r"ada|rms|lion|rprop|lamb|novograd|shampoo|muon|sign", re.IGNORECASE)


def per_module(rule: str, found: Sequence[tuple[ParameterHistory, Finding]]) -> Iterator[Finding]:
    """Yield one finding for each module that holds parameters of which a rule says the same."""
    modules: dict[str, list[tuple[ParameterHistory, Finding]]] = {}
    for history, finding in found:
        modules.setdefault(history.name.rpartition(".")[0], []).append((history, finding))
    for number, (module, group) in enumerate(modules.items()):
        if number == _MOST_MODULES:
            return
        first = group[0][1]
        others = [history.name for history, _ in group[1:]]
        rest = len(modules) - _MOST_MODULES if number == _MOST_MODULES - 1 else 0
        reason = first.reason + _also(others) + (f"; so are parameters of {rest} more modules" if rest > 0 else "")
        yield Finding(**{**vars(first), "rule": rule, "reason": reason, "module": module or None})


def _also(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f" (also {', '.join(names[:_SHOWN])}{more})"


class _Held:
    """The names that optimizers hold on one rank, and the optimizers that hold each."""

    def __init__(self, steps: list[StepFacts]) -> None:
        shared = [names for facts in steps for names in facts.shared]
        self.updates = updates_of(steps)
        self.names = all_names((name for _, update in self.updates for name in update.parameters if name), shared)
        self.knows_names = bool(self.names)
        self.nameless = max((update.parameters.count(None) for _, update in self.updates), default=0)
        self.has_empty_group = any(0 in update.group_sizes for _, update in self.updates)
        self.optimizers = {(update.optimizer, update.kind) for _, update in self.updates}


def _calls_backward(steps: Iterable[StepFacts]) -> list[StepFacts]:
    return [facts for facts in steps if facts.has_backward]


def without_gradient(run: RunFacts) -> Iterator[Finding]:
    """Yield the parameters of optimizers that are used, reach the loss, and never get a gradient."""
    for rank, steps in run.by_rank():
        held, backward = _Held(steps), _calls_backward(steps)
        if not backward or not held.knows_names:
            continue
        gets = {name for facts in backward for name in facts.gradients}
        gets |= {name for _, update in held.updates for name in update.gradients or ()}
        if not gets:
            continue
        found = []
        for history in histories(steps).values():
            last = history.last
            if history.name in gets or not history.requires_grad or history.name not in held.names:
                continue
            trained = [(facts, state) for facts, state in history.states if facts.has_backward]
            if not trained or not all(_lacks(facts, history.name) for facts, _ in trained):
                continue
            facts = trained[0][0]
            reaches = all(state.live for _, state in trained)
            certainty: Certainty = "likely" if reaches and not EXPERT.search(history.name) else "possible"
            what = (
                "its result is used for what the loss is made of, so the way back is cut (detach, no_grad, .data, item)"
                if reaches
                else "no recorded result of it reaches the loss: it may be unused on purpose"
            )
            reason = (
                f"{history.name} needs a gradient and an optimizer holds it, but no backward pass brings it one; {what}"
            )
            call = next((call for call in facts.modules if call.path == last.module), None)
            place = call.place if call is not None else 0
            found.append(
                (history, Finding("", reason, certainty, facts.step, rank, parameter=history.name,
                                  call=call.name if call is not None else None, place=place))
            )  # fmt: skip
        yield from per_module("parameter_without_gradient", found)


def _lacks(facts: StepFacts, name: str) -> bool:
    """Return whether the optimizers of a step, where it has any, say that a parameter has no gradient."""
    holding = [update for update in facts.updates if name in update.parameters]
    return all(name in update.no_gradient for update in holding if update.gradients is not None)


def without_optimizer(run: RunFacts) -> Iterator[Finding]:
    """Yield the parameters that get gradients and that no optimizer holds, nor anything else moves."""
    for rank, steps in run.by_rank():
        held = _Held(steps)
        if not held.updates or not (held.knows_names or held.nameless):
            continue
        first_update = held.updates[0]
        found = []
        for history in histories(steps).values():
            if history.name in held.names or not history.requires_grad or history.moves:
                continue
            seen = [facts for facts in steps if any(map(has_value, gradient_of(facts, history.name)))]
            if not seen or len(history.values()) < 2:
                continue
            other = (
                f"the optimizer holds {held.nameless} tensors that are no parameters of the model (it was made before "
                "the model was wrapped, moved or changed)"
                if held.nameless
                else "a group of its parameters is empty, as that of an iterator that was used up before"
                if held.has_empty_group
                else "it was not given to one, or was added to the model afterwards (where it is not meant to be "
                "trained, set its requires_grad to False)"
            )
            reason = f"{history.name} needs a gradient and gets one, but no optimizer that steps holds it: {other}"
            apart = len(held.optimizers) > 1 or history.name.partition(".")[0].isdigit()
            siblings = history.name.rpartition(".")[0]
            beside = any(name.rpartition(".")[0] == siblings for name in held.names)
            sure = bool(held.nameless) or held.has_empty_group or beside
            certainty: Certainty = "certain" if sure else "possible" if apart else "likely"
            found.append(
                (history, Finding("", reason, certainty, seen[0].step, rank, parameter=history.name,
                                  stack=first_update[1].stack))
            )  # fmt: skip
        yield from per_module("parameter_without_optimizer", found) if held.names else _none_held(found)


def _none_held(found: Sequence[tuple[ParameterHistory, Finding]]) -> Iterator[Finding]:
    """Yield one finding for all parameters, where optimizers hold none of them."""
    for _, first in found[:1]:
        reason = f"{first.reason}; it holds none of the {len(found)} parameters that get gradients"
        module = (first.parameter or "").rpartition(".")[0] or None
        yield Finding(**{**vars(first), "rule": "parameter_without_optimizer", "reason": reason, "module": module})


def always_zero(run: RunFacts) -> Iterator[Finding]:
    """Yield the parameters that an optimizer steps and whose gradient is exactly 0 in all of several steps."""
    for rank, steps in run.by_rank():
        held, trained = _Held(steps), [facts for facts in steps if facts.has_backward and facts.updates]
        found = []
        for history in histories(trained).values():
            brought = [gradient_of(facts, history.name) for facts in trained]
            counts = history.name in held.names and not EXPERT.search(history.name)
            if not counts or len(trained) < _ENOUGH_STEPS or not all(map(_is_zero, brought)):
                continue
            if len(brought[0][0].shape) < 2 and _has_live_sibling(history.name, trained):
                continue  # a bias may cancel, as in the difference of two means
            reason = (
                f"{history.name} gets a gradient of exactly 0 in all {len(trained)} steps: what it computes is "
                "multiplied by 0 on its way to the loss, cut off by an activation or a mask, or not looked up"
            )
            found.append((history, Finding("", reason, "possible", trained[0].step, rank, parameter=history.name)))
        yield from per_module("gradient_is_zero", found)


def _has_live_sibling(name: str, steps: Sequence[StepFacts]) -> bool:
    """Return whether another parameter of the same module gets a gradient that is not 0."""
    module = name.rpartition(".")[0]
    return any(
        any(map(has_value, gradients))
        for facts in steps
        for other, gradients in facts.gradients.items()
        if other != name and other.rpartition(".")[0] == module
    )


def _is_zero(gradients: Sequence[Tensor]) -> bool:
    return bool(gradients) and all(one.is_finite and one.norm == 0.0 for one in gradients)


def has_value(gradient: Tensor) -> bool:
    return gradient.is_finite and gradient.norm > 0.0


def not_updated(run: RunFacts) -> Iterator[Finding]:
    """Yield the parameters that a step of an optimizer leaves as they are, although it gets a gradient for them."""
    for rank, steps in run.by_rank():
        updates = updates_of(steps)
        if not updates:
            yield from _cleared_unused(rank, steps)
            continue
        parameters = histories(steps)
        found = []
        for history in parameters.values():
            if len(history.moments) < 2 or history.moves:
                continue
            used = [
                (facts, update)
                for facts, update in updates
                if _should_move(facts, update, history.name) and _has_pair(history, facts)
            ]
            if not used:
                continue
            facts, update = used[0]
            gradient = _brought(facts, update, history.name)
            assert gradient is not None
            value = history.values()[0][1]
            alone = not any(parameters[name].moves for name in update.parameters if name and name in parameters)
            lost = _is_lost_in_rounding(value, gradient, update, history.name)
            if lost and _cancels(gradient, update, history.name):
                continue
            plain = not lost or (alone and _never_moves(updates, update, value))
            certainty: Certainty = "possible" if not plain else "likely" if lost or len(used) < 2 else "certain"
            why = (
                "the step finds no gradients although the backward pass brought them: they were cleared or taken away, "
                "or the step was captured without them"
                if update.gradients is None
                else f"each update is smaller than the rounding of {value.dtype}"
                if lost
                else f"no parameter of this {update.kind} moves"
                if alone
                else "other parameters of the same optimizer move"
            )
            reason = (
                f"{history.name} stays as it is through {len(used)} step(s) of {update.kind}, with learning rate "
                f"{update.rate_of.get(history.name, update.rates[0]):g} and a gradient of norm {gradient.norm:.3g}: "
                f"{why}"
            )
            found.append((
                history,
                Finding("", reason, certainty, facts.step, rank, parameter=history.name, stack=update.stack),
            ))
        yield from per_module("parameter_not_updated", found)


def _never_moves(updates: list[tuple[StepFacts, Update]], update: Update, value: Tensor) -> bool:
    """Return whether weights of half precision stay as they are at a rate that does not grow, as in a warm-up."""
    rates = [one.rates for _, one in updates if one.optimizer == update.optimizer]
    return value.dtype in HALF_PRECISION and len(rates) >= _ENOUGH_STEPS and len(set(rates)) == 1


def _should_move(facts: StepFacts, update: Update, name: str) -> bool:
    gradient = _brought(facts, update, name)
    return gradient is not None and has_value(gradient) and update.rate_of.get(name, 0.0) > 0.0


def _brought(facts: StepFacts, update: Update, name: str) -> Tensor | None:
    """Return the gradient that a step of an optimizer gets for a parameter; where the step finds none in any of its
    parameters, the one that a backward pass before it brought."""
    if update.gradients is not None:
        return update.gradients.get(name)
    before = [call.kind for call in facts.training if call.kind in {"backward", _CLEARS} and call.after <= update.after]
    brought = facts.gradients.get(name) if before[-1:] == ["backward"] else None
    return brought[-1] if brought else None


def _has_pair(history: ParameterHistory, facts: StepFacts) -> bool:
    """Return whether a value from before the optimizer steps of a step and one from after them are recorded."""
    return min(history.moments) <= (facts.step, False) and max(history.moments) >= (facts.step, True)


def _is_lost_in_rounding(value: Tensor, gradient: Tensor, update: Update, name: str) -> bool:
    """Return whether an update may be too small to change any element.

    Optimizers that divide a gradient by its size move each element by about the learning rate, others by the learning
    rate times the gradient.
    """
    each = gradient.root_mean_square
    normalised = bool(_NORMALISING.search(update.kind))
    rate = update.rate_of.get(name, 0.0) * (each / (each + _SMALLEST_SIZE) if normalised else each)
    dtype = find_dtype(value.dtype)
    spacing = 0.0 if dtype is None else dtype.unit_roundoff
    return bool(rate < _SMALLEST_MOVE * spacing * value.root_mean_square)


def _cancels(gradient: Tensor, update: Update, name: str) -> bool:
    """Return whether a gradient is nothing but rounding beside the others of its module, as that of a bias before a
    norm."""
    module, dtype = name.rpartition(".")[0], find_dtype(gradient.dtype)
    others = [
        one.root_mean_square
        for other, one in (update.gradients or {}).items()
        if other != name and other.rpartition(".")[0] == module
    ]
    rounding = 0.0 if dtype is None else _MOST_ROUNDINGS * dtype.unit_roundoff
    return gradient.root_mean_square <= rounding * max(others, default=0.0)


def _cleared_unused(rank: int, steps: list[StepFacts]) -> Iterator[Finding]:
    """Yield a finding where gradients are computed and cleared in several steps and nothing uses them."""
    trained = [facts for facts in steps if facts.has_backward and _clears(facts) and not facts.collectives]
    if len(trained) < 2:
        return
    parameters = [history for history in histories(trained).values() if history.requires_grad]
    with_gradients = [one for one in parameters if any(map(has_value, trained[0].gradients.get(one.name, ())))]
    if not with_gradients or any(one.moves for one in parameters):
        return
    first = with_gradients[0]
    reason = (
        f"gradients are computed and cleared in {len(trained)} steps, and no parameter moves, such as {first.name}: no "
        "step of an optimizer is seen (it is not called, or a compiled one does nothing)"
    )
    module = first.name.rpartition(".")[0] or None
    yield Finding("parameter_not_updated", reason, "likely", trained[0].step, rank, module, first.name)


def _clears(facts: StepFacts) -> bool:
    """Return whether a step clears gradients: by a call, or so that none is left at its end."""
    left = [state for state in facts.parameters.values() if state.left is not None and state.requires_grad]
    by_call = any(call.kind == _CLEARS for call in facts.training)
    return by_call or (bool(left) and not any(state.keeps_gradient for state in left))


RULES = (
    Rule(
        "parameter_without_gradient",
        "parameters",
        "A parameter that an optimizer holds, that a function reads and whose result reaches the loss gets a gradient.",
        (BACKWARD, OPTIMIZERS, PARAMETERS),
        "likely",
        "Look for detach(), no_grad, .data, .item() or numpy() between the module and the loss.",
        of_run=without_gradient,
    ),
    Rule(
        "parameter_without_optimizer",
        "parameters",
        "A parameter that gets gradients is held by an optimizer that steps, or something else moves it.",
        (BACKWARD, OPTIMIZERS, PARAMETERS),
        "certain",
        "Make the optimizer after the model is complete, moved and wrapped; set requires_grad to False for what is "
        "frozen on purpose.",
        of_run=without_optimizer,
    ),
    Rule(
        "gradient_is_zero",
        "parameters",
        "The gradient of a parameter that is trained is not exactly 0 in every step.",
        (BACKWARD, OPTIMIZERS, PARAMETERS, STEPS),
        "possible",
        "Look for a factor of 0, a mask or a dead activation between the module and the loss.",
        of_run=always_zero,
    ),
    Rule(
        "parameter_not_updated",
        "parameters",
        "A parameter moves when an optimizer steps that holds it, with a learning rate above 0 and a gradient that is "
        "not 0.",
        (BACKWARD, PARAMETERS),
        "certain",
        "Look at the optimizer: a compiled step, a wrapper that does not step, updates below the rounding of the "
        "dtype.",
        of_run=not_updated,
    ),
)
