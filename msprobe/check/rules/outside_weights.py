"""Weights outside of the model: what its functions read and train is a parameter of it."""

from __future__ import annotations

from collections.abc import Iterator

from msprobe.check.facts.run_facts import RunFacts, histories
from msprobe.check.facts.step_facts import OutsideWeight, StepFacts, differ
from msprobe.check.findings import Finding
from msprobe.check.needs import BACKWARD, CALLS, OPTIMIZERS, PARAMETERS, STEPS
from msprobe.check.rule import Rule

_SHOWN = 3


def outside_model(run: RunFacts) -> Iterator[Finding]:
    """Yield weights that functions of the model read, that get gradients, and that stay as they are while parameters
    of the model move."""
    for rank, steps in run.by_rank():
        trained = [facts for facts in steps if facts.updates and facts.parameters]
        if len(trained) < 2 or any(state.sharded for state in trained[0].parameters.values()):
            continue
        later = {one.call: one for facts in trained[1:] for one in facts.outside}
        still = [
            one
            for one in trained[0].outside
            if one.call in later and not differ(one.value, later[one.call].value, 0.0) and not _is_made(trained[0], one)
        ]
        moving = sum(history.moves for history in histories(trained).values())
        if not still or not moving:
            continue
        first, count = still[0], len(still)
        others = ", ".join(one.call for one in still[1 : 1 + _SHOWN])
        reason = (
            f"the weight that {first.function} reads{f' in {first.module}' if first.module else ''}, of shape "
            f"{list(first.value.shape)}, needs a gradient, is no parameter of the model, and stays as it is while "
            f"{moving} parameters move: its layer is kept in a list or dict of Python, so parameters() does not "
            "give it to the optimizer" + (f" (also {others}; {count} weights in all)" if others else "")
        )
        yield Finding(
            "weight_outside_model", reason, "likely", trained[0].step, rank, first.module or None, call=first.call,
            place=first.place,
        )  # fmt: skip


def _is_made(facts: StepFacts, one: OutsideWeight) -> bool:
    """Return whether a parameter of this shape gets gradients and no function reads it as it is: then the weight may be
    made of it by a function that is not recorded, such as one that rounds it."""
    return any(
        value is not None and value.shape == one.value.shape and not state.read
        for state in facts.parameters.values()
        for value in (state.used or state.left,)
        if state.requires_grad
    )


RULES = (
    Rule(
        "weight_outside_model",
        "parameters",
        "A weight that a function of the model reads and trains is a parameter of the model.",
        (BACKWARD, OPTIMIZERS, PARAMETERS, CALLS, STEPS),
        "likely",
        "Keep layers in nn.ModuleList or nn.ModuleDict and weights as nn.Parameter, and make the optimizer after that.",
        of_run=outside_model,
    ),
)
