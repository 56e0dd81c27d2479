"""Stepping: optimizers of ranks that train one model step together, at the same rates, and clip by one norm."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

from msprobe.check.facts.roles import Roles
from msprobe.check.facts.run_facts import RunFacts, common_factor
from msprobe.check.facts.step_facts import StepFacts, Update
from msprobe.check.findings import Finding
from msprobe.check.needs import BACKWARD, OPTIMIZERS, PARAMETERS, RANKS, TRAINING_RECORDS
from msprobe.check.rule import Rule

_SAME_RATE = 1e-7
_SAME_FACTOR = 1e-3
_FEWEST_SHARDS = 2


def _pairs(run: RunFacts) -> Iterator[tuple[StepFacts, StepFacts]]:
    """Yield the steps of two ranks that train one model without stages: each holds parameters of the other one."""
    roles = Roles(run)
    if roles.has_stages:
        return
    for one, other in combinations(run.ranks, 2):
        shared = (name for name in roles.parameters[one] if name in roles.parameters[other])
        if any(_is_common(roles, name, one, other) for name in shared):
            steps = [step for step in run.steps if (step, one) in run.of and (step, other) in run.of]
            yield from ((run.of[step, one], run.of[step, other]) for step in steps)


def _is_common(roles: Roles, name: str, one: int, other: int) -> bool:
    """Return whether two ranks hold a parameter in common: replicas that vary over its elements, or shards."""
    history = roles.parameters[one][name]
    values = history.values()
    sharded = history.last.sharded and roles.parameters[other][name].last.sharded
    varies = bool(values) and not values[0][1].is_constant
    return sharded or (varies and any({one, other} <= set(ranks) for ranks in roles.begin_equal(name)))


def different_steps(run: RunFacts) -> Iterator[Finding]:
    """Yield the first optimizer that steps on one rank and not on another one, or at another rate."""
    for own, other in _pairs(run):
        if not own.has_backward or not other.has_backward:
            continue
        found = _different(own.updates, other.updates, own.rank, other.rank)
        if found is not None:
            words, update = found
            yield Finding("steps_differ_on_ranks", words, "likely", own.step, other.rank, ranks=(own.rank, other.rank),
                          stack=update.stack, place=update.after)  # fmt: skip
            return


def _different(own: list[Update], other: list[Update], rank: int, other_rank: int) -> tuple[str, Update] | None:
    """Return what two ranks do differently in a step, in words, and the step of the optimizer."""
    if len(own) != len(other):
        longer = own if len(own) > len(other) else other
        words = (
            f"optimizers step {len(own)} times on rank {rank} and {len(other)} times on rank {other_rank}, which train "
            "one model: a rank leaves out a step that others make, as where it alone finds an overflow"
        )
        return words, longer[-1]
    for one, two in zip(own, other, strict=True):
        common = (name for name in one.rate_of if name in two.rate_of)
        apart = [name for name in common if not math.isclose(one.rate_of[name], two.rate_of[name], rel_tol=_SAME_RATE)]
        if apart:
            words = (
                f"{one.kind} moves {apart[0]} at a rate of {one.rate_of[apart[0]]:g} on rank {rank} and of "
                f"{two.rate_of[apart[0]]:g} on rank {other_rank}, which train one model: a scheduler follows what one "
                "rank alone knows, such as its own loss"
            )
            return words, two
    return None


def shards_scaled_apart(run: RunFacts) -> Iterator[Finding]:
    """Yield shards of parameters whose gradients are made smaller by other factors on other ranks."""
    for own, other in _pairs(run):
        for one, two in zip(own.updates, other.updates, strict=False):
            left, right = _factor(own, one), _factor(other, two)
            if left is None or right is None or math.isclose(left, right, rel_tol=_SAME_FACTOR):
                continue
            reason = (
                f"between the backward pass and the step of {one.kind}, gradients of shards are multiplied by "
                f"{left:.4g} on rank {own.rank} and by {right:.4g} on rank {other.rank}: each rank clips by the norm "
                "of its own shards instead of the norm of all"
            )
            yield Finding("shards_scaled_apart", reason, "likely", own.step, other.rank, ranks=(own.rank, other.rank),
                          stack=two.stack, place=two.after)  # fmt: skip
            return


def _factor(facts: StepFacts, update: Update) -> float | None:
    """Return by what all gradients of shards were multiplied since the backward pass; None where that is no one
    number."""
    pairs = [
        (gradient.norm, facts.gradients[name][-1].norm)
        for name, gradient in (update.gradients or {}).items()
        if facts.gradients.get(name) and name in facts.parameters and facts.parameters[name].sharded
    ]
    return common_factor(pairs, _SAME_FACTOR) if len(pairs) >= _FEWEST_SHARDS else None


RULES = (
    Rule(
        "steps_differ_on_ranks",
        "replicas",
        "Optimizers of ranks that train one model step equally often, and at the same rates.",
        (PARAMETERS, RANKS, OPTIMIZERS, BACKWARD, TRAINING_RECORDS),
        "likely",
        "Reduce what decides over the ranks: whether a gradient overflows, and the loss that a scheduler follows.",
        of_run=different_steps,
    ),
    Rule(
        "shards_scaled_apart",
        "replicas",
        "Clipping multiplies the gradients of all shards by one number.",
        (PARAMETERS, RANKS, OPTIMIZERS, BACKWARD, TRAINING_RECORDS),
        "likely",
        "Clip by the norm over all ranks: torch.nn.utils.clip_grad_norm_ of the sharded parameters.",
        of_run=shards_scaled_apart,
    ),
)
