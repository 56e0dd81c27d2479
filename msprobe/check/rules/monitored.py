"""Rules for files of a training monitor, which have values of parameters and gradients and nothing about calls."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from msprobe.check.facts.monitor_files import LEVEL
from msprobe.check.facts.run_facts import RunFacts, histories
from msprobe.check.facts.step_facts import StepFacts
from msprobe.check.findings import Finding
from msprobe.check.needs import BACKWARD, PARAMETERS, STEPS
from msprobe.check.rule import Rule
from msprobe.check.rules.parameters import per_module

_FEWEST = 4
_GROWS, _STEADY = 0.5, 1.6


def growing(run: RunFacts) -> Iterator[Finding]:
    """Yield runs in which the gradients of nearly all parameters grow by about the first one in every step."""
    for rank, steps in run.by_rank():
        monitored = [facts for facts in steps if facts.level == LEVEL and facts.gradients]
        if len(monitored) < _FEWEST:
            continue
        names = [name for name in monitored[0].gradients if _norms(monitored, name)]
        grow = [name for name in names if _adds_up(_norms(monitored, name))]
        if len(names) > 1 and len(grow) > 0.8 * len(names):
            first = _norms(monitored, grow[0])
            reason = (
                f"the gradients of {len(grow)} of {len(names)} parameters grow step by step (such as {grow[0]}, norm "
                f"{first[0]:.3g} to {first[-1]:.3g} in {len(first)} steps), as if they were never cleared"
            )
            yield Finding("gradients_grow", reason, "possible", monitored[1].step, rank, parameter=grow[0])


def _norms(steps: list[StepFacts], name: str) -> list[float]:
    found = [facts.gradients[name][0].norm for facts in steps if facts.gradients.get(name)]
    return found if len(found) == len(steps) and all(norm > 0.0 for norm in found) else []


def _adds_up(norms: list[float]) -> bool:
    """Return whether each gradient is larger than the one before, by about the size of the first."""
    steps = [later - earlier for earlier, later in pairwise(norms)]
    return all(_GROWS * norms[0] * 0.2 < each < _STEADY * norms[0] * 2.0 for each in steps)


def still(run: RunFacts) -> Iterator[Finding]:
    """Yield parameters that no step changes, while others move."""
    for rank, steps in run.by_rank():
        monitored = [facts for facts in steps if facts.level == LEVEL]
        if len(monitored) < 2:
            continue
        every = histories(monitored)
        moving = [one for one in every.values() if one.moves]
        found = []
        for history in every.values():
            gradients = [
                facts.gradients[history.name][0].norm for facts in monitored if facts.gradients.get(history.name)
            ]
            if history.moves or len(history.values()) < 3 or not moving or not any(norm > 0.0 for norm in gradients):
                continue
            reason = (
                f"{history.name} has the same statistics in all {len(monitored)} steps, although it has gradients "
                f"(norm {max(gradients):.3g}), and {len(moving)} other parameters move"
            )
            what = Finding("", reason, "likely", monitored[0].step, rank, parameter=history.name)
            found.append((history, what))
        yield from per_module("monitored_parameter_still", found)


RULES = (
    Rule(
        "gradients_grow",
        "monitor files",
        "Gradients do not grow by one more of their first size in every step.",
        (BACKWARD, STEPS),
        "possible",
        "Record three steps at level mix: there the rule gradients_not_cleared is certain.",
        of_run=growing,
    ),
    Rule(
        "monitored_parameter_still",
        "monitor files",
        "A parameter with gradients moves when others do.",
        (PARAMETERS, STEPS),
        "likely",
        "See whether the optimizer holds it.",
        of_run=still,
    ),
)
