"""What rules need of a run, and what to do where it is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msprobe.check.facts.run_facts import RunFacts

BACKWARD, OPTIMIZERS, PARAMETERS, TRAINING_RECORDS = "backward", "optimizers", "parameters", "training_records"
MODULES, CALLS, STEPS, RANKS, COLLECTIVES = "modules", "calls", "steps", "ranks", "collectives"
EVALUATION, WITHOUT_GRADIENTS = "evaluation", "without_gradients"


class NeedOf(NamedTuple):
    """Whether a run has something, and the sentence for one that has not."""

    holds: Callable[[RunFacts], bool]
    missing: str


NEEDS: Mapping[str, NeedOf] = {
    BACKWARD: NeedOf(
        lambda run: any(facts.has_backward for facts in run.of.values()), "no backward pass lies between start and stop"
    ),
    OPTIMIZERS: NeedOf(
        lambda run: any(facts.updates for facts in run.of.values()),
        "no step of an optimizer lies between start and stop",
    ),
    PARAMETERS: NeedOf(
        lambda run: any(facts.parameters for facts in run.of.values()), "no parameters are recorded (level mix or L0)"
    ),
    TRAINING_RECORDS: NeedOf(
        lambda run: any(facts.has_training_records for facts in run.of.values()),
        "no training_records (level mix of this version, and not switched off)",
    ),
    MODULES: NeedOf(lambda run: any(facts.modules for facts in run.of.values()), "no modules are recorded (level mix)"),
    EVALUATION: NeedOf(
        lambda run: any(call.training is False for facts in run.of.values() for call in facts.modules),
        "no module runs in evaluation mode between start and stop",
    ),
    WITHOUT_GRADIENTS: NeedOf(
        lambda run: any(call.without_gradients for facts in run.of.values() for call in facts.modules),
        "no module runs without gradients (torch.no_grad) between start and stop",
    ),
    CALLS: NeedOf(lambda run: any(facts.entries for facts in run.of.values()), "no calls are recorded"),
    STEPS: NeedOf(lambda run: len(run.steps) > 1, "there is one step only; record two or three"),
    RANKS: NeedOf(lambda run: len(run.ranks) > 1, "there is one rank only"),
    COLLECTIVES: NeedOf(
        lambda run: any(facts.collectives for facts in run.of.values()),
        "no collectives are recorded (level mix or L1; a wrapper's own reductions are none)",
    ),
}
"""By key."""


def lacking(run: RunFacts, needs: tuple[str, ...]) -> str:
    """Return why a run cannot be judged by a rule with these needs; "" where it can."""
    return "; ".join(NEEDS[need].missing for need in needs if not NEEDS[need].holds(run))
