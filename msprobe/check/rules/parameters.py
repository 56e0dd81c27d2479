"""Parameters: each that needs a gradient gets one, is held by an optimizer, and moves when that steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msprobe.check.facts.roles import EXPERT
from msprobe.check.facts.run_facts import ParameterHistory, RunFacts, all_names, gradient_of, histories, updates_of
from msprobe.check.facts.step_facts import HALF_PRECISION, StepFacts, Tensor, Update
from msprobe.check.findings import Certainty, Finding
from msprobe.check.needs import BACKWARD, OPTIMIZERS, PARAMETERS, TRAINING_RECORDS
from msprobe.check.rule import Rule
from msprobe.core.tensors.dtypes import find_dtype

_SHOWN = 4
_MOST_MODULES = 8
_SMALLEST_MOVE = 4.0
_SMALLEST_SIZE = 1e-8
_STEP, _CLEARS = "optimizer_step", "zero_grad"
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
        self.nameless = sum(name is None for _, update in self.updates for name in update.parameters)
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
            seen = [facts for facts in steps if any(map(_has_value, gradient_of(facts, history.name)))]
            if not seen or len(history.values()) < 2:
                continue
            other = (
                f"the optimizer holds {held.nameless} tensors that are no parameters of the model (it was made before "
                "the model was wrapped, moved or changed)"
                if held.nameless
                else "it was not given to one, or was added to the model afterwards"
            )
            reason = f"{history.name} needs a gradient and gets one, but no optimizer that steps holds it: {other}"
            apart = len(held.optimizers) > 1 or history.name.partition(".")[0].isdigit()
            siblings = history.name.rpartition(".")[0]
            beside = any(name.rpartition(".")[0] == siblings for name in held.names)
            certainty: Certainty = "possible" if apart and not beside and not held.nameless else "certain"
            found.append(
                (history, Finding("", reason, certainty, seen[0].step, rank, parameter=history.name,
                                  stack=first_update[1].stack))
            )  # fmt: skip
        yield from per_module("parameter_without_optimizer", found)


def _has_value(gradient: Tensor) -> bool:
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
    return gradient is not None and _has_value(gradient) and update.rate_of.get(name, 0.0) > 0.0


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


def _cleared_unused(rank: int, steps: list[StepFacts]) -> Iterator[Finding]:
    """Yield a finding where gradients are computed and cleared in several steps and nothing uses them."""
    trained = [facts for facts in steps if facts.has_backward and _clears(facts) and not facts.collectives]
    if len(trained) < 2:
        return
    parameters = [history for history in histories(trained).values() if history.requires_grad]
    with_gradients = [one for one in parameters if any(map(_has_value, trained[0].gradients.get(one.name, ())))]
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


def not_cleared(run: RunFacts) -> Iterator[Finding]:
    """Yield the steps of optimizers that get gradients which an earlier step has used already."""
    for rank, steps in run.by_rank():
        for facts, update in updates_of(steps):
            if update.kept_count:
                name = update.kept[0] if update.kept else None
                reason = (
                    f"{update.kind} gets gradients of {update.kept_count} parameters that still hold those of its "
                    f"previous step (such as {name}): the backward pass was added to them; nothing clears them between "
                    "two steps (zero_grad is missing, or clears those of another model or optimizer)"
                )
                module = name.rpartition(".")[0] if name else None
                yield Finding(
                    "gradients_not_cleared",
                    reason,
                    "certain",
                    facts.step,
                    rank,
                    module or None,
                    name,
                    stack=update.stack,
                )
                break


def cleared_too_early(run: RunFacts) -> Iterator[Finding]:
    """Yield the steps of optimizers before which gradients are cleared after the last backward pass, so that they get
    none, in every recorded step."""
    for rank, steps in run.by_rank():
        trained = [facts for facts in steps if facts.updates and facts.has_backward]
        emptied = [(facts, update) for facts in trained for update in facts.updates if _gets_nothing(facts, update)]
        if not emptied or len(emptied) < sum(len(facts.updates) for facts in trained):
            continue
        facts, update = emptied[0]
        name = next(name for name in update.parameters if name and any(map(_has_value, facts.gradients.get(name, ()))))
        reason = (
            f"{update.kind} gets no gradient in {len(emptied)} step(s), although backward passes bring some (such as "
            f"to {name}): they are cleared between the backward pass and the step"
        )
        yield Finding(
            "gradients_cleared_too_early", reason, "certain", facts.step, rank, name.rpartition(".")[0] or None, name,
            stack=update.stack,
        )  # fmt: skip


def _gets_nothing(facts: StepFacts, update: Update) -> bool:
    """Return whether a step of an optimizer gets no gradients, although backward passes bring some to its parameters
    and a call clears them before it."""
    before = [call.kind for call in facts.training if call.after <= update.after]
    before = before[: len(before) - before[::-1].index(_STEP)] if _STEP in before else before
    clears = _CLEARS in before and "backward" not in before[len(before) - before[::-1].index(_CLEARS) :]
    brought = any(_has_value(one) for name in update.parameters if name for one in facts.gradients.get(name, ()))
    return clears and brought and not any(map(_has_value, (update.gradients or {}).values()))


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
    Rule(
        "gradients_not_cleared",
        "parameters",
        "No step of an optimizer gets gradients that an earlier step has used already.",
        (BACKWARD, OPTIMIZERS, TRAINING_RECORDS),
        "certain",
        "Call optimizer.zero_grad() once between two steps.",
        of_run=not_cleared,
    ),
    Rule(
        "gradients_cleared_too_early",
        "parameters",
        "The gradients that a backward pass brings are there when the optimizer steps.",
        (BACKWARD, OPTIMIZERS, TRAINING_RECORDS),
        "certain",
        "Call optimizer.zero_grad() before the backward pass, or after the step.",
        of_run=cleared_too_early,
    ),
)
