"""The schedule: learning rates follow their scheduler, clipping acts sometimes, steps are as many as planned."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, groupby, takewhile

from msprobe.check.facts.run_facts import RunFacts
from msprobe.check.facts.step_facts import StepFacts, TrainingCall, Update
from msprobe.check.findings import Certainty, Finding
from msprobe.check.needs import OPTIMIZERS, STEPS, TRAINING_RECORDS
from msprobe.check.rule import Rule
from msprobe.trace.leaves import as_float

_NEAR = 1e-9
_MOVING = frozenset({
    "ExponentialLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "OneCycleLR",
    "PolynomialLR",
    "CyclicLR",
})
"""Schedulers whose rate moves at every step, but for single ones."""
_PERIODIC = frozenset({"CyclicLR", "CosineAnnealingWarmRestarts", "CosineAnnealingLR"})
"""Schedulers whose rate may come back from 0."""
_FEWEST, _FAR_BELOW = 3, 100.0
_STEP = "optimizer_step"
_OF_AN_EPOCH = 1e-6
"""Share of the epochs of a training that is rounding."""


def _ordered(facts: StepFacts) -> list[tuple[str, TrainingCall | int]]:
    """Return steps of schedulers and optimizers in their order; of an optimizer the number of the step."""
    found: list[tuple[str, TrainingCall | int]] = []
    count = 0
    for call in facts.training:
        if call.kind == "scheduler_step":
            found.append(("scheduler", call))
        elif call.kind == "optimizer_step":
            found.append(("optimizer", count))
            count += 1
    return found


def rate_and_scheduler(run: RunFacts) -> Iterator[Finding]:
    """Yield optimizers whose rate stays as it is or is overwritten while a scheduler moves its own."""
    for _, steps in run.by_rank():
        moves = [(facts, call) for facts in steps for call in facts.training if call.kind == "scheduler_step"]
        rates = [update.rates for facts in steps for update in facts.updates]
        after = [numbers for _, call in moves if (numbers := _numbers(call.facts.get("rates_after")))]
        if len(moves) < 2 or len(rates) < 2 or not after:
            continue
        facts, call = moves[0]
        moving = len({tuple(numbers) for numbers in after}) > 1 or any(
            _apart(_numbers(one.facts.get("rates_before")), _numbers(one.facts.get("rates_after"))) for _, one in moves
        )
        kind = str(call.facts.get("class"))
        if moving and rates[0] and all(not _apart(rates[0], used) for used in rates) and _crosses_updates(steps):
            known = any(one.facts.get("optimizer") is not None for _, one in moves)
            why = (
                "something sets it back before each step"
                if known
                else "the scheduler belongs to another optimizer than the one that steps"
            )
            reason = (
                f"{kind} steps {len(moves)} times and moves its learning rate from {after[0][0]:g} to "
                f"{after[-1][0]:g}, and every step of the optimizer uses {rates[0][0]:g}: {why}"
            )
            yield Finding("rate_does_not_follow", reason, "certain", facts.step, facts.rank, stack=call.stack)
        elif not moving and min(len(moves), len(rates)) >= _FEWEST and not any(map(any, [*rates, *after])):
            reason = (
                f"{kind} steps {len(moves)} times and the learning rate is 0 all along: nothing is trained (a factor "
                "that is rounded to 0, or a schedule that has ended)"
            )
            yield Finding("rate_does_not_follow", reason, "likely", facts.step, facts.rank, stack=call.stack)
        elif not moving and len(moves) >= _FEWEST and kind in _MOVING and any(any(numbers) for numbers in after):
            reason = f"{kind} steps {len(moves)} times and the learning rate stays at {after[0][0]:g}"
            yield Finding("rate_does_not_follow", reason, "possible", facts.step, facts.rank, stack=call.stack)


def ended_schedule(run: RunFacts) -> Iterator[Finding]:
    """Yield optimizers whose learning rates fall to 0 and stay there while they go on stepping."""
    for rank, steps in run.by_rank():
        moves = [call.facts for facts in steps for call in facts.training if call.kind == "scheduler_step"]
        scheduled = {one.get("optimizer") for one in moves if one.get("class") not in _PERIODIC}
        by_optimizer: dict[int, list[tuple[StepFacts, Update]]] = {}
        for facts in steps:
            for update in facts.updates if scheduled else ():
                by_optimizer.setdefault(update.optimizer, []).append((facts, update))
        for made in by_optimizer.values():
            idle = len(list(takewhile(lambda pair: not any(pair[1].rates), reversed(made))))
            if not 0 < idle < len(made) or not {made[-1][1].optimizer, None} & scheduled:
                continue
            facts, update = made[-idle]
            reason = (
                f"the learning rate of {update.kind} is {max(made[-idle - 1][1].rates):g} and then 0 for the last "
                f"{idle} of its {len(made)} steps: the schedule ends before the training (its steps are counted or "
                "divided twice, or it steps more often than the optimizer)"
            )
            certainty: Certainty = "likely" if idle > 1 else "possible"
            yield Finding("rate_does_not_follow", reason, certainty, facts.step, rank, stack=update.stack)


def _crosses_updates(steps: list[StepFacts]) -> bool:
    """Return whether an optimizer steps after a scheduler has moved."""
    order = [kind for facts in steps for kind, _ in _ordered(facts)]
    return "scheduler" in order and "optimizer" in order[order.index("scheduler") :]


def _numbers(value: object) -> list[float]:
    if not isinstance(value, list):
        return []
    return [as_float(number) for number in value if isinstance(number, (int, float))]


def _apart(one: list[float] | tuple[float, ...], other: list[float] | tuple[float, ...]) -> bool:
    return len(one) == len(other) and any(
        not math.isclose(left, right, rel_tol=1e-7, abs_tol=_NEAR) for left, right in zip(one, other, strict=True)
    )


def _count(facts: StepFacts, kind: str) -> int:
    return sum(call.kind == kind for call in facts.training)


def _for_each_pass(facts: StepFacts) -> bool:
    """Return whether a scheduler steps between two backward passes that no step of an optimizer separates."""
    kinds = [call.kind for call in facts.training if call.kind in {"backward", "scheduler_step", _STEP}]
    runs = [kind for kind, _ in groupby(kinds)]
    return _STEP in runs and any(
        runs[number : number + 3] == ["backward", "scheduler_step", "backward"] for number in range(len(runs))
    )


def scheduler_first(run: RunFacts) -> Iterator[Finding]:
    """Yield schedulers whose first step comes before the first one of their optimizer, in every recorded step, or that
    step for each micro batch."""
    for rank, steps in run.by_rank():
        if all(map(_for_each_pass, steps)):
            call = next(call for call in steps[0].training if call.kind == "scheduler_step")
            scheduled, made = (sum(_count(facts, kind) for facts in steps) for kind in ("scheduler_step", _STEP))
            reason = (
                f"{call.facts.get('class')} steps {scheduled} times for {made} steps of the optimizer, between the "
                "backward passes of one step: it steps for each micro batch, so that the schedule ends too early"
            )
            yield Finding("scheduler_before_optimizer", reason, "certain", steps[0].step, rank, stack=call.stack)
            continue
        first = steps[0]
        order = _ordered(first)
        early = next((call for kind, call in order if kind == "scheduler" and isinstance(call, TrainingCall)), None)
        if early is None or early.facts.get("optimizer_called") is True or early.facts.get("steps") not in {0, 1}:
            continue
        begun = [[kind for kind, _ in _ordered(facts)] for facts in steps]
        if not all(kinds[:1] == ["scheduler"] and "optimizer" in kinds for kinds in begun):
            continue
        counts = [(kinds.count("scheduler"), kinds.count("optimizer")) for kinds in begun]
        scheduled, made = (sum(count[side] for count in counts) for side in (0, 1))
        one_scheduler = len({call.facts.get("class") for facts in steps for call in facts.training
                             if call.kind == "scheduler_step"}) == 1  # fmt: skip
        reason = (
            f"{early.facts.get('class')} steps {scheduled} times for {made} steps of the optimizer, and before it: it "
            "steps for each micro batch, or in two places, so that the schedule ends too early"
            if one_scheduler and all(many > few > 0 for many, few in counts)
            else f"{early.facts.get('class')} steps before the optimizer does: the first value of the schedule is "
            "never used, and each later one a step too early"
        )
        yield Finding("scheduler_before_optimizer", reason, "certain", first.step, rank, stack=early.stack)


def clipping(run: RunFacts) -> Iterator[Finding]:
    """Yield clippings that act in every step, or whose limit is far above every norm."""
    for rank, steps in run.by_rank():
        clips: dict[tuple[str, ...], list[tuple[StepFacts, float, float, TrainingCall]]] = {}
        for facts, call in ((one, call) for one in steps for call in one.training if call.kind == "clip_grad"):
            limit, norm = call.facts.get("limit"), call.facts.get("norm")
            if isinstance(limit, float) and isinstance(norm, (int, float)):
                clips.setdefault(call.stack[-1:] or ("",), []).append((facts, limit, as_float(norm), call))
        for found in clips.values():
            facts, limit, norm, call = found[0]
            name, why = call.facts.get("function"), None
            if len(found) > 1 and all(_comes_early(*one) for one in found):
                why = (
                    f"{name} finds no gradients in all {len(found)} calls (norm 0, limit {limit:g}): it runs before "
                    "the backward pass that brings them"
                )
            elif len(found) > 1 and all(_divided_later(*one) for one in found):
                why = (
                    f"{name} acts in all {len(found)} steps (first norm {norm:.3g}, limit {limit:g}), and optimizers "
                    "get gradients of less than a hundredth of the limit: they are divided after the clipping, as "
                    "where they are unscaled only then"
                )
            if why is None:
                yield from _clipped(rank, found)
            else:
                yield Finding("clipping_without_measure", why, "likely", facts.step, rank, stack=call.stack)


def _comes_early(facts: StepFacts, limit: float, norm: float, call: TrainingCall) -> bool:
    """Return whether a clipping finds nothing, and a backward pass lies between it and the step of an optimizer."""
    kinds = [one.kind for one in facts.training[facts.training.index(call) :]]
    order = [kind for kind in kinds if kind in {"backward", "optimizer_step"}]
    return norm == 0.0 and order[:2] == ["backward", "optimizer_step"] and any(map(_norm_of, facts.updates))


def _divided_later(facts: StepFacts, limit: float, norm: float, call: TrainingCall) -> bool:
    """Return whether a clipping acts, and the optimizers that step after it get far less than it leaves."""
    left = math.hypot(*(_norm_of(one) for one in facts.updates if one.after >= call.after))
    acts = math.isfinite(norm) and norm > limit > 0.0
    return acts and 0.0 < left < limit / _FAR_BELOW and call.facts.get("function") == "clip_grad_norm_"


def _norm_of(update: Update) -> float:
    """Return the norm of the gradients that a step of an optimizer gets; 0 where it gets none."""
    return math.hypot(*(gradient.norm for gradient in (update.gradients or {}).values()))


def _clipped(rank: int, found: list[tuple[StepFacts, float, float, TrainingCall]]) -> Iterator[Finding]:
    facts, limit, norm, call = found[0]
    finite = [(bound, value) for _, bound, value, _ in found if math.isfinite(value)]
    if limit <= 0.0 or not math.isfinite(limit):
        if limit <= 0.0 and norm > 0.0:
            reason = f"{call.facts.get('function')} clips to {limit:g}: no gradient is left of a norm of {norm:.3g}"
            yield Finding("clipping_without_measure", reason, "certain", facts.step, rank, stack=call.stack)
        return
    if len(finite) < _FEWEST:
        return
    if all(value > 100.0 * bound for bound, value in finite):
        what = f"acts in all {len(finite)} steps, on norms more than 100 times its limit ({limit:g}; first {norm:.3g})"
    elif all(value < 1e-3 * bound for bound, value in finite):
        what = f"never acts: all {len(finite)} norms are below 1/1000 of its limit ({limit:g}; first {norm:.3g})"
    else:
        return
    reason = f"{call.facts.get('function')} {what}"
    yield Finding("clipping_without_measure", reason, "possible", facts.step, rank, stack=call.stack)


def fewer_steps(run: RunFacts) -> Iterator[Finding]:
    """Yield runs that end before the steps that a scheduler was planned for."""
    for rank, steps in run.by_rank():
        calls = [call for facts in steps for call in facts.training if call.kind == "scheduler_step"]
        last = steps[-1]
        for call in calls[-1:]:
            planned, done = call.facts.get("planned_steps"), call.facts.get("steps")
            if isinstance(planned, int) and isinstance(done, int) and last.ended == "exit" and done < planned - 1:
                reason = (
                    f"the program ends after {done} steps of {call.facts.get('class')}, which was made for {planned}"
                )
                yield Finding("fewer_steps_than_planned", reason, "possible", last.step, rank, stack=call.stack)
        yield from _in_the_middle(rank, last)


def _in_the_middle(rank: int | None, last: StepFacts) -> Iterator[Finding]:
    """Yield a training that ends before its last epoch is over, though nobody has stopped it."""
    for call in last.training:
        values = [call.facts.get(name) for name in ("steps", "planned_steps", "epochs", "planned_epochs")]
        numbers = [as_float(value) for value in values if isinstance(value, (int, float))]
        if call.kind != "progress" or len(numbers) < len(values):
            continue
        steps, planned, epochs, wanted = numbers
        over = steps >= planned or (call.facts.get("ended") is True and call.facts.get("stopped") is False)
        if over and epochs < wanted * (1 - _OF_AN_EPOCH):
            reason = (
                f"the training ends early: it makes {steps:g} steps, planned are {planned:g}, and uses the last "
                f"gradients at epoch {epochs:.4g} of {wanted:g}; steps are counted wrongly"
            )
            yield Finding("fewer_steps_than_planned", reason, "certain", last.step, rank, stack=call.stack)


RULES = (
    Rule(
        "rate_does_not_follow",
        "schedule",
        "The learning rate that an optimizer uses moves when its scheduler moves it.",
        (OPTIMIZERS, TRAINING_RECORDS, STEPS),
        "certain",
        "Give the scheduler the optimizer that steps, and set learning rates in one place.",
        of_run=lambda run: chain(rate_and_scheduler(run), ended_schedule(run)),
    ),
    Rule(
        "scheduler_before_optimizer",
        "schedule",
        "The optimizer steps before its scheduler does.",
        (OPTIMIZERS, TRAINING_RECORDS),
        "certain",
        "Call scheduler.step() after optimizer.step().",
        of_run=scheduler_first,
    ),
    Rule(
        "clipping_without_measure",
        "schedule",
        "Clipping of gradients leaves something, and its limit is of the order of their norm.",
        (TRAINING_RECORDS,),
        "certain",
        "Look at the limit, whether gradients are there and unscaled before they are clipped, and whose they are.",
        of_run=clipping,
    ),
    Rule(
        "fewer_steps_than_planned",
        "schedule",
        "A training makes as many steps as its schedule was made for.",
        (TRAINING_RECORDS,),
        "possible",
        "Compare the number of steps with the length of the data and the gradient accumulation.",
        of_run=fewer_steps,
    ),
)
