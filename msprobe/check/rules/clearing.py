"""Clearing of gradients: once between two steps of an optimizer, and never between a backward pass and its step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from msprobe.check.facts.dataflow import mark_of
from msprobe.check.facts.read_step import StepView
from msprobe.check.facts.run_facts import RunFacts, common_factor, updates_of
from msprobe.check.facts.step_facts import StepFacts, Tensor, TrainingCall, Update
from msprobe.check.findings import Finding
from msprobe.check.needs import BACKWARD, OPTIMIZERS, TRAINING_RECORDS
from msprobe.check.rule import Rule
from msprobe.check.rules.parameters import has_value
from msprobe.trace.values import mark

_STEP, _CLEARS, _BACKWARD = "optimizer_step", "zero_grad", "backward"
_ROUNDED = 1e-4
"""How far the factors may be apart by which a clipping makes gradients smaller."""


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
        name = next(name for name in update.parameters if name and any(map(has_value, facts.gradients.get(name, ()))))
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
    brought = any(has_value(one) for name in update.parameters if name for one in facts.gradients.get(name, ()))
    return clears and brought and not any(map(has_value, (update.gradients or {}).values()))


def _discards(view: StepView) -> Iterator[Finding]:
    """Yield a backward pass whose gradients are cleared before any optimizer has used them.

    Each optimizer has to get the gradients of one backward pass alone: programs that read them in between (for each
    loss or each sample, for a first move of the weights, for an attack on the data) put others in their place, move
    weights, or need gradients of the data.
    """
    facts = view.facts
    order = [call for call in facts.training if call.kind in {_STEP, _CLEARS, _BACKWARD}]
    lost = next(_cleared_pairs(order), None)
    if lost is None or not _is_last_alone(order) or not all(_of_one_pass(facts, one) for one in facts.updates):
        return
    first, second = lost
    if _wants_data_gradients(view) or not _runs_between(view, first, second) or _weights_move(view):
        return
    update = next((one for one in facts.updates if one.after >= second.after), None)
    if update is None or view.non_finite:  # a gradient scaler may have left a step out
        return
    reason = (
        f"gradients are cleared between two backward passes before {update.kind} steps: it gets those of the second "
        "pass alone, and those of the first one are lost"
    )
    yield Finding(
        "gradients_cleared_too_early", reason, "likely", facts.step, facts.rank, stack=update.stack, place=first.after
    )


def _cleared_pairs(order: list[TrainingCall]) -> Iterator[tuple[TrainingCall, TrainingCall]]:
    """Yield two backward passes with nothing but clearing between them."""
    passes = [number for number, call in enumerate(order) if call.kind == _BACKWARD]
    for one, other in pairwise(passes):
        between = order[one + 1 : other]
        if between and all(call.kind == _CLEARS for call in between):
            yield order[one], order[other]


def _is_last_alone(order: list[TrainingCall]) -> bool:
    """Return whether each step of an optimizer follows a backward pass, with no other step between them: so none uses
    what an earlier pass may have left for it."""
    return all(before.kind == _BACKWARD for before, call in pairwise(order) if call.kind == _STEP)


def _of_one_pass(facts: StepFacts, update: Update) -> bool:
    """Return whether an optimizer gets the gradients that one backward pass brought, all of them or all smaller by one
    factor, as a clipping makes them."""
    brought = {name: facts.gradients[name] for name in update.gradients or () if facts.gradients.get(name)}
    return any(_by_one_factor(update, brought, number) for number in range(max(map(len, brought.values()), default=0)))


def _by_one_factor(update: Update, brought: Mapping[str, list[Tensor]], number: int) -> bool:
    gets: Mapping[str, Tensor] = update.gradients or {}
    pairs = [(gets[name].norm, passes[number].norm) for name, passes in brought.items() if number < len(passes)]
    return common_factor(pairs, _ROUNDED) is not None


def _wants_data_gradients(view: StepView) -> bool:
    """Return whether the model gets data that need a gradient."""
    values = (one.used or one.left for one in view.facts.parameters.values())
    made = {mark_of(value) for value in values if value is not None}
    for call in view.calls:
        if call.phase == _BACKWARD:
            continue
        if call.is_module and any(
            leaf.raw.get("requires_grad") is True and own not in made
            for own, leaf in zip(call.given_marks, call.given, strict=True)
        ):
            return True
        # what is returned without a gradient, and given with one, is data all the same: a leaf
        returned = zip(call.returned_marks, call.returned, strict=True)
        made.update(own for own, leaf in returned if leaf.raw.get("requires_grad") is True)
    return False


def _runs_between(view: StepView, first: TrainingCall, second: TrainingCall) -> bool:
    """Return whether modules run between two backward passes, so that these are of two losses."""
    return any(
        call.is_module and call.phase != _BACKWARD and first.after <= call.place < second.after for call in view.calls
    )


def _weights_move(view: StepView) -> bool:
    """Return whether a parameter has two values before the first step of an optimizer."""
    first = min((update.after for update in view.facts.updates), default=0)
    seen: dict[str, int] = {}
    for call in view.calls:
        for leaf in call.parameters if call.is_module and call.phase != _BACKWARD and call.place < first else ():
            own = mark(leaf.raw)
            if seen.setdefault(f"{call.path}{leaf.suffix.partition('.parameters')[2]}", own) != own:
                return True
    return False


RULES = (
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
        of_step=_discards,
        of_run=cleared_too_early,
    ),
)
